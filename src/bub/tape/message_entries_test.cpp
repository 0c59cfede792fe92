#include <bub/tape/entry/message_entries.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace bub::detail {
namespace {

using namespace cubepi;

Message calls(int count) {
    AssistantMessage answer;
    for (int i = 0; i < count; ++i) {
        ToolCall call;
        call.id = "c" + std::to_string(i);
        call.name = "add";
        answer.content.push_back(std::move(call));
    }
    return Message(std::move(answer));
}

Message result(int number) {
    ToolResultMessage message;
    message.tool_call_id = "c" + std::to_string(number);
    message.tool_name = "add";
    TextContent text;
    text.text = "result " + std::to_string(number);
    message.content.push_back(std::move(text));
    return Message(std::move(message));
}

// If the work per result grew with the number of earlier results, this would take hours.
TEST(MessageEntries, ResultsOfManyCallsCostTheirNumber) {
    constexpr int count = 20'000;
    MessageEntries entries;
    std::vector<TapeEntry> made;
    entries.add(calls(count), made);
    for (int i = count; i-- > 0;) entries.add(result(i), made);
    ASSERT_EQ(made.size(), count + 1u);
    EXPECT_EQ(made[1].kind, entry_kind::event);
    EXPECT_EQ(made.back().kind, entry_kind::tool_result);
    const JsonArray& texts = made.back().payload.at("results").as_array();
    ASSERT_EQ(texts.size(), static_cast<std::size_t>(count));
    EXPECT_EQ(texts.front(), Json("result 0"));
    EXPECT_EQ(texts.back(), Json("result " + std::to_string(count - 1)));
    EXPECT_FALSE(entries.expects("c0"));
}

TEST(MessageEntries, ResumesWithTheResultsSoFar) {
    MessageEntries first;
    std::vector<TapeEntry> made;
    first.add(calls(3), made);
    first.add(result(2), made);
    first.add(result(2), made);  // the same call twice: the first result counts
    first.add(result(0), made);
    std::vector<TapeEntry> newest_first(made.rbegin(), made.rend());
    MessageEntries second;
    second.resume(newest_first);
    EXPECT_TRUE(second.expects("c1"));
    std::vector<TapeEntry> rest;
    second.add(result(1), rest);
    ASSERT_EQ(rest.size(), 1u);
    EXPECT_EQ(rest[0].kind, entry_kind::tool_result);
    const JsonArray expected{"result 0", "result 1", "result 2"};
    EXPECT_EQ(rest[0].payload.at("results").as_array(), expected);
}

}  // namespace
}  // namespace bub::detail
