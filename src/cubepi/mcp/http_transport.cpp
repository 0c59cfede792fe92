#include <cubepi/mcp/http_transport.hpp>

#include <algorithm>
#include <exception>
#include <optional>
#include <utility>
#include <vector>

#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/log.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/support/lower_case.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/core/timeout.hpp>
#include <cubepi/mcp/http/origin.hpp>
#include <cubepi/net/http_client.hpp>
#include <cubepi/net/sse_decoder.hpp>

namespace cubepi {

namespace {

constexpr int max_redirects = 3;
constexpr std::size_t max_refusal_bytes = 64 * 1024;
/// For the requests that end something.
constexpr auto goodbye_limit = std::chrono::seconds(2);
/// A server that asks for less would be asked again without a pause.
constexpr std::chrono::nanoseconds min_retry_delay = std::chrono::milliseconds(100);
/// How long a connection waits for the stream of notifications.
constexpr auto stream_wait = std::chrono::seconds(1);
constexpr std::string_view session_header = "Mcp-Session-Id";
constexpr std::string_view version_header = "MCP-Protocol-Version";

/// An exchange that a coroutine of a stream may read across retries.
struct StreamPlace {
    std::string last_event_id;
    std::chrono::nanoseconds retry_delay;
    std::size_t bytes = 0;
    bool has_progressed = false;
};

/// The state that the coroutines of a transport share, so that it outlives the transport until they end.
struct Endpoint : std::enable_shared_from_this<Endpoint> {
    Endpoint(McpHttpOptions settings, std::shared_ptr<const Runtime> its_runtime)
        : options(std::move(settings)),
          runtime(std::move(its_runtime)),
          transport(transport_of(*runtime)) {}

    HttpRequest prepared(std::string method) const;
    HttpRequest post(const RpcMessage& message, HttpHeaders headers) const;
    std::string about(std::string_view text) const {
        return "The MCP server " + options.server + " " + std::string(text);
    }

    const McpHttpOptions options;
    const std::shared_ptr<const Runtime> runtime;
    const std::shared_ptr<HttpTransport> transport;
    std::weak_ptr<McpTransportListener> listener;
    std::string version;
    std::string session_id;
    bool is_open = false;
    std::unique_ptr<BackgroundScope> background;
};

using EndpointPtr = std::shared_ptr<Endpoint>;

HttpRequest Endpoint::prepared(std::string method) const {
    HttpRequest request(std::move(method), options.url);
    request.headers = options.headers;
    if (!version.empty()) request.headers.set(std::string(version_header), version);
    if (!session_id.empty()) request.headers.set(std::string(session_header), session_id);
    request.timeouts.connect = options.connect_timeout;
    // The client limits its requests itself; a call may take long.
    request.timeouts.first_byte = std::chrono::nanoseconds::zero();
    return request;
}

HttpRequest Endpoint::post(const RpcMessage& message, HttpHeaders headers) const {
    HttpRequest request = prepared("POST");
    for (const HttpHeader& header : headers) request.headers.set(header.name, header.value);
    request.headers.set("accept", "application/json, text/event-stream");
    request.headers.set("content-type", "application/json");
    request.body = rpc_text(message);
    return request;
}

bool is_redirect(int status) {
    return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

bool has_authorizer(const Endpoint& self) {
    return self.options.authorizer && !self.options.headers.find("authorization");
}

/// Sends a request and follows redirects that keep method and origin. Sets `used_token`, unless it is null.
Task<HttpResponse> exchange(EndpointPtr self, HttpRequest request,
                            std::string* used_token = nullptr) {
    if (has_authorizer(*self)) {
        const std::string token = co_await self->options.authorizer->token(request.url);
        if (!token.empty()) request.headers.set("Authorization", "Bearer " + token);
        if (used_token) *used_token = token;
    }
    for (int redirects = 0;; ++redirects) {
        HttpRequest copy = request;
        HttpResponse response = co_await self->transport->send(std::move(copy));
        if (!is_redirect(response.status)) co_return response;
        const std::string location(response.headers.get("location"));
        const std::optional<std::string> target = detail::same_origin_url(request.url, location);
        const bool keeps_method = response.status == 307 || response.status == 308;
        if (!target || !keeps_method || redirects == max_redirects) {
            throw Error(ErrorCode::protocol,
                        self->about("redirects to " + detail::shown_mcp_text(location) +
                                    ", which is not followed; configure this URL if it is the "
                                    "intended server."));
        }
        request.url = *target;
    }
}

/// Reads a body up to a limit. Throws Error(too_large).
Task<std::string> read_body(EndpointPtr self, HttpBody* body, std::size_t limit) {
    std::string text;
    while (co_await body->read(text)) {
        if (text.size() > limit) {
            throw Error(ErrorCode::too_large, self->about("sent a response of more than " +
                                                          std::to_string(limit) + " bytes."));
        }
    }
    co_return text;
}

/// Converts a status that is not a success: returns the error response in its body, or throws.
Task<RpcMessage> refused(EndpointPtr self, HttpResponse response, std::int64_t id,
                         std::string used_token) {
    const int status = response.status;
    if (status == 401 || status == 403) {
        McpChallenge challenge = detail::read_mcp_challenge(status, response.headers);
        if (has_authorizer(*self) && detail::wants_authorization(challenge)) {
            challenge.token = std::move(used_token);
            throw McpUnauthorized(std::move(challenge),
                                  self->about("refused the request with status " +
                                              std::to_string(status) + "; it needs a login."));
        }
        throw Error(ErrorCode::auth,
                    self->about("refused the request with status " + std::to_string(status) +
                                "; set its token in `headers`."));
    }
    Task<std::string> reading = read_body(self, response.body.get(), max_refusal_bytes);
    Outcome<std::string> body = co_await outcome_of(std::move(reading));
    std::optional<RpcMessage> error;
    if (body.ok()) {
        try {
            RpcMessage message = read_rpc_message(std::string_view(body.value()));
            if (message.kind == RpcMessage::Kind::error) error = std::move(message);
        } catch (const Error&) {
            error.reset();
        }
    }
    if (status == 404 && !self->session_id.empty())
        throw McpSessionExpired(self->about("has ended the session."));
    if (!error) {
        throw McpRefused(
            status, self->about("refused the request with status " + std::to_string(status) + "."));
    }
    error->id = id;
    co_return std::move(*error);
}

/// Answers a request of the server with a request of its own, whose response has no content.
Task<> answer(EndpointPtr self, RpcMessage request) {
    const std::shared_ptr<McpTransportListener> listener = self->listener.lock();
    if (!listener) co_return;
    Json id = request.id;
    Task<RpcMessage> asking = listener->asked(std::move(request));
    Outcome<RpcMessage> response = co_await outcome_of(std::move(asking));
    RpcMessage message = response.ok()
                             ? std::move(response).value()
                             : rpc_error(std::move(id), mcp_error::internal, "The client failed.");
    HttpRequest post = self->post(message, HttpHeaders());
    Task<HttpResponse> sending = exchange(self, std::move(post));
    (void)co_await std::move(sending);
}

/// Reads a stream of events. Returns the response to `id`, or nothing at the end of the stream.
Task<std::optional<RpcMessage>> read_events(EndpointPtr self, HttpBody* body, std::int64_t id,
                                            StreamPlace* place) {
    const McpLimits& limits = self->options.limits;
    SseDecoder decoder(SseLimits{limits.max_message_bytes, limits.max_message_bytes});
    std::string bytes;
    while (co_await body->read(bytes)) {
        place->bytes += bytes.size();
        if (place->bytes > limits.max_unrequested_bytes) {
            throw Error(ErrorCode::too_large, self->about("has sent too much without a response."));
        }
        decoder.feed(bytes);
        bytes.clear();
        SseEvent event;
        while (decoder.next(event)) {
            if (!event.id.empty() && is_http_field_value(event.id)) place->last_event_id = event.id;
            if (event.retry) {
                place->retry_delay = std::clamp<std::chrono::nanoseconds>(
                    *event.retry, min_retry_delay,
                    std::max(self->options.max_retry_delay, min_retry_delay));
            }
            place->has_progressed = true;
            if (event.data.empty() || event.event != "message") continue;
            std::vector<RpcMessage> messages = read_rpc_messages(event.data, limits.max_batch);
            for (RpcMessage& message : messages) {
                const bool is_response = message.kind == RpcMessage::Kind::result ||
                                         message.kind == RpcMessage::Kind::error;
                if (is_response && message.id == Json(id)) co_return std::move(message);
                if (message.kind == RpcMessage::Kind::request) {
                    co_await answer(self, std::move(message));
                } else if (message.kind == RpcMessage::Kind::notification) {
                    if (const auto listener = self->listener.lock()) listener->notified(message);
                }
            }
        }
    }
    co_return std::nullopt;
}

bool is_event_stream(const HttpResponse& response) {
    return detail::lower_case(response.headers.get("content-type"))
        .starts_with("text/event-stream");
}

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

/// Reads the notifications that a server of the era with sessions sends outside of requests. Servers need not have that stream.
Task<> listen(EndpointPtr self, std::shared_ptr<AsyncEvent> opened) {
    StreamPlace place;
    place.retry_delay = std::chrono::nanoseconds::zero();
    for (int failures = 0; failures <= self->options.max_retries;) {
        place.has_progressed = false;
        place.bytes = 0;
        Task<std::optional<RpcMessage>> reading = resume_events(self, 0, &place, opened.get());
        const Outcome<std::optional<RpcMessage>> read = co_await outcome_of(std::move(reading));
        opened->set();
        try {
            read.rethrow();
        } catch (const McpRefused&) {
            co_return;
        } catch (const Error& error) {
            if (error.code() != ErrorCode::disconnected) throw;
        }
        failures = place.has_progressed ? 0 : failures + 1;
        place.retry_delay = std::max(place.retry_delay, self->options.retry_delay);
    }
}

Task<> post_notification(EndpointPtr self, RpcMessage notification) {
    HttpRequest request = self->post(notification, HttpHeaders());
    Task<HttpResponse> sending = exchange(self, std::move(request));
    (void)co_await std::move(sending);
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
        : endpoint_(std::make_shared<Endpoint>(std::move(options), std::move(runtime))) {}
    ~HttpMcpTransport() override { abandon(); }

    Task<> open(std::weak_ptr<McpTransportListener> listener) override {
        abandon();
        const Executor executor = co_await this_executor;
        endpoint_->listener = std::move(listener);
        endpoint_->version.clear();
        endpoint_->session_id.clear();
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
        co_return std::move(reply).value();
    }

    Task<> notify(std::string method, JsonObject params) override {
        const EndpointPtr self = endpoint_;
        const bool is_ready = method == "notifications/initialized";
        co_await post_notification(self, rpc_notification(std::move(method), std::move(params)));
        if (!is_ready || !self->background) co_return;
        // Servers drop what they send before the stream is open. Some answer only when they have something to send.
        const auto opened = std::make_shared<AsyncEvent>();
        self->background->spawn(listen(self, opened));
        Task<> limited = with_timeout(*self->runtime->clock, stream_wait, opened->wait(), "stream");
        const Outcome<> waited = co_await outcome_of(std::move(limited));
        (void)waited;
    }

    bool can_authorize() const noexcept override { return has_authorizer(*endpoint_); }
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
    }

private:
    static Task<RpcMessage> exchange_messages(EndpointPtr self, McpOutgoing outgoing) {
        const bool opens_session = outgoing.method == "initialize";
        const std::int64_t id = outgoing.id;
        const RpcMessage message =
            rpc_request(id, std::move(outgoing.method), std::move(outgoing.params));
        HttpRequest post = self->post(message, std::move(outgoing.headers));
        std::string token;
        HttpResponse response = co_await exchange(self, std::move(post), &token);
        if (response.status < 200 || response.status > 299) {
            co_return co_await refused(self, std::move(response), id, std::move(token));
        }
        if (opens_session) take_session(*self, response);
        // A separate statement per case: see docs/guides/coroutines.md.
        if (is_event_stream(response))
            co_return co_await read_stream(self, std::move(response), id);
        co_return co_await read_reply(self, std::move(response), id);
    }

    static void take_session(Endpoint& endpoint, const HttpResponse& response) {
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
