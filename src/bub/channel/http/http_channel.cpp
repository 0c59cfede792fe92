#include <bub/channel/http_channel.hpp>

#include <optional>
#include <utility>

#include <bub/channel/http/http_exchange.hpp>
#include <bub/turn_error.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/schema/json_text.hpp>

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
using ExchangePtr = std::shared_ptr<HttpExchange>;

JsonObject result_of(const HttpExchange& exchange) {
    JsonObject result;
    result["session"] = exchange.chat();
    result["id"] = exchange.key();
    result["ok"] = exchange.error().empty();
    if (!exchange.error().empty()) {
        JsonObject error;
        error["message"] = exchange.error();
        result["error"] = std::move(error);
    }
    if (!exchange.finish().empty()) result["finish"] = exchange.finish();
    result["outputs"] = exchange.outputs();
    return result;
}

HttpExchange::Refusal rejected(const std::exception_ptr& failure) {
    HttpExchange::Refusal refusal;
    refusal.text = "the message was not accepted: " + describe(failure);
    try {
        std::rethrow_exception(failure);
    } catch (const Error& error) {
        if (error.code() == ErrorCode::limit) refusal.status = 429;
    } catch (...) {
    }
    return refusal;
}

HttpExchange::Refusal known_before() {
    HttpExchange::Refusal refusal;
    refusal.status = 409;
    refusal.text =
        "a message with this Idempotency-Key was received before, and its reply is not held any "
        "more; its answer is in the session's history";
    return refusal;
}

HttpExchange::Refusal not_admitted() {
    HttpExchange::Refusal refusal;
    refusal.text = "the message was dropped before it was accepted";
    return refusal;
}

/// Waits until the turn of the message has ended. Returns false if the client or the channel ends before.
Task<bool> wait_for_end(ExchangePtr exchange, std::stop_token closed, std::stop_token stopping) {
    const std::stop_callback on_close(closed, [exchange] { exchange->wake(); });
    while (!exchange->done()) {
        if (closed.stop_requested() || stopping.stop_requested()) co_return false;
        co_await exchange->wait();
    }
    co_return true;
}

std::string event_text(std::string_view name, const JsonObject& data) {
    return cubepi::server_sent_event(name, cubepi::json_text(data));
}

std::string delta_event(const std::string& text) {
    JsonObject data;
    data["text"] = text;
    return event_text("delta", data);
}

/// Writes the text as it is generated, then each output, then the result.
Task<> write_events(ExchangePtr exchange, std::stop_token closed, std::stop_token stopping,
                    ResponseStream& out) {
    const std::stop_callback on_close(closed, [exchange] { exchange->wake(); });
    std::size_t written = 0;
    for (;;) {
        std::string text = exchange->take_text();
        std::string event;
        if (!text.empty()) {
            event = delta_event(text);
        } else if (written < exchange->outputs().size()) {
            event = event_text("message", exchange->outputs().at(written++).as_object());
        } else if (exchange->done()) {
            break;
        } else if (closed.stop_requested() || stopping.stop_requested()) {
            co_return;
        } else {
            co_await exchange->wait();
            continue;
        }
        co_await out.write(std::move(event));
    }
    JsonObject result = result_of(*exchange);
    result.erase("outputs");
    std::string last = event_text("done", result);
    co_await out.write(std::move(last));
}

HttpServerResponse unauthorized() {
    HttpServerResponse refused =
        HttpServerResponse::error(401, "the bearer token is missing or wrong");
    refused.headers.set("www-authenticate", "Bearer");
    return refused;
}

bool accepts_events(const HttpServerRequest& request) {
    return request.headers.get("accept").find("text/event-stream") != std::string_view::npos;
}

}  // namespace

struct HttpChannel::State {
    State(HttpChannelOptions given, MessageHandler accept)
        : options(std::move(given)),
          handler(std::move(accept)),
          exchanges(
              std::make_shared<HttpExchanges>(options.remembered, options.max_remembered_bytes)) {}

    /// Returns the exchange of a message that the manager has accepted. A message of no client, e.g. an answer from the inbox of the
    /// gateway, gets one that no client reads.
    ExchangePtr exchange_of(const Envelope& message) const;
    Task<HttpServerResponse> post(HttpServerRequest request);
    Task<HttpServerResponse> read(HttpServerRequest request);
    Task<> submit(ExchangePtr exchange, Envelope envelope);
    Task<HttpServerResponse> answer(ExchangePtr exchange, HttpServerRequest request);
    void open(const cubepi::Executor& executor);
    bool is_authorized(const HttpServerRequest& request) const {
        return cubepi::equal_secrets(request.bearer_token(), options.token);
    }

    const std::string name = "http";
    const HttpChannelOptions options;
    const MessageHandler handler;
    const std::shared_ptr<HttpExchanges> exchanges;
    std::unique_ptr<cubepi::HttpServer> server;
    std::stop_source stopping;
    std::stop_token manager_ends;
};

ExchangePtr HttpChannel::State::exchange_of(const Envelope& message) const {
    ExchangePtr exchange = exchanges->find(message.inbound_id.value_or(""));
    // An earlier process has received the message: its client may repeat the request.
    if (!exchange) exchange = exchanges->add(message);
    exchange->admitted = true;
    return exchange;
}

Task<HttpServerResponse> HttpChannel::State::post(HttpServerRequest request) {
    if (!is_authorized(request)) co_return unauthorized();
    std::optional<HttpMessage> message;
    std::string problem;
    try {
        message = detail::read_message(request, options.operators);
    } catch (const Error& error) {
        problem = error.what();
    }
    if (!message) co_return HttpServerResponse::error(400, problem);
    ExchangePtr exchange = exchanges->find(message->key);
    if (exchange && !exchange->is_of(*message))
        co_return HttpServerResponse::error(422, "this Idempotency-Key belongs to another message");
    if (!exchange) {
        exchange = exchanges->add(message->envelope);
        exchange->streaming = accepts_events(request);
        message->envelope.channel = name;
        Task<> submitting = submit(exchange, std::move(message->envelope));
        co_await std::move(submitting);
        if (const auto& refusal = exchange->refusal())
            co_return HttpServerResponse::error(refusal->status, refusal->text);
    }
    Task<HttpServerResponse> answering = answer(std::move(exchange), std::move(request));
    HttpServerResponse response = co_await std::move(answering);
    co_return response;
}

/// Returns the reply to a message without waiting for it.
Task<HttpServerResponse> HttpChannel::State::read(HttpServerRequest request) {
    if (!is_authorized(request)) co_return unauthorized();
    const ExchangePtr exchange = exchanges->find(request.parameters["id"]);
    if (!exchange) {
        co_return HttpServerResponse::error(
            404,
            "no reply to a message with this id is held in memory; an answer is in the history "
            "of its session");
    }
    const Json result = result_of(*exchange);
    co_return HttpServerResponse::json(exchange->done() ? 200 : 202, result);
}

/// Passes a message to the manager. Requests that repeat it meanwhile wait for the same exchange.
Task<> HttpChannel::State::submit(ExchangePtr exchange, Envelope envelope) {
    Task<> accepting = handler(std::move(envelope));
    const Outcome<> accepted = co_await cubepi::outcome_of(std::move(accepting));
    if (accepted.cancelled()) {
        exchanges->refuse(exchange, not_admitted());
        // The manager ends, not this request, whose client is answered.
        if (!manager_ends.stop_requested()) accepted.rethrow();
    } else if (!accepted) {
        exchanges->refuse(exchange, rejected(accepted.failure()));
    } else if (!exchange->admitted) {
        exchanges->refuse(exchange, known_before());
    }
}

Task<HttpServerResponse> HttpChannel::State::answer(ExchangePtr exchange,
                                                    HttpServerRequest request) {
    const std::stop_token closed = request.closed;
    const std::stop_token ending = stopping.get_token();
    if (accepts_events(request)) {
        auto write = [exchange, closed, ending](ResponseStream& out) {
            return write_events(exchange, closed, ending, out);
        };
        HttpServerResponse events = HttpServerResponse::events(std::move(write));
        co_return events;
    }
    const bool ended = co_await wait_for_end(exchange, closed, ending);
    if (!ended) {
        co_return HttpServerResponse::error(
            503, "the gateway ends; repeat the request with the same Idempotency-Key");
    }
    if (const auto& refusal = exchange->refusal())
        co_return HttpServerResponse::error(refusal->status, refusal->text);
    const Json result = result_of(*exchange);
    co_return HttpServerResponse::json(200, result);
}

HttpChannel::HttpChannel(HttpChannelOptions options, MessageHandler handler)
    : state_(std::make_unique<State>(std::move(options), std::move(handler))) {
    if (state_->options.token.empty()) {
        throw Error(ErrorCode::invalid_argument,
                    "the channel http needs a token; make one: openssl rand -hex 16");
    }
}

HttpChannel::~HttpChannel() = default;

const std::string& HttpChannel::name() const noexcept { return state_->name; }

std::uint16_t HttpChannel::port() const noexcept {
    return state_->server ? state_->server->port() : std::uint16_t{0};
}

void HttpChannel::State::open(const cubepi::Executor& executor) {
    if (server) return;
    auto made = std::make_unique<cubepi::HttpServer>(executor, options.server);
    made->route("POST", "/v1/messages",
                [this](HttpServerRequest request) { return post(std::move(request)); });
    made->route("GET", "/v1/messages/{id}",
                [this](HttpServerRequest request) { return read(std::move(request)); });
    made->open();
    server = std::move(made);
}

Task<> HttpChannel::prepare() {
    const cubepi::Executor executor = co_await cubepi::this_executor;
    state_->open(executor);
}

Task<> HttpChannel::start(std::stop_token stopping) {
    state_->manager_ends = std::move(stopping);
    const cubepi::Executor executor = co_await cubepi::this_executor;
    state_->open(executor);
    state_->server->listen();
}

Task<> HttpChannel::stop() {
    state_->stopping.request_stop();
    state_->exchanges->wake_all();
    if (state_->server) co_await state_->server->stop(std::chrono::seconds(5));
}

Task<> HttpChannel::send(Envelope message) {
    // The response says that the message was rejected; the request waits for the turn that is tried again.
    for (const char* const mark : {"rejected", "postponed"})
        if (message.context.contains(mark)) co_return;
    const ExchangePtr exchange = state_->exchanges->current(message.chat_id.value_or(""));
    if (!exchange)
        throw Error(ErrorCode::not_found, "no request waits for messages of this session");
    exchange->add_output(message);
    co_return;
}

EventStream HttpChannel::stream_events(const Envelope& message, EventStream stream) {
    const ExchangePtr exchange = state_->exchanges->find(message.inbound_id.value_or(""));
    if (!exchange || !exchange->streaming) return stream;
    const std::size_t limit = state_->options.max_waiting_text;
    return EventStream::map(std::move(stream), [exchange, limit](StreamEvent event) {
        if (event.kind == event_kind::text) exchange->add_text(event.delta(), limit);
        return std::optional<StreamEvent>(std::move(event));
    });
}

Task<std::optional<AdmitDecision>> HttpChannel::admit_message(std::string session_id,
                                                              const Envelope& message,
                                                              TurnSnapshot turn) {
    (void)session_id;
    (void)turn;
    const ExchangePtr exchange = state_->exchanges->find(message.inbound_id.value_or(""));
    if (exchange) exchange->admitted = true;
    std::optional<AdmitDecision> undecided;
    co_return undecided;
}

void HttpChannel::restore(Envelope& message) { (void)state_->exchange_of(message); }

void HttpChannel::begin_turn(const Envelope& message) noexcept {
    const ExchangePtr exchange = state_->exchange_of(message);
    state_->exchanges->begin_turn(exchange);
}

void HttpChannel::end_turn(const Envelope& message, std::exception_ptr failure) noexcept {
    // The next process runs the turn again, and the client may repeat its request: stop() answers it.
    if (state_->manager_ends.stop_requested() && cubepi::is_cancellation(failure)) return;
    const std::string key = message.inbound_id.value_or("");
    const ExchangePtr exchange = key.empty()
                                     ? state_->exchanges->current(message.chat_id.value_or(""))
                                     : state_->exchanges->find(key);
    if (exchange) state_->exchanges->end_turn(exchange, failure);
}

void HttpChannel::drop(const Envelope& message) noexcept {
    const ExchangePtr exchange = state_->exchanges->find(message.inbound_id.value_or(""));
    // A message that was kept until a question is answered has its response already.
    if (!exchange || exchange->done()) return;
    exchange->admitted = true;
    const Error dropped(ErrorCode::cancelled, "the message was dropped before its turn");
    state_->exchanges->end_turn(exchange, std::make_exception_ptr(dropped));
}

}  // namespace bub
