#include <string>

#include <gtest/gtest.h>

#include <cubepi/acp/updates.hpp>
#include <cubepi/middleware/todo_list.hpp>
#include <cubepi/schema/json_text.hpp>
#include <cubepi/schema/parse_json.hpp>

namespace cubepi {
namespace {

AgentEvent starting(std::string id, std::string tool, JsonObject args) {
    AgentEvent event;
    ToolExecutionStartEvent start;
    start.tool_call_id = std::move(id);
    start.tool_name = std::move(tool);
    start.args = std::move(args);
    event.body = std::move(start);
    return event;
}

AgentEvent ending(std::string id, std::string tool, AgentToolResult result) {
    AgentEvent event;
    ToolExecutionEndEvent end;
    end.tool_call_id = std::move(id);
    end.tool_name = std::move(tool);
    end.result = std::move(result);
    event.body = std::move(end);
    return event;
}

TEST(AcpUpdatesTest, RepeatedIdOfModel_IsAnotherCall) {
    AcpUpdates updates("/project");
    const JsonObject args{{"path", "a"}};
    const auto first = updates.of(starting("c", "read", args));
    (void)updates.of(ending("c", "read", "one"));
    const auto second = updates.of(starting("c", "read", args));
    ASSERT_EQ(first.size(), 1U);
    ASSERT_EQ(second.size(), 1U);
    EXPECT_NE(first[0].at("toolCallId"), second[0].at("toolCallId"));
    EXPECT_EQ(first[0].at("locations"), parse_json(R"([{"path":"/project/a"}])"));
    // A result without a call is not shown.
    EXPECT_TRUE(updates.of(ending("d", "read", "two")).empty());
}

TEST(AcpUpdatesTest, Edit_HasDiff) {
    AcpUpdates updates("/project");
    const JsonObject args{{"path", "/x/a.c"}, {"old_text", "1"}, {"new_text", "2"}};
    const auto made = updates.of(starting("c", "edit", args));
    ASSERT_EQ(made.size(), 1U);
    EXPECT_EQ(made[0].at("content"),
              parse_json(R"([{"type":"diff","path":"/x/a.c","oldText":"1","newText":"2"}])"));
    EXPECT_EQ(acp_diff("/a", "@@ -1,2 +1,2 @@\n same\n-old\n+new\n", false).at("oldText"),
              Json("same\nold\n"));
    EXPECT_EQ(acp_diff("/a", "@@ -0,0 +1 @@\n+new", true).if_contains("oldText"), nullptr);
}

TEST(AcpUpdatesTest, LongTitle_IsCutBetweenCharacters) {
    AcpUpdates updates("/project");
    std::string command = "echo ";
    for (int i = 0; i < 300; ++i) command += "ä";
    const auto made =
        updates.of(starting("c", "shell", JsonObject{{"command", command + "\nrm x"}}));
    const std::string title(made.at(0).at("title").as_string());
    EXPECT_LE(title.size(), 204U);
    EXPECT_TRUE(title.ends_with("ä…")) << title;
}

TEST(AcpUpdatesTest, D15_DiscardedAnswer_IsSeparatedFromTheNext) {
    AcpUpdates updates("/project");
    AgentEvent event;
    NoticeEvent notice;
    notice.notice.code = "retry";
    notice.notice.text = "the answer was cut off";
    event.body = notice;
    EXPECT_TRUE(updates.of(event).empty());
    notice.notice.details["discarded"] = "m1";
    event.body = notice;
    const auto made = updates.of(event);
    ASSERT_EQ(made.size(), 1U);
    EXPECT_EQ(made[0].at("sessionUpdate"), Json("agent_thought_chunk"));
    EXPECT_EQ(made[0].at("content").at("text"), Json("the answer was cut off\n\n"));
}

TEST(AcpUpdatesTest, Conversation_IsRepeatedInItsOrder) {
    AssistantMessage answer;
    answer.content.emplace_back(TextContent{"I look."});
    ToolCall call;
    call.id = "c";
    call.name = "read";
    call.arguments = JsonObject{{"path", "a"}};
    answer.content.emplace_back(std::move(call));
    ToolResultMessage result;
    result.tool_call_id = "c";
    result.tool_name = "read";
    result.content.emplace_back(TextContent{"text"});
    MessageList messages{user_message("Look"), Message(answer), Message(result)};
    AcpUpdates updates("/project");
    std::string kinds;
    for (const JsonObject& update : updates.replay(messages))
        kinds += std::string(update.at("sessionUpdate").as_string()) + " ";
    EXPECT_EQ(kinds, "user_message_chunk agent_message_chunk tool_call tool_call_update ");
}

}  // namespace
}  // namespace cubepi
