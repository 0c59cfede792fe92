#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <bub/channel/http_channel.hpp>
#include <cubepi/net/http_server.hpp>
#include <cubepi/provider/openai/server_api.hpp>

#include "agui.hpp"
#include "http_openai.hpp"
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

using RunPtr = std::shared_ptr<OpenAIRun>;

/// Returns the time in Unix seconds.
std::int64_t seconds_now();

class OpenAIInterface;

/// A client that waits for the answer to a message, from its request on. The turn ends with the last one that leaves before the answer is
/// complete, at whichever gateways they are (D215).
class Reader {
public:
    Reader(OpenAIInterface& interface, std::string message);
    Reader(const Reader&) = delete;
    Reader& operator=(const Reader&) = delete;
    ~Reader() { leave(); }
    void leave();

private:
    OpenAIInterface* interface_;
    const std::string message_;
};

/// A request of a client whose message was accepted, or why it was not.
struct OpenAISubmitted {
    bub::HttpSubmission message = {};
    std::shared_ptr<Reader> reader = {};
};

/// One more, until its end.
class Counted {
public:
    explicit Counted(std::size_t& count) : count_(count) { ++count_; }
    Counted(const Counted&) = delete;
    Counted& operator=(const Counted&) = delete;
    ~Counted() { --count_; }

private:
    std::size_t& count_;
};

/// The last response of a WebSocket, which its next message may continue although it was not stored.
struct OpenAILastResponse {
    std::string id = {};
    std::string session = {};
};

/// The handlers of the routes of a key, and their shared state: http_openai.cpp has OpenAI's protocols and their WebSocket, http_agui.cpp
/// AG-UI.
class OpenAIInterface {
public:
    OpenAIInterface(bub::HttpChannel& channel, OpenAIKey key);

    Task<HttpServerResponse> list_models(HttpServerRequest request);
    Task<HttpServerResponse> read_model(HttpServerRequest request);
    Task<HttpServerResponse> complete_chat(HttpServerRequest request);
    Task<HttpServerResponse> create_response(HttpServerRequest request) {
        return respond(std::move(request), nullptr);
    }
    /// Answers requests for responses on a WebSocket.
    Task<HttpServerResponse> connect(HttpServerRequest request);
    Task<HttpServerResponse> compact(HttpServerRequest request);
    Task<HttpServerResponse> read_response(HttpServerRequest request);
    Task<HttpServerResponse> cancel_response(HttpServerRequest request);
    /// Answers a run of AG-UI.
    Task<HttpServerResponse> run_agent(HttpServerRequest request);
    /// Answers this interface of another gateway: whether a message has readers here, or with the events of a response (D254). Nothing if
    /// it has none, or is not held here.
    Task<std::optional<JsonObject>> answer_elsewhere(JsonObject request);

private:
    Task<std::optional<JsonObject>> events_for(JsonObject request);
    /// How far the events of a response that another gateway holds were read.
    struct RemoteEvents {
        std::shared_ptr<Reader> reader = {};
        OpenAIResponseName name = {};
        std::string id = {};
        std::string gateway = {};  ///< its number; empty: all are asked
        std::size_t next = 0;
        std::vector<std::string> events = {};
        bool ended = false;
    };
    Task<bool> read_events(std::shared_ptr<RemoteEvents> events, bool waits);
    Task<> write_events_elsewhere(std::shared_ptr<RemoteEvents> events, std::stop_token closed,
                                  ResponseStream* out);
    /// Returns the stream of a response that another gateway holds; nothing if none does.
    Task<std::optional<HttpServerResponse>> events_elsewhere(std::shared_ptr<RemoteEvents> events,
                                                             std::stop_token closed);
    JsonObject model() const;
    /// `last`: of the WebSocket of the request, or null.
    Task<HttpServerResponse> respond(HttpServerRequest request, OpenAILastResponse* last);
    Task<> serve_socket(HttpServerRequest request, WebSocket* socket);
    /// Returns the session that a request names; empty: none.
    std::string session_of(const detail::OpenAIClientRequest& request) const;
    /// Submits the messages of a request.
    Task<OpenAISubmitted> submit(HttpServerRequest from, OpenAISubmission submission);
    Task<bub::HttpSubmission> submit_as(std::string id, HttpServerRequest from,
                                        OpenAISubmission submission);
    Task<bub::HttpSubmission> submit_all(std::vector<HttpServerRequest> messages,
                                         bub::HttpReplyDetail detail, JsonObject members,
                                         std::stop_token closed);
    /// Returns the questions of a session that wait for answers, also those for outputs of the client's calls.
    Task<JsonArray> open_questions(std::string session);
    /// Checks that a run of AG-UI answers the questions of its thread, and adds the answers to its submission.
    Task<std::optional<HttpServerResponse>> check_answers(AguiRequest* asked, AguiRunHead* head,
                                                          OpenAISubmission* submission);
    /// Returns the id of the message of a request: that of its Idempotency-Key for this key of the gateway, protocol and user, or a new one.
    std::string message_id(const HttpServerRequest& request, std::string_view protocol,
                           const std::string& user) const;
    /// Checks that a request has the outputs of all calls that its session waits for, and removes those that it does not wait for.
    /// `is_known`: an earlier request with the same id was accepted.
    Task<std::optional<HttpServerResponse>> check_outputs(OpenAIDestination* destination,
                                                          bool is_known, bool has_approval);
    /// Returns the state of a message and its answer; nothing if it is not known. `session`: that of the message; empty: any.
    Task<std::optional<JsonObject>> known_message(std::string id, std::string session);
    OpenAIRun::CallId call_ids(std::string session) const {
        return [this, session = std::move(session)](std::string_view question) {
            return names_.call_id_of({session, std::string(question)});
        };
    }
    /// The last reader of a message here has left.
    void abandon(const std::string& message);
    /// Returns true if a client waits for the answer to a message here or at another gateway. One that does not reply has none.
    Task<bool> is_read(std::string message);
    /// A response in the background is for clients that come later.
    bool is_read_here(const std::string& message) const;
    Task<> write_events(std::shared_ptr<Reader> reader, RunPtr run, std::size_t from,
                        std::stop_token closed, ResponseStream* out);
    HttpServerResponse events_of(RunPtr run, std::shared_ptr<Reader> reader, std::size_t from,
                                 std::stop_token closed);
    Task<HttpServerResponse> await_response(RunPtr run, std::shared_ptr<Reader> reader,
                                            std::stop_token closed);
    Task<HttpServerResponse> read_record(OpenAIResponseName name, std::string id,
                                         std::optional<std::int64_t> stream_after);

    bub::HttpChannel* channel_;
    OpenAIResponseNames names_;
    const std::string user_;  // of all messages; empty: the requests name users
    const std::size_t most_turns_;
    OpenAIRuns runs_;
    friend class Reader;
    std::map<std::string, std::size_t, std::less<>> readers_;  // by message
    std::size_t submitting_ = 0;  // requests whose run is not in runs_ yet
    std::size_t sockets_ = 0;     // WebSockets that are open
    std::int64_t created_;
};

}  // namespace cubepi::app
