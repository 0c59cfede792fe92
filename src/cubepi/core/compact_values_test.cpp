#include <cubepi/core/compact_values.hpp>

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <unordered_set>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/core/message.hpp>
#include <cubepi/core/shared_string.hpp>
#include <cubepi/core/usage.hpp>

namespace cubepi {
namespace {

using List = ContentList<std::string>;

const std::string longer = "a text that does not fit into the string itself";

TEST(ContentList, Size_IsTwoWords) { static_assert(sizeof(List) == 2 * sizeof(void*)); }

TEST(ContentList, BlocksOrVector_MakeAList) {
    EXPECT_TRUE(List().empty());
    const List listed = {"a", longer};
    const List moved = std::vector<std::string>{"a", longer};
    EXPECT_EQ(listed, moved);
    EXPECT_EQ(moved.size(), 2u);
    EXPECT_EQ(moved.front(), "a");
    EXPECT_EQ(moved.back(), longer);
}

TEST(ContentList, Copies_AreIndependentWithoutSpareCapacity) {
    List list;
    for (int i = 0; i < 5; ++i) list.push_back(longer + std::to_string(i));
    List copy = list;
    EXPECT_EQ(copy, list);
    EXPECT_EQ(copy.capacity(), 5u);
    copy[4] = "changed";
    EXPECT_EQ(list[4], longer + "4");
    EXPECT_NE(copy, list);
    list = copy;
    EXPECT_EQ(list, copy);
}

TEST(ContentList, MovedFromList_IsEmptyAndUsable) {
    List list = {longer, "b"};
    const List moved = std::move(list);
    EXPECT_EQ(moved.size(), 2u);
    list = {"new"};
    EXPECT_EQ(list.size(), 1u);
}

/// Returns the list stored in `message`, as code inside the library can access it.
ContentList<Content>& list_in(const Message& message) {
    return const_cast<ContentList<Content>&>(message.user()->content);
}

TEST(ContentList, MovingListOfMessage_TakesItsBlocks) {
    ContentList<Content> moved;
    ContentList<Content> assigned = {TextContent{"old"}};
    {
        Message first = user_message(longer);
        Message second = user_message(longer + "2");
        moved = ContentList<Content>(std::move(list_in(first)));
        assigned = std::move(list_in(second));
        EXPECT_TRUE(first.user()->content.empty());
        EXPECT_TRUE(second.user()->content.empty());
        list_in(first).emplace_back(TextContent{"again"});
        EXPECT_EQ(first.text(), "again");
        list_in(second) = {TextContent{"assigned"}};
        EXPECT_EQ(second.text(), "assigned");
    }
    EXPECT_EQ(std::get<TextContent>(moved.at(0)).text, longer);
    EXPECT_EQ(std::get<TextContent>(assigned.at(0)).text, longer + "2");
    EXPECT_GT(moved.capacity(), 0u);
}

TEST(ContentList, SwappedListOfMessage_OutlivesTheMessage) {
    ContentList<Content> other = {TextContent{"other"}};
    {
        Message message = user_message(longer);
        Message neighbour = user_message("neighbour");
        list_in(message).swap(list_in(neighbour));
        EXPECT_EQ(message.text(), "neighbour");
        EXPECT_EQ(neighbour.text(), longer);
        list_in(neighbour).swap(other);
        EXPECT_EQ(neighbour.text(), "other");
        list_in(message).clear();
        list_in(message).swap(list_in(neighbour));
        EXPECT_EQ(message.text(), "other");
        EXPECT_TRUE(neighbour.text().empty());
    }
    EXPECT_EQ(std::get<TextContent>(other.at(0)).text, longer);
}

TEST(ContentList, GrowingList_AddsItsOwnBlocks) {
    List list = {longer};
    for (int i = 0; i < 6; ++i) list.push_back(list.front());
    EXPECT_EQ(list.size(), 7u);
    for (const std::string& one : list) EXPECT_EQ(one, longer);
}

TEST(ContentList, InsertEraseAndResize_KeepTheOrder) {
    List list = {"a", "c", longer};
    EXPECT_EQ(*list.insert(list.begin() + 1, "b"), "b");
    EXPECT_EQ(list, (List{"a", "b", "c", longer}));
    const auto next = list.erase(list.begin());
    EXPECT_EQ(*next, "b");
    const auto after = list.erase(list.begin() + 1, list.end());
    EXPECT_EQ(after, list.end());
    EXPECT_EQ(list, List{"b"});
    list.resize(2);
    EXPECT_EQ(list, (List{"b", ""}));
    list.pop_back();
    list.resize(0);
    EXPECT_TRUE(list.empty());
    list.clear();
}

TEST(ContentList, MissingBlock_IsRefused) {
    const List list = {"a"};
    EXPECT_EQ(list.at(0), "a");
    EXPECT_THROW((void)list.at(1), std::out_of_range);
}

TEST(LazyObject, Size_IsOneWord) {
    static_assert(sizeof(LazyObject) == sizeof(void*));
    LazyObject object;
    EXPECT_TRUE(object.empty());
    EXPECT_EQ(object.find("a"), nullptr);
    EXPECT_EQ(object.get(), JsonObject());
    object.erase("a");
    object["a"] = 1;
    object.edit()["b"] = "x";
    EXPECT_EQ(*object.find("a"), 1);
    EXPECT_EQ(object.get(), JsonObject({{"a", 1}, {"b", "x"}}));
    object.erase("a");
    object.erase("b");
    EXPECT_TRUE(object.empty());
    EXPECT_EQ(object, LazyObject());
    EXPECT_EQ(LazyObject(JsonObject()), LazyObject());
}

TEST(LazyObject, Keys_KeepTheirOrder) {
    LazyObject object = JsonObject{{"a", 1}, {"b", 2}, {"c", 3}, {"d", 4}};
    object.erase("b");
    EXPECT_EQ(boost::json::serialize(object.get()), R"({"a":1,"c":3,"d":4})");
}

TEST(LazyObject, D22_Copies_AreIndependent) {
    LazyObject one = JsonObject{{"a", 1}};
    LazyObject copy = one;
    copy["a"] = 2;
    EXPECT_EQ(*one.find("a"), 1);
    EXPECT_NE(one, copy);
    one = copy;
    EXPECT_EQ(one, copy);
    const LazyObject taken = std::move(copy);
    EXPECT_TRUE(copy.empty());  // NOLINT(bugprone-use-after-move)
    EXPECT_EQ(taken, one);
    one = *&one;
    EXPECT_EQ(taken, one);
}

using Text = SharedValue<std::string>;

TEST(SharedValue, Value_IsOneWordAndMayBeAbsent) {
    static_assert(sizeof(Text) == sizeof(void*));
    EXPECT_FALSE(Text());
    EXPECT_FALSE(Text(nullptr));
    EXPECT_EQ(Text(), nullptr);
    EXPECT_EQ(Text().get(), nullptr);
}

TEST(SharedValue, Copies_ShareTheValue) {
    const Text one(std::string("a"));
    Text other = one;
    EXPECT_EQ(one.get(), other.get());
    const Text moved = std::move(other);
    EXPECT_EQ(one.get(), moved.get());
    EXPECT_EQ(*moved, "a");
    EXPECT_EQ(moved->size(), 1u);
}

TEST(SharedValue, Equality_ComparesValues) {
    EXPECT_EQ(Text(std::string("a")), Text(std::string("a")));
    EXPECT_NE(Text(std::string("a")), Text(std::string("b")));
    EXPECT_NE(Text(std::string("a")), Text());
    EXPECT_EQ(Text(), Text());
}

TEST(SharedValue, SharedPointer_IsConvertible) {
    EXPECT_EQ(*Text(std::make_shared<const std::string>("a")), "a");
    EXPECT_FALSE(Text(std::shared_ptr<const std::string>()));
}

TEST(SharedString, Copies_ShareOneText) {
    static_assert(sizeof(SharedString) == sizeof(void*));
    const SharedString one = "a text that is too long to live inside a string";
    const SharedString copy = one;
    EXPECT_EQ(copy.c_str(), one.c_str());
    EXPECT_EQ(one, SharedString(one.str()));
    EXPECT_EQ(one.size(), 47u);
}

TEST(SharedString, EmptyString_IsEmptyHoweverMade) {
    for (const SharedString& one : {SharedString(), SharedString(""), SharedString(std::string()),
                                    SharedString(std::string_view())}) {
        EXPECT_TRUE(one.empty());
        EXPECT_EQ(one.size(), 0u);
        EXPECT_EQ(one.str(), "");
        EXPECT_EQ(one, SharedString());
    }
    EXPECT_NE(SharedString("x"), SharedString());
}

TEST(SharedString, MoveAndAssignment_KeepTheText) {
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

TEST(SharedString, Comparison_AcceptsAnyKindOfText) {
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

TEST(SharedString, Key_IsFoundByText) {
    const SharedString name = "read";
    EXPECT_EQ(std::hash<SharedString>()(name), std::hash<std::string>()("read"));
    EXPECT_EQ(std::hash<SharedString>()(SharedString()), std::hash<std::string_view>()(""));
    std::unordered_set<SharedString> names{name, "write"};
    EXPECT_TRUE(names.contains("write"));
    EXPECT_FALSE(names.contains("grep"));
}

TEST(SharedString, Search_ExaminesTheText) {
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

TEST(SharedString, CopiesOnSeveralThreads_AreSafe) {
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

TEST(SharedString, RepeatedNames_AreShared) {
    const SharedString first = shared_name("gpt-5.1");
    EXPECT_EQ(first.c_str(), shared_name("gpt-5.1").c_str());
    EXPECT_EQ(shared_name("gpt-5.2"), "gpt-5.2");
    EXPECT_TRUE(shared_name("").empty());
}

TEST(UnixTime, AbsentTime_FitsInOneWord) {
    static_assert(sizeof(UnixTime) == sizeof(double));
    EXPECT_FALSE(UnixTime());
    EXPECT_FALSE(UnixTime(std::nullopt));
    EXPECT_TRUE(UnixTime(0.0));
    EXPECT_EQ(UnixTime(), UnixTime());
    EXPECT_NE(UnixTime(), UnixTime(0.0));
    EXPECT_EQ(UnixTime().value_or(3), 3);
    EXPECT_EQ(UnixTime(1.5).value_or(3), 1.5);
}

TEST(UnixTime, Optional_IsConvertibleBothWays) {
    const std::optional<double> none = UnixTime();
    EXPECT_EQ(none, std::nullopt);
    const std::optional<double> some = UnixTime(2.5);
    EXPECT_EQ(some, 2.5);
    EXPECT_EQ(UnixTime(some), UnixTime(2.5));
    UnixTime time = 2.5;
    time.reset();
    EXPECT_FALSE(time);
}

TEST(UnixTime, NotANumber_IsAbsent) {
    EXPECT_FALSE(UnixTime(std::numeric_limits<double>::quiet_NaN()));
}

TEST(Usage, D12_AbsentCount_IsNotZero) {
    const TokenCount none;
    EXPECT_FALSE(none);
    EXPECT_NE(none, TokenCount(0));
    EXPECT_TRUE(TokenCount(0));
    EXPECT_EQ(none.value_or(7), 7);
    EXPECT_EQ(TokenCount(3).value_or(7), 3);
    EXPECT_EQ(TokenCount(-5), none);
    EXPECT_FALSE(TokenCount(-5).has_value());
}

TEST(Usage, TokenCount_ReachesATrillion) {
    static_assert(sizeof(TokenCount) == 5 && sizeof(Usage) == 30);
    EXPECT_EQ(*TokenCount(123'456'789'012), 123'456'789'012);
    EXPECT_EQ(*TokenCount(TokenCount::most), TokenCount::most);
    EXPECT_EQ(TokenCount(TokenCount::most + 1), TokenCount(TokenCount::most));
    EXPECT_TRUE(TokenCount(std::numeric_limits<std::int64_t>::max()).has_value());
}

TEST(Usage, D12_Sum_HasWhatAnyoneReported) {
    Usage sum;
    sum += Usage();
    EXPECT_EQ(sum, Usage());
    Usage one;
    one.input_tokens = 10;
    one.output_tokens = 0;
    sum += one;
    Usage two;
    two.input_tokens = 5;
    two.cache_read_tokens = 3;
    sum += two;
    EXPECT_EQ(sum.input_tokens, 15);
    EXPECT_EQ(sum.output_tokens, 0);
    EXPECT_EQ(sum.cache_read_tokens, 3);
    EXPECT_FALSE(sum.cache_write_tokens.has_value());
    EXPECT_FALSE(sum.reasoning_tokens.has_value());
}

}  // namespace
}  // namespace cubepi
