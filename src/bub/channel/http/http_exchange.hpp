#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <bub/channel/http_channel.hpp>
#include <bub/channel/sent_file.hpp>
#include <bub/channel/shared/access.hpp>
#include <bub/envelope.hpp>
#include <bub/event_stream.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/net/http_server.hpp>

namespace bub::detail {

/// Users are named by the client.
using HttpAccess = shared::Access<std::string>;

/// The contents of a request to `/v1/messages`.
struct HttpMessage {
    std::string session = {};
    bool has_session = false;  ///< the client has named the session
    std::string id = {};       ///< the same when the client repeats the request with its key
    /// The id that versions without D291 made of its key; empty: the same. For HttpChannel::State::find_earlier().
    std::string earlier_id = {};
    std::string user = {};
    Envelope envelope = {};
};

/// Returns the id of the message of this user with this Idempotency-Key (D291). An empty user is the program that has the token: then the
/// id is the key, except that a key in the form of the ids of users, or of those that a tape derives (is_derived_id()), gets one of the first form,
/// too, so that each id has one user and key.
std::string message_id(std::string_view user, std::string_view key);

/// Returns the session of a message whose client names only its key: always the same, since the session selects the database in which the
/// key is looked for (D266).
std::string session_of_id(const std::string& id);

/// Reads a request. Throws Error(parse) with the reason if it is not one. A session or key that is absent is a new one. The path may
/// have the session; then another one in the body is an error. The parameter `id`, which no path of a client has, is the id of the message of
/// another interface.
HttpMessage read_message(const cubepi::HttpServerRequest& request, const HttpAccess& access);

/// Reads a message of a model, for HttpChannel::post_message(). It has no answer to a question, and its text begins neither with a comma nor
/// with a slash, so that no part of the pipeline reads a command, a request to stop or an answer in it (B11, B24).
HttpMessage read_model_message(const cubepi::HttpServerRequest& request, const HttpAccess& access);

/// Reads a request to end the turn of the session of its path, as a message with the text `/stop`. Its body may be empty or name the
/// `user`; without one it is a request of the program that has the token, which may end every turn.
HttpMessage read_stop(const cubepi::HttpServerRequest& request, const HttpAccess& access);

/// Throws Error(parse) if the id cannot be one of a session or message: it is empty or longer than 200 bytes, or is not printable text.
void check_id(std::string_view what, std::string_view id);
/// The same for the session of a client, which is not that of a sub-agent (D101).
void check_session(std::string_view session);

/// Returns a digest of what a client has sent, the same after a restart.
std::string content_digest(const Envelope& message);

/// The parts of a turn that wait for one client.
class HttpParts {
public:
    /// Adds a part of this size in bytes. It is omitted if more than `limit` bytes would wait, and so is all text that follows an omitted
    /// one in this turn: the client has a beginning of the text.
    void add(const HttpReplyPart& part, std::size_t bytes, std::size_t limit);
    /// Returns the next part; nothing if there is none.
    std::optional<HttpReplyPart> take();
    void clear();
    std::size_t bytes() const noexcept { return bytes_; }

private:
    std::deque<HttpReplyPart> parts_;
    std::size_t bytes_ = 0;
    bool omits_text_ = false;
};

/// How far the text of a turn that another gateway runs was read.
struct RemoteText {
    std::string gateway = {};  ///< its number; empty: none has answered yet
    bool is_lost = false;      ///< it has not answered the last request
    std::size_t turn = 0;
    std::size_t position = 0;  ///< in bytes
    std::size_t refusals = 0;  ///< requests without an answer since the last one that had one
};

/// A message of a client and the outputs of its turn.
class HttpExchange {
public:
    /// The response to a message that was not accepted.
    struct Refusal {
        unsigned status = 503;
        std::string text = {};
    };

    HttpExchange(std::string id, std::string chat, std::string digest)
        : id_(std::move(id)), chat_(std::move(chat)), digest_(std::move(digest)) {}

    /// Another turn on the message follows: a client that asks meanwhile waits for its answer.
    void reopen() noexcept { done_ = false; }
    /// A turn begins on the message.
    void begin();
    /// The turn has failed, and another one begins later.
    void postpone() { running_ = false; }
    /// The turn has ended. `error`: why it failed; empty if it succeeded.
    void end(std::string error);
    /// Another gateway has ended the turn: `record` is its reply, as HttpSessions::message() returns it.
    void end_elsewhere(const JsonObject& record);

    /// The message was not accepted.
    void refuse(Refusal refusal);

    const std::string& id() const noexcept { return id_; }
    const std::string& chat() const noexcept { return chat_; }
    /// Returns true if `message`, with the same id, is the message of this exchange.
    bool is_of(const HttpMessage& message) const;
    /// The turn has ended.
    bool done() const noexcept { return done_; }
    bool running() const noexcept { return running_; }
    /// The number of turns that have begun; the outputs are those of the last one.
    std::size_t turns() const noexcept { return turns_; }
    /// Returns true if the turn has ended with a question.
    bool has_asked() const;
    /// The failure of the turn, or why an answer was not accepted; empty if it succeeded.
    const std::string& error() const noexcept { return error_; }
    /// The last output of kind `error`; empty: none.
    const std::string& problem() const noexcept { return problem_; }
    const std::optional<Refusal>& refusal() const noexcept { return refusal_; }
    const JsonArray& outputs() const noexcept { return outputs_; }
    /// How an answer of the model that is not complete ended (finish_key); empty: it is complete.
    const std::string& finish() const noexcept { return finish_; }
    /// The tokens of the turn (usage_key); empty if they are not known.
    const JsonObject& usage() const noexcept { return usage_; }
    /// Returns the approximate size of what is held for a client, in bytes.
    std::size_t size() const noexcept {
        return output_bytes_ + first_parts_.bytes() + shared_text_.size() + error_.size();
    }
    /// `file`: of an output of kind `file`; null: none.
    void add_output(const Envelope& message, const SentFile* file = nullptr);
    /// Returns the size of the files among the outputs, in bytes.
    std::size_t file_bytes() const noexcept { return file_bytes_; }
    /// Adds what clients read of an event of the turn, with the limit of HttpParts::add() for each of them.
    void add_event(const StreamEvent& event, std::size_t limit);
    /// Returns the parts of the turn's events for one more client, from the beginning of the turn. Those of a turn that has ended are for
    /// its first client: the outputs repeat them.
    std::shared_ptr<HttpParts> read_parts();
    /// Waits for the next change.
    Task<> wait() { return changed_.wait(); }
    void wake() { changed_.pulse(); }

    /// Adds text of a turn that another gateway runs.
    void add_text(std::string text, std::size_t limit);
    /// Returns the text of the turn from its beginning, if it is retained.
    const std::string& shared_text() const noexcept { return shared_text_; }

    bool submitting = false;  ///< it is not known yet whether the message is accepted
    bool admitted = false;    ///< the manager has decided about the message
    bool recorded = false;    ///< the message is in the delivery log, and outlives the process
    bool elsewhere = false;   ///< the reply does not come to this exchange
    std::string user = {};    ///< of the message; empty: none
    std::string request_digest = {};  ///< of the message (request_digest_key); empty: none
    bool is_stop = false;             ///< the message is a request to stop (stop_key)
    bool is_in_background = false;    ///< its clients may leave (background_key)
    std::size_t waiting =
        0;  ///< clients that wait for the end of the turn, without those that read its parts
    HttpReplyDetail detail = HttpReplyDetail::outputs;  ///< what a client reads of the turn
    bool shares_text = false;  ///< the text of the turn is retained for readers at other gateways
    RemoteText remote = {};    ///< of a turn that another gateway runs
    /// Returns true while a client reads the reply.
    bool has_readers() const noexcept;

private:
    void add_part(const HttpReplyPart& part, std::size_t bytes, std::size_t limit);
    /// Calls `call` with the parts of each client that still reads.
    template <class Call>
    void for_readers(const Call& call);

    const std::string id_;
    const std::string chat_;
    const std::string digest_;
    JsonArray outputs_;
    std::size_t output_bytes_ = 0;
    std::size_t file_bytes_ = 0;
    HttpParts first_parts_;  // of the turn, for clients that come later
    std::vector<std::weak_ptr<HttpParts>> readers_;
    std::string shared_text_;
    std::string error_;
    std::string problem_;
    std::string finish_;
    JsonObject usage_;
    std::optional<Refusal> refusal_;
    bool running_ = false;
    bool done_ = false;
    std::size_t turns_ = 0;
    cubepi::AsyncEvent changed_;
};

/// The exchanges of a channel: those in progress, and the latest that have ended.
class HttpExchanges {
public:
    /// The limits of the exchanges that have ended.
    HttpExchanges(std::size_t remembered, std::size_t max_bytes)
        : remembered_(remembered), max_bytes_(max_bytes) {}

    /// Returns null if there is none.
    std::shared_ptr<HttpExchange> find(const std::string& id) const;
    std::shared_ptr<HttpExchange> add(const Envelope& message);
    /// Ends the exchange of a message that was not accepted. It may be sent again. Does nothing if its turn has begun here: the message
    /// was stored by a call that has failed, and the turn answers it.
    void refuse(const std::shared_ptr<HttpExchange>& exchange, HttpExchange::Refusal refusal);
    /// Forgets the exchange of a message whose turn another one follows.
    void forget(const std::shared_ptr<HttpExchange>& exchange);
    /// Another gateway processes the message: its clients are told to ask again, at any gateway.
    void leave(const std::shared_ptr<HttpExchange>& exchange);
    /// Returns the exchange whose turn runs in the chat; null: none.
    std::shared_ptr<HttpExchange> current(const std::string& chat) const;

    void begin_turn(const std::shared_ptr<HttpExchange>& exchange);
    void end_turn(const std::shared_ptr<HttpExchange>& exchange, std::string error);
    /// Wakes all clients, at the end of the channel.
    void wake_all();

private:
    /// An exchange that has ended, and its size.
    struct Ended {
        std::string id = {};
        std::size_t bytes = 0;
    };

    const std::size_t remembered_;
    const std::size_t max_bytes_;
    std::size_t bytes_ = 0;                                                        // of ended_
    std::map<std::string, std::shared_ptr<HttpExchange>, std::less<>> exchanges_;  // by id
    std::map<std::string, std::shared_ptr<HttpExchange>, std::less<>> current_;    // by chat
    std::deque<Ended> ended_;                                                      // oldest first
};

}  // namespace bub::detail
