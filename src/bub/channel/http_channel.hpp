#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include <bub/channel.hpp>
#include <bub/channel/channel_manager.hpp>
#include <bub/channel/delivery_log.hpp>
#include <bub/channel/follows_messages.hpp>
#include <bub/channel/sent_file.hpp>
#include <bub/turn_error.hpp>
#include <cubepi/core/agent_event.hpp>
#include <cubepi/net/http_server.hpp>

namespace bub {

/// The records of the sessions of the channel, for the requests that read a message or a session, or end a turn. Implemented by the program
/// that has the channel manager and the tapes. Used on the manager's executor.
class HttpSessions {
public:
    virtual ~HttpSessions() = default;
    /// Returns {session, id, state} of a message, with ok, error, finish and outputs as a reply has them if its turn has ended; nothing
    /// if there is no such message. `state`: pending, running, held, waiting (for the answer to a question), answered or failed.
    /// `user`: of its sender, if the records have it; `stop`: true for a request to stop; `in_background`: true if its turn continues
    /// without clients. Clients receive none of them.
    virtual Task<std::optional<JsonObject>> message(std::string id) = 0;
    /// Returns {session, state, waiting, questions, messages, before} of a session: its newest `limit` messages, oldest first, before
    /// the entry `before` (0: the end). Nothing if there is no such session.
    virtual Task<std::optional<JsonObject>> session(std::string session, std::size_t limit,
                                                    std::int64_t before) = 0;
    /// ChannelManager::stop_turn(), at whichever gateway the turn runs.
    virtual Task<StopOutcome> stop(Envelope by) = 0;
    /// Waits until the turn of a message may have ended at another gateway, for `limit` at most. Returns false if that is not known then;
    /// message() has its state. By default it is to be read soon.
    virtual Task<bool> wait_for_end(std::string id, std::string session,
                                    std::chrono::milliseconds limit);
    /// Returns true if other gateways process messages of the channel, too.
    virtual bool is_shared() const { return false; }
    /// Passes a request to HttpChannel::answer_elsewhere() of the gateway with this number, or of all others. Returns the answer of one
    /// that has what the request is about, with its number as the member `gateway`; nothing if none has. Throws Error(unavailable) if none of those
    /// that have answered has it, and others have not answered. By default nothing.
    virtual Task<std::optional<JsonObject>> ask_elsewhere(JsonObject request, std::string gateway);
};

/// The key of Envelope::rest of a message whose turn continues without clients (HttpChannel::is_in_background()); its value is true.
inline constexpr std::string_view background_key = "in_background";

/// Throws Error(invalid_argument) for a chat that clients of the channel cannot name as their session.
void check_http_chat(std::string_view chat);

/// Returns the attachments in the member `files` of a client's message: a list of at most ten objects {name, type, content}, whose content
/// is base64. Throws Error(parse).
std::vector<MediaItem> message_files(const JsonObject& message);

/// The error of a reply whose turn was stopped.
inline constexpr std::string_view stopped_text = "The turn was stopped.";
/// The error of a request to stop whose user may not stop the turn.
inline constexpr std::string_view refused_stop_text =
    "only the user whose message is being processed, or an operator, may stop it";

/// A part of the reply to a message.
struct HttpReplyPart {
    enum class Kind : std::uint8_t {
        text,       ///< `text` was generated
        reasoning,  ///< `text` is what the model thinks before it answers
        event,      ///< `event` is about a call of a tool
        restart,    ///< the turn is tried again: its text and its outputs follow from the beginning
        output,     ///< `value` is one of the outputs
        done,  ///< the turn has ended; `value` is the reply with all outputs, and has usage_key if the message asked for it
        pending,  ///< the turn will not end in this process; `value` has the id of the message, and is empty if the message is lost
    };

    Kind kind = Kind::text;
    std::string text = {};
    JsonObject value = {};
    /// Of `event`: the start or the end of a call, or the progress of a sub-agent.
    std::shared_ptr<const cubepi::AgentEvent> event = {};
};

/// The parts of a reply that arrive before its turn ends, in addition to its outputs.
enum class HttpReplyDetail : std::uint8_t {
    outputs,  ///< nothing
    text,     ///< the text while it is generated
    events,   ///< also the reasoning and the calls of tools
};

namespace detail {
class HttpExchange;
class HttpParts;
}  // namespace detail

/// The reply to a message while it is made, for other interfaces. Used on the manager's executor.
class HttpReply {
public:
    HttpReply(std::shared_ptr<detail::HttpExchange> exchange, std::stop_token draining,
              std::stop_token stopping);

    const std::string& id() const noexcept;
    const std::string& session() const noexcept;
    /// The turn of the message has begun and has not ended.
    bool running() const noexcept;
    bool done() const noexcept;
    /// The turn will not end in this process.
    bool lost() const noexcept;
    /// Returns the next part; nothing if there is none yet. Parts of the kinds `done` and `pending` are the last.
    std::optional<HttpReplyPart> poll();
    /// Waits until there may be another part, or `closed` is requested.
    Task<> wait(std::stop_token closed);

private:
    std::shared_ptr<detail::HttpExchange> exchange_;
    std::stop_token draining_;
    std::stop_token stopping_;
    std::shared_ptr<detail::HttpParts> parts_;
    std::size_t turn_ = 0;
    std::size_t outputs_ = 0;
    bool ended_ = false;
};

/// A message that was submitted: the reply, or why it was not accepted.
struct HttpSubmission {
    std::shared_ptr<HttpReply> reply = {};  ///< null: not accepted
    cubepi::HttpServerResponse refusal = {};
};

class HttpChannel;

/// Routes of a channel that have an authentication of their own, and the limits of the channel.
struct HttpInterface {
    std::string name = {};  ///< in the log
    /// Empty: every request is allowed; bodies are then not received.
    cubepi::HttpAuthentication authentication = {};
    /// Called by the constructor of the channel, which outlives the routes.
    std::function<void(cubepi::HttpRoutes& routes, HttpChannel& channel)> add = {};
};

struct HttpChannelOptions {
    /// The server of the channel's routes, which it may share. Required.
    std::shared_ptr<cubepi::HttpServer> server = {};
    std::size_t max_body_bytes = 1 << 20;  ///< limit of a request
    std::size_t max_requests = 512;  ///< that are received or wait for their answers at a time
    /// The token that every request must have (`Authorization: Bearer TOKEN`). Required.
    std::string token = {};
    /// Users (the member `user` of a message) who are operators: they may answer every question and use comma commands.
    std::vector<std::string> operators = {};
    /// Null: messages are found while their replies are held in memory, and the other requests get the status 404.
    std::shared_ptr<HttpSessions> sessions = {};
    /// The number of replies that are held for clients that repeat a request, and their size in bytes.
    std::size_t remembered = 1'000;
    std::size_t max_remembered_bytes = 64 << 20;
    /// Limit of the streamed parts that wait for a slow client, in bytes. Beyond it, parts are omitted; the message that ends
    /// the answer is complete.
    std::size_t max_waiting_text = 1 << 20;
    /// Limit of the files that the turn of a message sends, in bytes.
    std::size_t max_reply_files = 20'000'000;
    /// The text for the client whose message is not accepted, or whose turn fails without an output of kind `error`. Null: the
    /// description of the failure, which may name models, addresses and files.
    FailureText failure_text = {};
    /// Adds routes of another interface to the ones of the channel, with their token and limits. Called by the constructor of the channel,
    /// which outlives them. Empty: none.
    std::function<void(cubepi::HttpRoutes& routes, HttpChannel& channel)> add_routes = {};
    /// Interfaces with an authentication of their own. Their routes are added after those of `add_routes`.
    std::vector<HttpInterface> interfaces = {};
};

/// A channel for programs: `POST /v1/messages` sends a message to a session and returns the answer of its turn, as JSON or as
/// server-sent events; other requests read messages and sessions, and end turns (docs/guides/bub/http-channel.md). Used on the manager's executor.
class HttpChannel final : public Channel,
                          public FollowsTurns,
                          public FollowsMessages,
                          public SettlesDeliveries,
                          public SendsFiles {
public:
    /// Throws Error(invalid_argument) if there is no token or no server.
    HttpChannel(HttpChannelOptions options, MessageHandler handler);
    ~HttpChannel() override;

    const std::string& name() const noexcept override;
    /// Returns the port of the server.
    std::uint16_t port() const noexcept;

    // For other interfaces: answer a request as the routes `POST /v1/messages`, `GET /v1/sessions/{session}` and
    // `POST /v1/sessions/{session}/stop` do. The parameter `session` of the request stands for that of the path, and `id` is the id of the
    // message of an interface that has ids of its own, in place of an Idempotency-Key (D291).
    /// For texts of models: `user` has no rights of an operator, a text that begins as a command gets a mark before it, and an `answer_to` is
    /// refused (B11, B24).
    Task<cubepi::HttpServerResponse> post_message(cubepi::HttpServerRequest request);
    Task<cubepi::HttpServerResponse> read_session(cubepi::HttpServerRequest request);
    Task<cubepi::HttpServerResponse> stop_session(cubepi::HttpServerRequest request);
    /// Returns the state of a message and its answer, as the route `GET /v1/messages/{id}` does.
    Task<cubepi::HttpServerResponse> read_message(cubepi::HttpServerRequest request);
    /// Submits the message of a request to `POST /v1/messages`, and returns when it was accepted. `more` is added to Envelope::rest.
    /// Refuses a message that would end a turn.
    Task<HttpSubmission> submit_message(cubepi::HttpServerRequest request, HttpReplyDetail detail,
                                        JsonObject more = {});
    /// Returns true if the answer to a message is awaited by another client than the one that has left, or that cancels it.
    using IsAwaited = std::function<Task<bool>()>;
    /// Ends the turn of the message with this id in this session, or takes the message back if it waits for its turn, also at another
    /// gateway; other turns of the session continue. Returns when that is done, when the message is over, when `is_awaited` returns true, and
    /// at the end of the channel, which closes the connections of clients itself. Waits for a message that is on its way to its turn, if it
    /// has arrived at this gateway.
    Task<> stop_message(std::string id, std::string session, IsAwaited is_awaited = {});
    /// Returns true if the message with this id has no answer yet, and its turn continues when its clients leave (background_key).
    bool is_in_background(const std::string& id) const;
    /// The same as stop_message(), in the background, for a client that has left: another gateway may take longer than its request may last.
    void abandon_message(std::string id, std::string session, IsAwaited is_awaited = {});

    // For readers at other gateways (D254).

    /// Answers a request of the channel of another gateway; nothing if this one does not have what it is about.
    using AnswerElsewhere = std::function<Task<std::optional<JsonObject>>(JsonObject request)>;
    Task<std::optional<JsonObject>> answer_elsewhere(JsonObject request);
    /// Answers the requests of another interface.
    void add_answers(AnswerElsewhere answers);
    /// HttpSessions::ask_elsewhere(); nothing without sessions.
    Task<std::optional<JsonObject>> ask_elsewhere(JsonObject request, std::string gateway);

    Task<> start(std::stop_token stopping) override;
    Task<> stop() override;
    /// Throws Error(not_found) if the turn of the message that is answered does not run. Ignores notices about rejected messages, which the
    /// status of their responses reports.
    Task<> send(Envelope message) override;
    EventStream stream_events(const Envelope& message, EventStream stream) override;
    UnsettledPolicy unsettled_policy() const noexcept override { return UnsettledPolicy::hold; }
    /// A client that repeats the request of the message receives the answer of its turn.
    void restore(Envelope& message) override;
    void accept(const Envelope& message) noexcept override;
    void begin_turn(const Envelope& message) noexcept override;
    void end_turn(const Envelope& message, std::exception_ptr failure) noexcept override;
    /// The message gets the outputs of the turn.
    void join_turn(const Envelope& message, const Envelope& turn) noexcept override;
    void postpone_turn(const Envelope& message) noexcept override;
    void drop(const Envelope& message) noexcept override;
    void drain() noexcept override;

private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace bub
