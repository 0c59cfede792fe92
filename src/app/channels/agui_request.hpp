#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <cubepi/core/json.hpp>
#include <cubepi/provider/openai/server_api.hpp>

namespace cubepi::app {

/// The beginning of the ids of calls of the agent's own tools.
inline constexpr std::string_view agui_call_prefix = "tool_";

/// A call of one of the agent's tools of which the client has no result: the run that continues it adds the result to it.
struct AguiOpenCall {
    std::string id = {};
    std::string name = {};
    Json arguments = {};
    bool is_asked = false;  ///< a question is about it, whose arguments may have been completed
};

/// The answer of a client to a question (`resume`).
struct AguiAnswer {
    std::string question = {};
    bool is_cancelled = false;
    Json payload = {};
};

/// A `RunAgentInput` (docs.ag-ui.com), without the history: the tape of the session has it.
struct AguiRequest {
    std::string thread = {};
    std::string run = {};
    /// The messages after the last one of the agent: outputs of calls of the client's tools, then messages of the user.
    detail::OpenAIClientRequest client = {};
    JsonArray context = {};  ///< {description, value}
    JsonObject state = {};   ///< of the client
    std::vector<AguiAnswer> answers = {};
    /// Those of a request with answers, at most 1,000, as the client has them, oldest first. What it invents here is seen by that client only.
    std::vector<AguiOpenCall> open_calls = {};
};

/// Reads the body of a request. Throws detail::OpenAIRequestError.
AguiRequest read_agui_request(std::string_view body);

}  // namespace cubepi::app
