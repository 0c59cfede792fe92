#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/net/http_server.hpp>
#include <cubepi/provider/openai/server_api.hpp>

#include "openai_runs.hpp"

namespace cubepi::app {

/// The call of a client's tool whose output a session waits for.
struct OpenAIOpenCall {
    std::string question = {};
    std::string name = {};
};

/// An output of a call in a request.
struct OpenAIOutput {
    OpenAICallName call = {};
    const detail::OpenAIClientMessage* message = nullptr;
};

/// Where a request belongs: its session, and the outputs of calls of this session that it has, in their order.
struct OpenAIDestination {
    std::string session = {};  ///< empty: a new one
    std::vector<OpenAIOutput> outputs = {};
    /// The request ends with outputs of calls of the session, which continue its run.
    bool answers = false;
    std::optional<HttpServerResponse> refusal = {};
};

/// Finds the destination of a request. `session`: named by the request, or of its previous response; empty: that of the calls whose
/// outputs the request ends with (D214). Refers to the request.
OpenAIDestination destination_of(const detail::OpenAIClientRequest& request, std::string session,
                                 const OpenAIResponseNames& names);

/// Returns the calls whose outputs a session waits for. `questions`: those of the session.
std::vector<OpenAIOpenCall> open_calls_of(const JsonArray& questions);

/// Returns the members `answer_to` and `answer` of the message that answers an approval.
JsonObject approval_body(const detail::OpenAIClientApproval& approval);

/// A request of a client to a session.
struct OpenAISubmission {
    detail::OpenAIClientRequest request = {};
    std::string session = {};  ///< that the request names, or of its previous response; empty: none
    std::string_view protocol = {};  ///< separates the ids of messages
    bool with_earlier = false;       ///< the session does not have what precedes the last message
    bub::HttpReplyDetail detail = bub::HttpReplyDetail::text;
    /// Members of messages that answer questions; they precede the outputs of calls.
    std::vector<JsonObject> answers = {};
    JsonArray context = {};   ///< facts for the model
    std::string digest = {};  ///< of digest_of(); empty: the id names one request only
    std::optional<bool> is_known =
        {};  ///< an earlier request had the same id; absent: not read yet
};

/// Returns the requests to `POST /v1/messages`, whose checks and limits hold for them, for a request of a client: the answers to questions
/// and to calls, or its last message. The last one has `id`, because its turn has the answer. None if there is no message.
std::vector<HttpServerRequest> message_requests(const OpenAISubmission& submission,
                                                const OpenAIDestination& destination,
                                                std::string_view id, const HttpServerRequest& from);

/// Returns a digest of what a request has for the agent, its messages and `answers`, by which a repeated one is recognized.
std::string digest_of(const detail::OpenAIClientRequest& request, const JsonArray& answers);

/// Returns what the messages of a request add to Envelope::rest.
JsonObject envelope_members(const detail::OpenAIClientRequest& request);

}  // namespace cubepi::app
