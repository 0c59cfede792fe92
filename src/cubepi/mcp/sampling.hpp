#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <cubepi/agent/hitl_channel.hpp>
#include <cubepi/core/json.hpp>
#include <cubepi/core/task.hpp>
#include <cubepi/provider/provider.hpp>

namespace cubepi {

class RunAccount;
class StreamOptions;

/// The limits within which servers may have a model answer during a call (D163). Each request is a question to the user.
struct McpSamplingOptions {
    /// Returns the model that answers. Servers' wishes for another one are ignored.
    std::function<BoundModel()> model = {};
    std::int64_t max_tokens = 4096;  ///< of one answer; a server that asks for more gets this
    std::size_t max_per_call = 4;    ///< further requests of a call are refused
    std::size_t max_prompt_bytes = std::size_t{256} * 1024;
    std::chrono::nanoseconds timeout = std::chrono::minutes(5);  ///< of the model, not of the user
};

/// A request of a server for an answer of a model, and who pays for it.
struct McpSamplingRequest {
    std::string server = {};      ///< for the question: the name, and for which calls it asks
    JsonObject params = {};       ///< of `sampling/createMessage`
    bool may_have_tools = false;  ///< the revision of the protocol has them
    std::shared_ptr<HitlChannel> channel = {};  ///< of the user; not null
    std::shared_ptr<RunAccount> account = {};   ///< is charged; null: no run

    McpSamplingRequest() {}
};

/// Asks the user, who sees server, prompt, model and limit of the answer, and then the model. Returns the result for the server. Throws
/// McpInputRefused if the user does not allow it, or the model or the budget of the run fails, and McpError for a request that is
/// invalid, too large, or has what models here do not take.
Task<JsonObject> answer_mcp_sampling(std::shared_ptr<const McpSamplingOptions> options,
                                     McpSamplingRequest request, StreamOptions call);

namespace detail {

/// Returns the request to the model; throws McpError.
ModelRequest sampling_request(const McpSamplingOptions& options, const McpSamplingRequest& request);
/// Returns the text of the question to the user.
std::string sampling_question(const McpSamplingRequest& request, const ModelRequest& asked);
/// Returns the result for the server.
JsonObject sampling_result(const AssistantMessage& answer);

}  // namespace detail

}  // namespace cubepi
