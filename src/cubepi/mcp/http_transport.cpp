#include <cubepi/mcp/http_transport.hpp>

#include <algorithm>
#include <exception>
#include <optional>
#include <utility>
#include <vector>

#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/core/timeout.hpp>
#include <cubepi/mcp/http/endpoint.hpp>

namespace cubepi {

namespace {

/// For the requests that end something.
constexpr auto goodbye_limit = std::chrono::seconds(2);
/// How long a connection waits for the stream of notifications.
constexpr auto stream_wait = std::chrono::seconds(1);
constexpr std::string_view session_header = "Mcp-Session-Id";

using EndpointPtr = detail::McpEndpointPtr;
using StreamPlace = detail::McpStreamPlace;
using detail::exchange;
using detail::is_event_stream;
using detail::post_notification;
using detail::read_body;
using detail::read_events;
using detail::refused;

/// Continues a stream at the last event (the era with sessions). Returns nothing if that stream has ended too. Sets `opened` when
/// the server has answered.
Task<std::optional<RpcMessage>> resume_events(EndpointPtr self, std::int64_t id, StreamPlace* place,
                                              AsyncEvent* opened = nullptr) {
    co_await self->runtime->clock->sleep_for(place->retry_delay);
    HttpRequest request = self->prepared("GET");
    request.headers.set("accept", "text/event-stream");
    if (!place->last_event_id.empty()) request.headers.set("Last-Event-ID", place->last_event_id);
    HttpResponse response = co_await exchange(self, std::move(request));
    if (opened) opened->set();
    if (response.status != 200 || !is_event_stream(response)) {
        throw McpRefused(response.status, self->about("does not continue its stream of events."));
    }
    co_return co_await read_events(self, response.body.get(), id, place);
}

Task<RpcMessage> read_stream(EndpointPtr self, HttpResponse response, std::int64_t id) {
    StreamPlace place;
    place.retry_delay = self->options.retry_delay;
    std::optional<RpcMessage> reply;
    // A connection that is lost in the middle is treated as the end of its stream.
    Task<std::optional<RpcMessage>> reading = read_events(self, response.body.get(), id, &place);
    Outcome<std::optional<RpcMessage>> read = co_await outcome_of(std::move(reading));
    for (int failures = 0;;) {
        const bool may_resume =
            !self->session_id.empty() || !is_stateless_mcp_version(self->version);
        try {
            reply = std::move(read.value());
        } catch (const Error& error) {
            if (error.code() != ErrorCode::disconnected || !may_resume) throw;
        }
        if (reply) co_return std::move(*reply);
        failures = place.has_progressed ? 0 : failures + 1;
        if (!may_resume || place.last_event_id.empty() || failures > self->options.max_retries) {
            throw Error(ErrorCode::disconnected,
                        self->about("has ended the stream without a response."));
        }
        place.has_progressed = false;
        Task<std::optional<RpcMessage>> resuming = resume_events(self, id, &place);
        read = co_await outcome_of(std::move(resuming));
    }
}

/// Reports what a server may have sent while there was no stream for it.
void report_missed_changes(const EndpointPtr& self) {
    const std::shared_ptr<McpTransportListener> listener = self->listener.lock();
    if (!listener) return;
    for (const char* what : {"tools", "prompts", "resources"}) {
        const std::string method = "notifications/" + std::string(what) + "/list_changed";
        listener->notified(rpc_notification(method, JsonObject()));
    }
}

/// Reads the notifications that a server of the era with sessions sends outside of requests. Servers need not have that stream; one
/// that has ended is opened again, with growing delays.
Task<> listen(EndpointPtr self, std::shared_ptr<AsyncEvent> opened) {
    StreamPlace place;
    place.retry_delay = std::chrono::nanoseconds::zero();
    std::chrono::nanoseconds delay = self->options.retry_delay;
    for (bool was_open = false;;) {
        place.has_progressed = false;
        place.bytes = 0;
        Task<std::optional<RpcMessage>> reading = resume_events(self, 0, &place, opened.get());
        const Outcome<std::optional<RpcMessage>> read = co_await outcome_of(std::move(reading));
        opened->set();
        if (read.cancelled()) read.rethrow();
        bool is_refused = false;
        try {
            read.rethrow();
        } catch (const McpRefused& error) {
            // After 401 another request gets the next token.
            is_refused = error.status() < 500 && !(error.status() == 401 && has_authorizer(*self));
        } catch (const Error&) {
            // The connection was lost, or what came was not a stream of messages.
            is_refused = false;
        }
        if (is_refused && !was_open) co_return;
        if (is_refused || place.last_event_id.empty()) report_missed_changes(self);
        if (is_refused) co_return;
        was_open = true;
        delay = place.has_progressed ? self->options.retry_delay
                                     : std::min(2 * delay, std::max(self->options.max_retry_delay,
                                                                    self->options.retry_delay));
        place.retry_delay = std::max(place.retry_delay, delay);
    }
}

/// `self` lives until the time limit has ended.
Task<> post_withdrawal(EndpointPtr self, std::int64_t id) {
    JsonObject params;
    params["requestId"] = id;
    RpcMessage message = rpc_notification("notifications/cancelled", std::move(params));
    Task<> posting = post_notification(self, std::move(message));
    co_await with_timeout(*self->runtime->clock, goodbye_limit, std::move(posting), "withdrawal");
}

/// Tells the server of a session that a request was cancelled, in the background. Without sessions, closing the exchange does that.
void withdraw(const EndpointPtr& self, std::int64_t id) {
    if (!is_session_mcp_version(self->version) || !self->background) return;
    self->background->spawn(post_withdrawal(self, id));
}

class HttpMcpTransport final : public McpTransport {
public:
    HttpMcpTransport(McpHttpOptions options, std::shared_ptr<const Runtime> runtime)
        : endpoint_(std::make_shared<detail::McpEndpoint>(std::move(options), std::move(runtime))) {
    }
    ~HttpMcpTransport() override { abandon(); }

    Task<> open(std::weak_ptr<McpTransportListener> listener) override {
        abandon();
        const Executor executor = co_await this_executor;
        endpoint_->listener = std::move(listener);
        endpoint_->version.clear();
        endpoint_->session_id.clear();
        endpoint_->older.reset();
        endpoint_->background =
            std::make_unique<BackgroundScope>(executor, [](std::exception_ptr) {});
        endpoint_->is_open = true;
    }

    bool is_open() const noexcept override { return endpoint_->is_open; }

    Task<RpcMessage> request(McpOutgoing outgoing) override {
        const EndpointPtr self = endpoint_;
        const std::int64_t id = outgoing.id;
        Task<RpcMessage> exchanging = exchange_messages(self, std::move(outgoing));
        Outcome<RpcMessage> reply = co_await outcome_of(std::move(exchanging));
        // A time limit of the caller is a cancellation here.
        if (reply.cancelled()) withdraw(self, id);
        RpcMessage message = std::move(reply).value();
        if (message.kind == RpcMessage::Kind::error)
            message.text = self->secrets.without(std::move(message.text));
        co_return message;
    }

    Task<> notify(std::string method, JsonObject params) override {
        const EndpointPtr self = endpoint_;
        const bool is_ready = method == "notifications/initialized";
        co_await post_notification(self, rpc_notification(std::move(method), std::move(params)));
        if (!is_ready || !self->background || self->older) co_return;
        // Servers drop what they send before the stream is open. Some answer only when they have something to send.
        const auto opened = std::make_shared<AsyncEvent>();
        self->background->spawn(listen(self, opened));
        Task<> limited = with_timeout(*self->runtime->clock, stream_wait, opened->wait(), "stream");
        const Outcome<> waited = co_await outcome_of(std::move(limited));
        (void)waited;
    }

    bool can_authorize() const noexcept override { return detail::has_authorizer(*endpoint_); }
    Task<> authorize(McpChallenge challenge) override {
        return endpoint_->options.authorizer->authorize(std::move(challenge));
    }

    void use_version(std::string_view version) override { endpoint_->version = version; }

    Task<> close() override {
        const EndpointPtr self = endpoint_;
        if (self->is_open && !self->session_id.empty()) {
            HttpRequest request = self->prepared("DELETE");
            Task<HttpResponse> sending = exchange(self, std::move(request));
            Task<HttpResponse> limited =
                with_timeout(*self->runtime->clock, goodbye_limit, std::move(sending), "goodbye");
            (void)co_await outcome_of(std::move(limited));
        }
        abandon();
    }

    void abandon() noexcept override {
        endpoint_->is_open = false;
        endpoint_->background.reset();
        endpoint_->older.reset();
    }

private:
    static Task<RpcMessage> exchange_messages(EndpointPtr self, McpOutgoing outgoing) {
        const bool opens_session = outgoing.method == "initialize";
        const std::int64_t id = outgoing.id;
        const RpcMessage message =
            rpc_request(id, std::move(outgoing.method), std::move(outgoing.params));
        if (self->older) {
            const std::shared_ptr<detail::McpOlderStream> older = self->older;
            co_return co_await older->request(message, id);
        }
        HttpRequest post = self->post(message, std::move(outgoing.headers));
        std::string token;
        HttpResponse response = co_await exchange(self, std::move(post), &token);
        if (response.status < 200 || response.status > 299) {
            Task<RpcMessage> refusing = refused(self, std::move(response), id, std::move(token));
            Outcome<RpcMessage> refusal = co_await outcome_of(std::move(refusing));
            // Servers of 2024-11-05 do not accept requests at the URL of their stream.
            if (!opens_session || !may_be_older(refusal.failure()))
                co_return std::move(refusal).value();
            std::shared_ptr<detail::McpOlderStream> opened =
                co_await detail::open_older_stream(self);
            if (!opened) co_return std::move(refusal).value();
            self->older = opened;
            co_return co_await opened->request(message, id);
        }
        if (opens_session) take_session(*self, response);
        // A separate statement per case: see docs/guides/coroutines.md.
        if (is_event_stream(response))
            co_return co_await read_stream(self, std::move(response), id);
        co_return co_await read_reply(self, std::move(response), id);
    }

    static bool may_be_older(const std::exception_ptr& failure) {
        if (!failure) return false;
        try {
            std::rethrow_exception(failure);
        } catch (const McpRefused& error) {
            return error.status() == 400 || error.status() == 404 || error.status() == 405;
        } catch (...) {
            return false;
        }
    }

    static void take_session(detail::McpEndpoint& endpoint, const HttpResponse& response) {
        const std::string_view id = response.headers.get(session_header);
        if (is_http_field_value(id)) endpoint.session_id = id;
    }

    static Task<RpcMessage> read_reply(EndpointPtr self, HttpResponse response, std::int64_t id) {
        const std::string text =
            co_await read_body(self, response.body.get(), self->options.limits.max_message_bytes);
        std::vector<RpcMessage> messages;
        try {
            messages = read_rpc_messages(text, self->options.limits.max_batch);
        } catch (const Error&) {
            throw Error(
                ErrorCode::protocol,
                self->about("sent a response that is not a JSON-RPC message; check the URL."));
        }
        for (RpcMessage& message : messages) {
            const bool is_response =
                message.kind == RpcMessage::Kind::result || message.kind == RpcMessage::Kind::error;
            if (is_response && message.id == Json(id)) co_return std::move(message);
        }
        throw Error(ErrorCode::protocol, self->about("sent the response to another request."));
    }

    const EndpointPtr endpoint_;
};

}  // namespace

std::unique_ptr<McpTransport> mcp_http_transport(McpHttpOptions options,
                                                 std::shared_ptr<const Runtime> runtime) {
    if (detail::mcp_url_origin(options.url).empty()) {
        throw Error(ErrorCode::invalid_argument, "The URL of the MCP server " + options.server +
                                                     " must begin with http:// or https://.");
    }
    for (const HttpHeader& header : options.headers) {
        if (!is_http_token(header.name) || !is_http_field_value(header.value)) {
            throw Error(ErrorCode::invalid_argument,
                        "The header " + detail::shown_mcp_text(header.name) +
                            " of the MCP server " + options.server + " is invalid.");
        }
    }
    return std::make_unique<HttpMcpTransport>(std::move(options), std::move(runtime));
}

}  // namespace cubepi
