// The servers that a run calls first when it continues.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include <cubepi/core/message.hpp>

#include "mcp/mcp_hub.hpp"

namespace cubepi::app {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const std::vector<std::string> servers = {"git", "docs", "a__b"};

ToolCall call(const std::string& id, const std::string& tool, JsonObject arguments = {}) {
    ToolCall made;
    made.id = id;
    made.name = tool;
    made.arguments = std::move(arguments);
    return made;
}

Message calls(const std::vector<ToolCall>& all) {
    AssistantMessage answer;
    for (const ToolCall& one : all) answer.content.emplace_back(one);
    return Message(std::move(answer));
}

Message result(const std::string& id) {
    ToolResultMessage made;
    made.tool_call_id = id;
    return Message(std::move(made));
}

TEST(OpenMcpCalls, CallsWithoutResult_NameTheirServers) {
    MessageList messages;
    messages.push_back(calls({call("1", "mcp__docs__read")}));
    messages.push_back(result("1"));
    messages.push_back(calls({call("1", "mcp__git__log"), call("2", "mcp__docs__read"),
                              call("3", "shell"), call("4", "mcp__other__x")}));
    messages.push_back(result("2"));
    EXPECT_THAT(servers_of_open_calls(messages, servers), ElementsAre("git"));
    messages.push_back(result("1"));
    EXPECT_THAT(servers_of_open_calls(messages, servers), IsEmpty());
}

TEST(OpenMcpCalls, DeferredCall_NamesTheServerOfItsTool) {
    MessageList messages;
    messages.push_back(calls({call("1", "deferred_tool_call", {{"tool_name", "mcp__a__b__x"}})}));
    EXPECT_THAT(servers_of_open_calls(messages, servers), ElementsAre("a__b"));
}

TEST(OpenMcpCalls, Subagent_MayCallAllServers) {
    MessageList messages;
    EXPECT_EQ(servers_of_open_calls(messages, servers), servers) << "nothing is known";
    messages.push_back(calls({call("1", "subagent")}));
    EXPECT_EQ(servers_of_open_calls(messages, servers), servers);
}

}  // namespace
}  // namespace cubepi::app
