#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <bub/envelope.hpp>
#include <cubepi/agent/tool.hpp>
#include <cubepi/core/hitl_request.hpp>
#include <cubepi/core/model.hpp>

// Tools that the sender of a message executes (D214). A call of one is a question to the sender: the run is suspended on the tape, and the
// output of the call is the answer that continues it.

namespace bub {

/// The key of Envelope::rest with the tools of the sender, for the turn of the message: `{tools: [{name, description, parameters}],
/// choice, one_at_a_time}`. `choice`: "required", or the name of the tool that the model must call first; absent: the model decides.
/// `one_at_a_time`: each call waits for the output of the one before (true).
inline constexpr std::string_view client_tools_key = "client_tools";

/// A call of a tool of the sender, as its question describes it.
struct ClientCall {
    std::string name = {};
    JsonObject arguments = {};
};

/// Returns true if the request asks for the output of a call.
bool is_client_call(const cubepi::HitlRequest& request);
/// Returns the call whose output a request asks for (cubepi::to_json()); nothing for any other question.
std::optional<ClientCall> client_call_of(const JsonObject& request);

/// Returns the answer to such a question. `images`: data URLs.
JsonObject client_output(std::string text, const std::vector<std::string>& images);

/// The time for the output of a call if the program sets none for answers: a client that never sends it leaves no open run (D261).
inline constexpr std::chrono::hours longest_client_call{24 * 7};

/// Returns the tools of a message; empty if it has none. They ask on the channel of the agent, which must store its requests.
/// `time` is that for outputs; zero: longest_client_call. Throws Error(invalid_argument) if they are not in the form of
/// `client_tools_key`.
std::vector<cubepi::AgentTool> client_tools_of(const JsonObject& rest,
                                               std::chrono::nanoseconds time);
/// Returns the tool of a stored request, for the turn that continues its call; nothing if it is not about one.
std::optional<cubepi::AgentTool> client_tool_of(const cubepi::HitlRequest& request,
                                                std::chrono::nanoseconds time);
/// Returns what the model must call first.
std::optional<cubepi::ToolChoice> client_choice_of(const JsonObject& rest);

}  // namespace bub
