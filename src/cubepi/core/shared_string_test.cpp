#include <cubepi/core/shared_string.hpp>

#include <functional>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <unordered_set>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace cubepi {
namespace {

TEST(SharedString, CopiesShareOneText) {
    static_assert(sizeof(SharedString) == sizeof(void*));
    const SharedString one = "a text that is too long to live inside a string";
    const SharedString copy = one;
    EXPECT_EQ(copy.c_str(), one.c_str());
    EXPECT_EQ(one, SharedString(one.str()));
    EXPECT_EQ(one.size(), 47u);
}

TEST(SharedString, EmptyIsEmptyHoweverItIsMade) {
    for (const SharedString& one : {SharedString(), SharedString(""), SharedString(std::string()),
                                    SharedString(std::string_view())}) {
        EXPECT_TRUE(one.empty());
        EXPECT_EQ(one.size(), 0u);
        EXPECT_EQ(one.str(), "");
        EXPECT_EQ(one, SharedString());
    }
    EXPECT_NE(SharedString("x"), SharedString());
}

TEST(SharedString, MovesAndAssigns) {
    SharedString one = "one";
    SharedString two = std::move(one);
    EXPECT_TRUE(one.empty());  // NOLINT(bugprone-use-after-move)
    one = two;
    two = "two";
    EXPECT_EQ(one, "one");
    EXPECT_EQ(two, std::string("two"));
    two = *&two;
    EXPECT_EQ(two, std::string_view("two"));
    std::ostringstream out;
    out << one << SharedString();
    EXPECT_EQ(out.str(), "one");
}

TEST(SharedString, IsOrderedAsTextOfEveryKind) {
    const SharedString b = "b";
    EXPECT_LT(SharedString("a"), b);
    EXPECT_LT(SharedString(), b);
    EXPECT_LT("a", b);
    EXPECT_LT(b, "ba");
    EXPECT_LT(std::string("a"), b);
    EXPECT_GT(std::string("c"), b);
    EXPECT_GE(std::string_view("b"), b);
    EXPECT_LE(b, std::string_view("b"));
    const std::map<SharedString, int> ranks{{"one", 1}, {"two", 2}};
    EXPECT_EQ(ranks.at("two"), 2);
}

TEST(SharedString, IsAKeyThatATextFinds) {
    const SharedString name = "read";
    EXPECT_EQ(std::hash<SharedString>()(name), std::hash<std::string>()("read"));
    EXPECT_EQ(std::hash<SharedString>()(SharedString()), std::hash<std::string_view>()(""));
    std::unordered_set<SharedString> names{name, "write"};
    EXPECT_TRUE(names.contains("write"));
    EXPECT_FALSE(names.contains("grep"));
}

TEST(SharedString, LooksIntoItsText) {
    const SharedString name = "toolu_017";
    EXPECT_TRUE(name.starts_with("toolu_"));
    EXPECT_TRUE(name.ends_with("17"));
    EXPECT_TRUE(name.contains("u_0"));
    EXPECT_FALSE(name.contains("call"));
    EXPECT_FALSE(SharedString().starts_with("t"));
    EXPECT_TRUE(SharedString().ends_with(""));
    EXPECT_EQ("id " + name + "!", "id toolu_017!");
    EXPECT_EQ(format_as(name), "toolu_017");
}

TEST(SharedString, CopiesOnSeveralThreads) {
    SharedString text = "shared";
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
        threads.emplace_back([text] {
            for (int n = 0; n < 1000; ++n) {
                EXPECT_EQ(SharedString(text), "shared");
            }
        });
    }
    text = SharedString();
    for (std::thread& thread : threads) thread.join();
}

TEST(SharedString, NamesThatCameAgainAreShared) {
    const SharedString first = shared_name("gpt-5.1");
    EXPECT_EQ(first.c_str(), shared_name("gpt-5.1").c_str());
    EXPECT_EQ(shared_name("gpt-5.2"), "gpt-5.2");
    EXPECT_TRUE(shared_name("").empty());
}

}  // namespace
}  // namespace cubepi
