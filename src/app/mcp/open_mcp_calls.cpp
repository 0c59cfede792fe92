#include "open_mcp_calls.hpp"

#include <algorithm>
#include <cstddef>
#include <set>
#include <string_view>
#include <utility>

#include <bub/tape/tape_session.hpp>
#include <cubepi/core/support/json_member.hpp>

#include "../transcript.hpp"

namespace cubepi::app {

namespace {

/// The last answer and the results of its other calls are among them.
constexpr std::size_t newest_entries = 200;

/// Returns the tool that a call runs in the end: a deferred tool has the call of another one (D122).
std::string_view called_tool(const ToolCall& call) {
    if (call.name != "deferred_tool_call") return call.name.str();
    return detail::string_member(call.arguments, "tool_name");
}

}  // namespace

std::vector<std::string> servers_of_open_calls(const MessageList& messages,
                                               const std::vector<std::string>& servers) {
    std::set<std::string_view> answered;
    for (std::size_t i = messages.size(); i > 0; --i) {
        const Message& message = messages[i - 1];
        if (const ToolResultMessage* const result = message.tool_result())
            answered.insert(result->tool_call_id.str());
        const AssistantMessage* const answer = message.assistant();
        if (!answer) continue;
        std::vector<std::string> called;
        for (const AssistantContent& block : answer->content) {
            const auto* const call = std::get_if<ToolCall>(&block);
            if (!call || answered.contains(call->id.str())) continue;
            const std::string_view tool = called_tool(*call);
            if (tool == "subagent") return servers;
            for (const std::string& server : servers) {
                if (tool.starts_with("mcp__" + server + "__")) called.push_back(server);
            }
        }
        return called;
    }
    return servers;
}

Task<std::vector<std::string>> servers_of_suspended_run(std::shared_ptr<bub::TapeStore> tapes,
                                                        std::string tape,
                                                        std::vector<std::string> servers) {
    std::vector<std::string> called;
    const JsonObject state = co_await tapes->read_state(tape);
    if (!bub::has_suspended_run(state)) co_return called;
    const MessageList messages = co_await read_end(tapes, std::move(tape), newest_entries);
    called = servers_of_open_calls(messages, servers);
    co_return called;
}

}  // namespace cubepi::app
