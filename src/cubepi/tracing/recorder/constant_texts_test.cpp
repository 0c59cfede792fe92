#include <cubepi/tracing/recorder/constant_texts.hpp>

#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace cubepi::detail {
namespace {

TextList list_of(RecentLists& recent, const std::vector<SharedString>& texts) {
    return recent.list_of(texts, std::identity());
}

std::vector<std::string> texts_in(const TextList& list) {
    std::vector<std::string> texts;
    for (const SharedString& text : list) texts.push_back(text.str());
    return texts;
}

TEST(RecentLists, AllocateListsThatAlternateOnce) {
    RecentLists recent;
    const TextList calls = list_of(recent, {"tool_use"});
    const TextList stop = list_of(recent, {"stop"});
    for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(list_of(recent, {"tool_use"}).begin(), calls.begin());
        EXPECT_EQ(list_of(recent, {"stop"}).begin(), stop.begin());
    }
}

TEST(RecentLists, ReplaceTheOldest) {
    RecentLists recent;
    for (int i = 0; i < 20; ++i) {
        const std::string text = std::to_string(i);
        EXPECT_EQ(texts_in(list_of(recent, {SharedString(text), "same"})),
                  (std::vector<std::string>{text, "same"}));
    }
    EXPECT_TRUE(list_of(recent, {}).empty());
}

}  // namespace
}  // namespace cubepi::detail
