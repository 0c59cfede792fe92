#include <bub/channel/http_channel.hpp>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <bub/channel/debounce.hpp>
#include <bub/channel/delivery_log.hpp>
#include <bub/channel/http/http_exchange.hpp>
#include <bub/channel/http/http_reply.hpp>
#include <bub/channel/http/remote_replies.hpp>
#include <bub/questions.hpp>
#include <bub/turn_error.hpp>
#include <bub/turn_usage.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/core/support/percent_decoded.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/core/timeout.hpp>

namespace bub {

namespace {

using cubepi::Error;
using cubepi::ErrorCode;
using cubepi::HttpServerRequest;
using cubepi::HttpServerResponse;
using cubepi::Outcome;
using cubepi::ResponseStream;
using detail::HttpExchange;
using detail::HttpExchanges;
using detail::HttpMessage;
using detail::is_open;
using detail::pending_message;
using detail::ReplyEnds;
using detail::result_of;
using detail::write_events;
using ExchangePtr = std::shared_ptr<HttpExchange>;

constexpr std::string_view waiting_state = "waiting";
constexpr std::string_view user_key = "user";
constexpr std::size_t longest_page = 200;

/// Returns the state that a client sees while no record says more.
std::string_view state_of(const HttpExchange& exchange) {
    if (!exchange.done()) return exchange.running() ? "running" : "pending";
    if (!exchange.error().empty()) return "failed";
    return exchange.has_asked() ? waiting_state : "answered";
}

/// Returns a response that asks the client to send the request again later.
HttpServerResponse try_later(unsigned status, std::string_view text) {
    HttpServerResponse response = HttpServerResponse::error(status, text);
    response.headers.set("retry-after", status == 429 ? "1" : "5");
    return response;
}

HttpServerResponse refusal_response(const HttpExchange::Refusal& refusal) {
    if (refusal.status == 503 || refusal.status == 429)
        return try_later(refusal.status, refusal.text);
    return HttpServerResponse::error(refusal.status, refusal.text);
}

HttpServerResponse gateway_ends() {
    return try_later(503, "the gateway ends; send the message again later");
}

HttpServerResponse other_message() {
    return HttpServerResponse::error(422, "this Idempotency-Key belongs to another message");
}

HttpExchange::Refusal rejected(const std::exception_ptr& failure, const FailureText& text_of) {
    HttpExchange::Refusal refusal;
    refusal.text = "the message was not accepted: " + text_of(failure);
    try {
        std::rethrow_exception(failure);
    } catch (const Error& error) {
        if (error.code() == ErrorCode::limit) refusal.status = 429;
    } catch (...) {
    }
    return refusal;
}

/// Returns the response to a message that was accepted, and whose answer the client has to read later.
HttpServerResponse accepted(JsonObject message) {
    HttpServerResponse response = HttpServerResponse::json(202, Json(std::move(message)));
    response.headers.set("retry-after", "5");
    return response;
}

Envelope stopped_output() {
    Envelope output{std::string(stopped_text)};
    output.kind = envelope_kind::command;
    return output;
}

HttpExchange::Refusal not_admitted() {
    HttpExchange::Refusal refusal;
    refusal.text = "the message was dropped before it was accepted";
    return refusal;
}

/// Returns true while it is not known whether the message is accepted.
bool is_undecided(const HttpExchange& exchange) {
    return exchange.submitting && !exchange.running() && !exchange.done() && !exchange.elsewhere;
}

/// Counts a client that waits.
class Waiter {
public:
    explicit Waiter(ExchangePtr exchange) : exchange_(std::move(exchange)) { ++exchange_->waiting; }
    ~Waiter() { --exchange_->waiting; }
    Waiter(const Waiter&) = delete;
    Waiter& operator=(const Waiter&) = delete;

private:
    const ExchangePtr exchange_;
};

/// Waits until the turn of the message has ended. Returns false if it will not end here, or the client does not wait.
Task<bool> wait_for_end(ExchangePtr exchange, ReplyEnds ends) {
    const std::stop_callback on_close(ends.closed, [exchange] { exchange->wake(); });
    const Waiter waiter(exchange);
    while (!exchange->done()) {
        if (ends.reached(*exchange)) co_return false;
        co_await exchange->wait();
    }
    co_return true;
}

/// Returns the number that is the value of a parameter of the query; nothing if it is absent. Throws Error(parse) if the value is not one.
std::optional<std::int64_t> number_in(std::string_view query, std::string_view name) {
    const std::optional<std::string_view> text = cubepi::detail::query_value(query, name);
    if (!text) return std::nullopt;
    std::int64_t value = 0;
    const char* const last = text->data() + text->size();
    const auto [stop, failed] = std::from_chars(text->data(), last, value);
    if (failed != std::errc() || stop != last || value < 1)
        throw Error(ErrorCode::parse, "'" + std::string(name) + "' must be a positive number");
    return value;
}

/// Returns the user whose message a request reads; empty: none. Throws Error(parse) if the parameter is not percent-encoded.
std::string user_in(const HttpServerRequest& request) {
    const std::string_view encoded =
        cubepi::detail::query_value(request.query, "user").value_or("");
    std::optional<std::string> user = cubepi::detail::percent_decoded(encoded);
    if (!user) throw Error(ErrorCode::parse, "'user' must be percent-encoded");
    return std::move(*user);
}

/// Returns the session of the record of a message that a version without D291 has received; empty if it is not this message. The digest of
/// its request has the sender.
std::string earlier_session(const JsonObject& record, const HttpMessage& message) {
    using cubepi::detail::text_member;
    const std::string digest = text_member(message.envelope.rest, request_digest_key);
    const bool is_same = !digest.empty() && text_member(record, request_digest_key) == digest;
    return is_same ? text_member(record, "session") : std::string();
}

HttpChannelOptions completed(HttpChannelOptions options) {
    if (!options.server)
        throw Error(ErrorCode::invalid_argument, "the channel http needs a server");
    if (options.token.empty()) {
        throw Error(ErrorCode::invalid_argument,
                    "the channel http needs a token; make one: openssl rand -hex 16");
    }
    if (!options.failure_text) options.failure_text = describe;
    return options;
}

cubepi::HttpRouteOptions route_options(const HttpChannelOptions& options) {
    cubepi::HttpRouteOptions limits;
    limits.authentication = cubepi::bearer_authentication(options.token);
    limits.max_body_bytes = options.max_body_bytes;
    limits.max_requests = options.max_requests;
    return limits;
}

bool accepts_events(const HttpServerRequest& request) {
    return request.headers.get("accept").find("text/event-stream") != std::string_view::npos;
}

}  // namespace

struct HttpChannel::State {
    State(HttpChannelOptions given, MessageHandler accept)
        : options(std::move(given)),
          access({}, {}, {options.operators.begin(), options.operators.end()}),
          handler(std::move(accept)),
          exchanges(
              std::make_shared<HttpExchanges>(options.remembered, options.max_remembered_bytes)),
          routes(*options.server, name, route_options(options)),
          remote(options, exchanges) {
        routes.add("POST", "/v1/messages",
                   [this](HttpServerRequest request) { return post(std::move(request)); });
        routes.add("GET", "/v1/messages/{id}",
                   [this](HttpServerRequest request) { return read(std::move(request)); });
        routes.add("GET", "/v1/sessions/{session}",
                   [this](HttpServerRequest request) { return read_session(std::move(request)); });
        routes.add("POST", "/v1/sessions/{session}/messages",
                   [this](HttpServerRequest request) { return post(std::move(request)); });
        routes.add("POST", "/v1/sessions/{session}/stop",
                   [this](HttpServerRequest request) { return receive_stop(std::move(request)); });
    }

    /// Returns the exchange of a message that the manager has accepted. A message of no client, e.g. an answer from the inbox of the
    /// gateway, gets one that no client reads.
    ExchangePtr exchange_of(const Envelope& message) const;
    /// Returns the exchange that has the outputs of a message, or to which an output belongs; null: none.
    ExchangePtr exchange_with(const Envelope& message) const;
    using ReadRequest = HttpMessage (*)(const HttpServerRequest&, const detail::HttpAccess&);
    Task<HttpServerResponse> receive(HttpServerRequest request, ReadRequest read);
    Task<HttpServerResponse> post(HttpServerRequest request) {
        return receive(std::move(request), detail::read_message);
    }
    Task<HttpServerResponse> receive_stop(HttpServerRequest request) {
        return receive(std::move(request), detail::read_stop);
    }
    Task<HttpServerResponse> send(HttpMessage message, HttpServerRequest request);
    /// Returns the exchange of the message, after the manager has accepted or refused it, or when the client of a repeated request or this
    /// gateway does not wait for that. Null if its key belongs to another message.
    Task<ExchangePtr> exchange_for(HttpMessage message, HttpReplyDetail detail,
                                   std::stop_token closed);
    /// Looks for the message under its id of a version without D291, and sets this id. Otherwise a request that is repeated after the update
    /// would be a second message. Returns a refusal if that is not known. Can be removed when 90 days have passed since the last gateway was
    /// updated, with HttpMessage::earlier_id.
    Task<std::optional<HttpExchange::Refusal>> find_earlier(HttpMessage* message);
    Task<HttpServerResponse> read(HttpServerRequest request);
    Task<HttpServerResponse> read_session(HttpServerRequest request);
    Task<HttpServerResponse> stop_turn(HttpMessage message, HttpServerRequest request);
    Task<HttpServerResponse> reply(Envelope to, Envelope output, HttpServerRequest request);
    Task<> submit(ExchangePtr exchange, Envelope envelope);
    Task<HttpServerResponse> answer(ExchangePtr exchange, HttpServerRequest request);
    Task<> stop_message(std::string id, std::string session, IsAwaited is_awaited);
    Task<> stop_until_over(ExchangePtr exchange, std::shared_ptr<const Waiter> waiting, Envelope by,
                           IsAwaited is_awaited);
    Task<bool> try_stop(Envelope by, IsAwaited is_awaited);
    Task<std::optional<JsonObject>> record_of(std::string id) const;
    std::string error_of(const HttpExchange& exchange, const std::exception_ptr& failure) const;

    const std::string name = "http";
    const HttpChannelOptions options;
    const detail::HttpAccess access;
    const MessageHandler handler;
    const std::shared_ptr<HttpExchanges> exchanges;
    cubepi::HttpRoutes routes;
    std::deque<cubepi::HttpRoutes> interfaces;
    std::stop_source draining;
    std::stop_source stopping;
    std::stop_token manager_ends;
    std::vector<AnswerElsewhere> answers;
    detail::RemoteReplies remote;
    std::optional<cubepi::BackgroundScope> leaving;  // since start(): of abandon_message()
};

ExchangePtr HttpChannel::State::exchange_of(const Envelope& message) const {
    ExchangePtr exchange = exchanges->find(message.inbound_id.value_or(""));
    // An earlier process has received the message: its client may repeat the request.
    if (!exchange) exchange = exchanges->add(message);
    exchange->admitted = true;
    exchange->recorded = !message.receipts.empty();
    detail::RemoteReplies::note(*exchange, message);
    // The client here may have joined it, before this gateway took the message.
    if (message.rest.contains(background_key)) exchange->is_in_background = true;
    return exchange;
}

ExchangePtr HttpChannel::State::exchange_with(const Envelope& message) const {
    const std::string id = message.inbound_id.value_or("");
    ExchangePtr current = exchanges->current(message.chat_id.value_or(""));
    if (id.empty() || (current && current->id() == id)) return current;
    // Turns of several sessions may run in a chat, and a message may end without a turn.
    return exchanges->find(id);
}

Task<std::optional<JsonObject>> HttpChannel::State::record_of(std::string id) const {
    std::optional<JsonObject> record;
    if (options.sessions) record = co_await options.sessions->message(std::move(id));
    co_return record;
}

/// Returns what a client is told about the failure of a turn; empty if it succeeded.
std::string HttpChannel::State::error_of(const HttpExchange& exchange,
                                         const std::exception_ptr& failure) const {
    if (!failure) return {};
    if (cubepi::is_cancellation(failure)) return "the turn was ended before it was complete";
    try {
        std::rethrow_exception(failure);
    } catch (const SenderError& error) {
        return error.what();
    } catch (...) {
        // The others have no text for clients.
    }
    // The same text, with the same id, as in the output that reports the failure.
    return exchange.problem().empty() ? options.failure_text(failure) : exchange.problem();
}

Task<HttpServerResponse> HttpChannel::State::receive(HttpServerRequest request, ReadRequest read) {
    std::optional<HttpMessage> message;
    std::string problem;
    try {
        message = read(request, access);
    } catch (const Error& error) {
        problem = error.what();
    }
    if (!message) co_return HttpServerResponse::error(400, problem);
    Task<HttpServerResponse> answering = is_stop(message->envelope)
                                             ? stop_turn(std::move(*message), std::move(request))
                                             : send(std::move(*message), std::move(request));
    HttpServerResponse response = co_await std::move(answering);
    co_return response;
}

Task<ExchangePtr> HttpChannel::State::exchange_for(HttpMessage message, HttpReplyDetail detail,
                                                   std::stop_token closed) {
    Task<std::optional<HttpExchange::Refusal>> finding = find_earlier(&message);
    std::optional<HttpExchange::Refusal> refusal = co_await std::move(finding);
    if (refusal) {
        auto refused = std::make_shared<HttpExchange>(message.id, message.session, std::string());
        refused->refuse(std::move(*refusal));
        co_return refused;
    }
    ExchangePtr exchange = exchanges->find(message.id);
    if (exchange && !exchange->is_of(message)) co_return nullptr;
    if (!exchange) {
        exchange = exchanges->add(message.envelope);
        exchange->detail = detail;
        message.envelope.channel = name;
        exchange->submitting = true;
        Task<> submitting = submit(exchange, std::move(message.envelope));
        const Outcome<> submitted = co_await cubepi::outcome_of(std::move(submitting));
        exchange->submitting = false;
        exchange->wake();
        submitted.rethrow();
    } else {
        if (message.envelope.rest.contains(background_key)) exchange->is_in_background = true;
        // Its turn has not begun, so this client receives all of the text, too.
        if (!exchange->running()) exchange->detail = std::max(exchange->detail, detail);
    }
    // A message that is refused is refused to each of its clients.
    const ReplyEnds ends{closed, draining.get_token(), stopping.get_token()};
    const std::stop_callback on_close(closed, [exchange] { exchange->wake(); });
    while (is_undecided(*exchange) && !ends.reached(*exchange)) co_await exchange->wait();
    co_return exchange;
}

Task<std::optional<HttpExchange::Refusal>> HttpChannel::State::find_earlier(HttpMessage* message) {
    std::optional<HttpExchange::Refusal> refusal;
    const std::string id = std::exchange(message->earlier_id, {});
    if (id.empty() || exchanges->find(message->id)) co_return refusal;
    const ExchangePtr known = exchanges->find(id);
    std::string session;
    if (known && known->is_of(*message)) session = known->chat();
    if (!known) {
        // That of the key was another one, which may be in another database.
        const std::string expected =
            message->has_session ? message->session : detail::session_of_id(id);
        Task<std::optional<JsonObject>> reading = record_of(id);
        Outcome<std::optional<JsonObject>> read = co_await cubepi::outcome_of(std::move(reading));
        if (read.cancelled()) read.rethrow();
        if (!read && !excludes_message(read.failure(), name + ":" + expected))
            refusal = rejected(read.failure(), options.failure_text);
        // A text with suffixes may also be found as the repetition of another id.
        std::optional<JsonObject> record;
        if (read) record = std::move(read).value();
        if (record && cubepi::detail::text_member(*record, "id") == id)
            session = earlier_session(*record, *message);
    }
    if (session.empty() || (message->has_session && message->session != session)) co_return refusal;
    message->id = id;
    message->session = session;
    message->envelope.inbound_id = id;
    message->envelope.chat_id = session;
    co_return refusal;
}

Task<HttpServerResponse> HttpChannel::State::send(HttpMessage message, HttpServerRequest request) {
    const HttpReplyDetail detail =
        accepts_events(request) ? HttpReplyDetail::text : HttpReplyDetail::outputs;
    Task<ExchangePtr> submitting = exchange_for(std::move(message), detail, request.closed);
    ExchangePtr exchange = co_await std::move(submitting);
    if (!exchange) co_return other_message();
    if (is_undecided(*exchange) && !exchange->recorded) co_return gateway_ends();
    Task<HttpServerResponse> answering = answer(std::move(exchange), std::move(request));
    HttpServerResponse response = co_await std::move(answering);
    co_return response;
}

/// Ends the turn of the session; without one, the message withdraws the session's questions.
Task<HttpServerResponse> HttpChannel::State::stop_turn(HttpMessage message,
                                                       HttpServerRequest request) {
    if (!options.sessions)
        co_return HttpServerResponse::error(404, "this channel cannot stop turns");
    message.envelope.channel = name;
    HttpMessage withdrawal = message;
    withdrawal.envelope = withdrawal_of(message.envelope);
    ExchangePtr exchange = exchanges->find(message.id);
    // A repeated request does not stop a later turn.
    if (exchange && exchange->is_of(message)) {
        Task<HttpServerResponse> repeating = answer(std::move(exchange), std::move(request));
        HttpServerResponse response = co_await std::move(repeating);
        co_return response;
    }
    StopOutcome outcome = StopOutcome::idle;
    if (!exchange) {
        Task<StopOutcome> stopping = options.sessions->stop(message.envelope);
        outcome = co_await std::move(stopping);
    }
    if (outcome == StopOutcome::refused) {
        co_return HttpServerResponse::error(403, refused_stop_text);
    }
    Task<HttpServerResponse> replying =
        outcome == StopOutcome::idle
            ? send(std::move(withdrawal), std::move(request))
            : reply(message.envelope, stopped_output(), std::move(request));
    HttpServerResponse response = co_await std::move(replying);
    co_return response;
}

/// Returns a reply to a message that needs no turn.
Task<HttpServerResponse> HttpChannel::State::reply(Envelope to, Envelope output,
                                                   HttpServerRequest request) {
    ExchangePtr exchange = exchanges->add(to);
    exchange->add_output(output);
    exchanges->end_turn(exchange, {});
    Task<HttpServerResponse> answering = answer(std::move(exchange), std::move(request));
    HttpServerResponse response = co_await std::move(answering);
    co_return response;
}

/// Returns the state of a message, and its answer, without waiting for it. The records also know answers that came after the reply.
Task<HttpServerResponse> HttpChannel::State::read(HttpServerRequest request) {
    std::string user;
    std::string problem;
    try {
        user = user_in(request);
    } catch (const Error& error) {
        problem = error.what();
    }
    if (!problem.empty()) co_return HttpServerResponse::error(400, problem);
    // With a user the text is a key, or the id of a message of this user; without one an id, or a key that is not its id.
    std::string given(request.parameter("id"));
    std::vector<std::string> ids{detail::message_id(user, given)};
    if (ids.front() != given) ids.insert(user.empty() ? ids.begin() : ids.end(), given);
    std::optional<JsonObject> record;
    ExchangePtr exchange;
    for (std::size_t i = 0; i < ids.size() && !exchange && !record; ++i) {
        record = co_await record_of(ids[i]);
        exchange = exchanges->find(ids[i]);
        std::string sender = exchange ? exchange->user : std::string();
        if (record && !exchange) sender = cubepi::detail::text_member(*record, user_key);
        if (i == 0 || sender == user) continue;
        record.reset();
        exchange.reset();
    }
    if (!exchange && !record) {
        co_return HttpServerResponse::error(
            404,
            "no message with this id is known; the gateway remembers the last 1,000 finished ones, "
            "with a database those of 90 days");
    }
    for (const std::string_view key : {user_key, stop_key, background_key})
        if (record) record->erase(key);
    std::string state(exchange ? state_of(*exchange) : std::string_view());
    if (record) state = record->at("state").as_string().c_str();
    const bool has_reply = exchange && exchange->done() &&
                           (!record || !exchange->has_asked() || state == waiting_state);
    // The records know neither why a message was dropped nor what a hook has answered.
    if (has_reply && !is_open(state)) state = state_of(*exchange);
    JsonObject result;
    if (has_reply) {
        result = result_of(*exchange);
        // For interfaces that compare a repeated request.
        const Json* const digest = record ? record->if_contains(request_digest_key) : nullptr;
        if (digest) result[request_digest_key] = *digest;
    } else if (record) {
        result = std::move(*record);
    } else {
        result = pending_message(*exchange);
    }
    result["state"] = state;
    co_return HttpServerResponse::json(is_open(state) ? 202 : 200, Json(std::move(result)));
}

Task<HttpServerResponse> HttpChannel::State::read_session(HttpServerRequest request) {
    std::string session(request.parameter("session"));
    std::size_t limit = 50;
    std::int64_t before = 0;
    std::string problem;
    try {
        detail::check_session(session);
        limit = static_cast<std::size_t>(
            std::min<std::int64_t>(longest_page, number_in(request.query, "limit").value_or(50)));
        before = number_in(request.query, "before").value_or(0);
    } catch (const Error& error) {
        problem = error.what();
    }
    if (!problem.empty()) co_return HttpServerResponse::error(400, problem);
    std::optional<JsonObject> found;
    if (options.sessions) {
        Task<std::optional<JsonObject>> reading =
            options.sessions->session(std::move(session), limit, before);
        found = co_await std::move(reading);
    }
    if (!found) co_return HttpServerResponse::error(404, "no session with this id is known");
    co_return HttpServerResponse::json(200, Json(std::move(*found)));
}

/// Passes a message to the manager. Requests that repeat it meanwhile wait for the same exchange.
Task<> HttpChannel::State::submit(ExchangePtr exchange, Envelope envelope) {
    remote.announce(*exchange, envelope);
    Task<> accepting = handler(std::move(envelope));
    const Outcome<> accepted = co_await cubepi::outcome_of(std::move(accepting));
    if (accepted.cancelled()) {
        exchanges->refuse(exchange, not_admitted());
        // The manager ends, not this request, whose client is answered.
        if (!manager_ends.stop_requested()) accepted.rethrow();
    } else if (!accepted) {
        exchanges->refuse(exchange, rejected(accepted.failure(), options.failure_text));
    } else if (!exchange->admitted) {
        // It is known from before, another gateway works on its session, or the manager has ended after it was stored.
        Task<> following = remote.follow(exchange, draining.get_token());
        const Outcome<> followed = co_await cubepi::outcome_of(std::move(following));
        if (followed.cancelled()) followed.rethrow();
        // Otherwise the turn here answers it.
        if (followed || exchange->admitted) co_return;
        if (!exchange->request_digest.empty()) {
            exchanges->refuse(exchange, rejected(followed.failure(), options.failure_text));
        } else {
            // Without a key, a request that is repeated is another message.
            exchange->recorded = true;
            exchanges->leave(exchange);
        }
    }
}

Task<HttpServerResponse> HttpChannel::State::answer(ExchangePtr exchange,
                                                    HttpServerRequest request) {
    ReplyEnds ends{request.closed, draining.get_token(), stopping.get_token()};
    if (const auto& refusal = exchange->refusal()) co_return refusal_response(*refusal);
    if (accepts_events(request)) {
        auto reply = std::make_shared<HttpReply>(exchange, ends.draining, ends.stopping);
        auto write = [reply, closed = ends.closed](ResponseStream& out) {
            return write_events(reply, closed, out);
        };
        HttpServerResponse events = HttpServerResponse::events(std::move(write));
        co_return events;
    }
    const bool ended = co_await wait_for_end(exchange, std::move(ends));
    if (!ended && exchange->recorded) co_return accepted(pending_message(*exchange));
    if (!ended) co_return gateway_ends();
    if (const auto& refusal = exchange->refusal()) co_return refusal_response(*refusal);
    const Json result = result_of(*exchange);
    co_return HttpServerResponse::json(200, result);
}

Task<> HttpChannel::State::stop_message(std::string id, std::string session, IsAwaited is_awaited) {
    Envelope by("/stop");
    by.channel = name;
    by.chat_id = std::move(session);
    by.is_active = true;
    by.from_operator = true;
    ExchangePtr exchange = exchanges->find(id);
    by.rest[only_message_key] = std::move(id);
    // A hook may have chosen the session by the user.
    if (exchange && !exchange->user.empty()) by.context["sender_id"] = exchange->user;
    // From now on, and not from its first step: a message that another gateway processes is followed meanwhile.
    auto waiter = exchange ? std::make_shared<Waiter>(exchange) : nullptr;
    return stop_until_over(std::move(exchange), std::move(waiter), std::move(by),
                           std::move(is_awaited));
}

Task<> HttpChannel::State::stop_until_over(ExchangePtr exchange,
                                           [[maybe_unused]] std::shared_ptr<const Waiter> waiting,
                                           Envelope by, IsAwaited is_awaited) {
    constexpr std::chrono::milliseconds shortest{200};
    constexpr std::chrono::milliseconds longest{5'000};
    const ReplyEnds ends{{}, draining.get_token(), stopping.get_token()};
    cubepi::Clock& clock = *cubepi::Runtime::standard()->clock;
    for (std::chrono::milliseconds interval = shortest;;
         interval = std::min(longest, 2 * interval)) {
        const bool is_over = stopping.stop_requested() || (exchange && exchange->done());
        if (!options.sessions || is_over) co_return;
        Task<bool> ending = try_stop(by, is_awaited);
        Outcome<bool> ended = co_await cubepi::outcome_of(std::move(ending));
        // Another failure is that of a database, which may be usable again at the next attempt.
        if (ended.cancelled() || !exchange) ended.rethrow();
        const bool is_decided = ended.ok() && ended.value();
        if (is_decided || !exchange || ends.reached(*exchange)) co_return;
        // It is on its way to its turn, here or at the gateway of its session, which looks for messages in intervals. A text of its turn is not an end of that.
        const auto next = cubepi::deadline_after(clock.now(), interval);
        const bool was_running = exchange->running();
        for (bool has_changed = true; has_changed && !exchange->done() &&
                                      !ends.reached(*exchange) &&
                                      exchange->running() == was_running;) {
            Task<> changing = exchange->wait();
            has_changed = co_await cubepi::detail::run_until(clock, next, std::move(changing));
        }
    }
}

/// Returns true if no further attempt is needed.
Task<bool> HttpChannel::State::try_stop(Envelope by, IsAwaited is_awaited) {
    if (is_awaited) {
        Task<bool> asking = is_awaited();
        const bool awaited = co_await std::move(asking);
        if (awaited) co_return true;
    }
    Task<StopOutcome> ending = options.sessions->stop(std::move(by));
    const StopOutcome outcome = co_await std::move(ending);
    co_return outcome == StopOutcome::stopped;
}

HttpChannel::HttpChannel(HttpChannelOptions options, MessageHandler handler)
    : state_(std::make_unique<State>(completed(std::move(options)), std::move(handler))) {
    if (const auto& add = state_->options.add_routes) add(state_->routes, *this);
    for (const HttpInterface& interface : state_->options.interfaces) {
        cubepi::HttpRouteOptions limits = route_options(state_->options);
        limits.authentication = interface.authentication;
        if (!limits.authentication) limits.max_body_bytes = 0;
        cubepi::HttpRoutes& routes = state_->interfaces.emplace_back(
            *state_->options.server, interface.name, std::move(limits));
        interface.add(routes, *this);
    }
}

HttpChannel::~HttpChannel() = default;

Task<HttpServerResponse> HttpChannel::post_message(HttpServerRequest request) {
    return state_->receive(std::move(request), detail::read_model_message);
}

Task<HttpServerResponse> HttpChannel::read_message(HttpServerRequest request) {
    return state_->read(std::move(request));
}

Task<HttpSubmission> HttpChannel::submit_message(HttpServerRequest request, HttpReplyDetail detail,
                                                 JsonObject more) {
    HttpSubmission submission;
    std::optional<HttpMessage> message;
    try {
        message = detail::read_message(request, state_->access);
        if (is_stop(message->envelope))
            throw Error(ErrorCode::parse, "the text '/stop' is not a message here");
    } catch (const Error& error) {
        submission.refusal = HttpServerResponse::error(400, error.what());
        co_return submission;
    }
    for (auto& [key, value] : more) message->envelope.rest[key] = std::move(value);
    Task<ExchangePtr> submitting =
        state_->exchange_for(std::move(*message), detail, request.closed);
    ExchangePtr exchange = co_await std::move(submitting);
    if (!exchange) {
        submission.refusal = other_message();
    } else if (const auto& refusal = exchange->refusal()) {
        submission.refusal = refusal_response(*refusal);
    } else if (is_undecided(*exchange) && !exchange->recorded) {
        submission.refusal = gateway_ends();
    } else {
        submission.reply = std::make_shared<HttpReply>(
            std::move(exchange), state_->draining.get_token(), state_->stopping.get_token());
    }
    co_return submission;
}

Task<HttpServerResponse> HttpChannel::read_session(HttpServerRequest request) {
    return state_->read_session(std::move(request));
}

Task<HttpServerResponse> HttpChannel::stop_session(HttpServerRequest request) {
    return state_->receive_stop(std::move(request));
}

Task<> HttpChannel::stop_message(std::string id, std::string session, IsAwaited is_awaited) {
    return state_->stop_message(std::move(id), std::move(session), std::move(is_awaited));
}

bool HttpChannel::is_in_background(const std::string& id) const {
    const ExchangePtr exchange = state_->exchanges->find(id);
    return exchange && exchange->is_in_background && !exchange->done();
}

void HttpChannel::abandon_message(std::string id, std::string session, IsAwaited is_awaited) {
    if (!state_->leaving || state_->stopping.stop_requested()) return;
    state_->leaving->spawn(
        state_->stop_message(std::move(id), std::move(session), std::move(is_awaited)));
}

Task<std::optional<JsonObject>> HttpChannel::answer_elsewhere(JsonObject request) {
    Task<std::optional<JsonObject>> answering = state_->remote.text_for(request);
    std::optional<JsonObject> answer = co_await std::move(answering);
    for (std::size_t i = 0; i < state_->answers.size() && !answer; ++i) {
        Task<std::optional<JsonObject>> asking = state_->answers[i](request);
        answer = co_await std::move(asking);
    }
    co_return answer;
}

void HttpChannel::add_answers(AnswerElsewhere answers) {
    state_->answers.push_back(std::move(answers));
}

Task<std::optional<JsonObject>> HttpChannel::ask_elsewhere(JsonObject request,
                                                           std::string gateway) {
    std::optional<JsonObject> answer;
    if (!state_->options.sessions) co_return answer;
    Task<std::optional<JsonObject>> asking =
        state_->options.sessions->ask_elsewhere(std::move(request), std::move(gateway));
    answer = co_await std::move(asking);
    co_return answer;
}

const std::string& HttpChannel::name() const noexcept { return state_->name; }

std::uint16_t HttpChannel::port() const noexcept { return state_->routes.port(); }

Task<> HttpChannel::start(std::stop_token stopping) {
    state_->manager_ends = std::move(stopping);
    const cubepi::Executor executor = co_await cubepi::this_executor;
    state_->leaving.emplace(executor, [](const std::exception_ptr&) {});
    state_->routes.serve();
    for (cubepi::HttpRoutes& routes : state_->interfaces) routes.serve();
}

Task<> HttpChannel::stop() {
    state_->stopping.request_stop();
    state_->exchanges->wake_all();
    if (state_->leaving) state_->leaving->cancel();
    Task<> closing = state_->remote.close();
    Outcome<> ended = co_await cubepi::outcome_of(std::move(closing));
    std::vector<cubepi::HttpRoutes*> all;
    for (cubepi::HttpRoutes& routes : state_->interfaces) all.push_back(&routes);
    all.push_back(&state_->routes);
    // Together less than ChannelManagerOptions::stop_limit.
    constexpr std::chrono::milliseconds together{8000};
    std::chrono::nanoseconds limit = together / all.size();
    // Connections and children use this channel: they end before it on every path.
    for (cubepi::HttpRoutes* const routes : all) {
        if (ended.cancelled()) {
            co_await cubepi::shield();
            limit = {};
        }
        Task<> stopping = routes->stop(limit);
        Outcome<> stopped = co_await cubepi::outcome_of(std::move(stopping));
        if (ended || stopped.cancelled()) ended = std::move(stopped);
    }
    co_await cubepi::shield();
    if (state_->leaving) co_await state_->leaving->close();
    co_await cubepi::unshield();
    ended.rethrow();
}

Task<> HttpChannel::send(Envelope message) {
    // The response says that the message was rejected or its turn stopped; the request waits for the turn that is tried again.
    for (const char* const mark : {"rejected", "postponed", "stopped"})
        if (message.context.contains(mark)) co_return;
    // The client of another message must not receive it (D288). An answer of an earlier turn is read from the records (D97).
    const ExchangePtr exchange = state_->exchange_with(message);
    const bool is_awaited = exchange && exchange->admitted && exchange->running() &&
                            exchange->chat() == message.chat_id.value_or("");
    if (!is_awaited || message.context.contains("resent"))
        throw Error(ErrorCode::not_found, "no request waits for this output");
    Task<std::optional<SentFile>> reading =
        read_sent_file(cubepi::Runtime::standard(), message,
                       state_->options.max_reply_files -
                           std::min(exchange->file_bytes(), state_->options.max_reply_files));
    const std::optional<SentFile> file = co_await std::move(reading);
    // Another file of the turn may have been read meanwhile.
    if (file && file->bytes.size() + exchange->file_bytes() > state_->options.max_reply_files)
        throw Error(ErrorCode::too_large, "the files of the reply are too large");
    exchange->add_output(message, file ? &*file : nullptr);
}

EventStream HttpChannel::stream_events(const Envelope& message, EventStream stream) {
    const ExchangePtr exchange = state_->exchanges->find(message.inbound_id.value_or(""));
    const bool is_read =
        exchange && (exchange->detail != HttpReplyDetail::outputs || exchange->shares_text);
    if (!is_read) return stream;
    const std::size_t limit = state_->options.max_waiting_text;
    return EventStream::map(std::move(stream), [exchange, limit](StreamEvent event) {
        exchange->add_event(event, limit);
        return std::optional<StreamEvent>(std::move(event));
    });
}

void HttpChannel::accept(const Envelope& message) noexcept {
    const ExchangePtr exchange = state_->exchanges->find(message.inbound_id.value_or(""));
    if (!exchange) return;
    exchange->admitted = true;
    exchange->recorded = !message.receipts.empty();
}

void HttpChannel::restore(Envelope& message) { state_->exchange_of(message)->reopen(); }

void HttpChannel::begin_turn(const Envelope& message) noexcept {
    const ExchangePtr exchange = state_->exchange_of(message);
    state_->exchanges->begin_turn(exchange);
}

void HttpChannel::end_turn(const Envelope& message, std::exception_ptr failure) noexcept {
    // The next process runs the turn again, and the client may repeat its request: stop() answers it.
    if (state_->manager_ends.stop_requested() && cubepi::is_cancellation(failure)) return;
    const ExchangePtr exchange = state_->exchange_with(message);
    if (!exchange) return;
    if (is_session_taken(failure)) {
        state_->exchanges->leave(exchange);
    } else {
        state_->exchanges->end_turn(exchange, state_->error_of(*exchange, failure));
    }
}

void HttpChannel::join_turn(const Envelope& message, const Envelope& turn) noexcept {
    const ExchangePtr exchange = state_->exchanges->find(message.inbound_id.value_or(""));
    if (!exchange || exchange->done()) return;
    const ExchangePtr other = state_->exchanges->find(turn.inbound_id.value_or(""));
    std::string error =
        "the message was answered together with one whose reply is not stored any more";
    if (other) {
        exchange->end_elsewhere(result_of(*other));
        error = exchange->error();
    }
    state_->exchanges->end_turn(exchange, std::move(error));
}

void HttpChannel::postpone_turn(const Envelope& message) noexcept {
    const ExchangePtr exchange = state_->exchanges->find(message.inbound_id.value_or(""));
    if (!exchange) return;
    exchange->postpone();
    exchange->wake();
}

void HttpChannel::drain() noexcept {
    state_->draining.request_stop();
    state_->exchanges->wake_all();
}

void HttpChannel::drop(const Envelope& message) noexcept {
    const ExchangePtr exchange = state_->exchanges->find(message.inbound_id.value_or(""));
    // A message that was kept until a question is answered has its response already.
    if (!exchange || exchange->done()) return;
    exchange->admitted = true;
    const std::string stop = cubepi::detail::text_member(message.rest, stop_key);
    std::string error = "the message was dropped before its turn";
    if (stop == stop_was_refused) error = refused_stop_text;
    if (stop == stop_succeeded) error.clear();
    if (stop == stop_succeeded) exchange->add_output(stopped_output());
    state_->exchanges->end_turn(exchange, std::move(error));
}

}  // namespace bub
