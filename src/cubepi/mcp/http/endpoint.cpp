#include <cubepi/mcp/http/endpoint.hpp>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include <cubepi/core/outcome.hpp>
#include <cubepi/core/support/lower_case.hpp>
#include <cubepi/core/timeout.hpp>
#include <cubepi/net/sse_decoder.hpp>

namespace cubepi::detail {

namespace {

constexpr int max_redirects = 3;
constexpr std::size_t max_refusal_bytes = 64 * 1024;
/// A server that asks for less would be asked again without a pause.
constexpr std::chrono::nanoseconds min_retry_delay = std::chrono::milliseconds(100);
constexpr std::string_view session_header = "Mcp-Session-Id";
constexpr std::string_view version_header = "MCP-Protocol-Version";

/// Requests of the server that are answered at a time; further ones are left without an answer.
constexpr std::size_t max_answering = 16;

Task<> post_answer(McpEndpointPtr self, RpcMessage request, std::optional<std::int64_t> during) {
    struct Count {
        std::size_t& count;
        ~Count() { --count; }
    };
    const Count count{self->answering};
    const std::shared_ptr<McpTransportListener> listener = self->listener.lock();
    if (!listener) co_return;
    Json id = request.id;
    Task<RpcMessage> asking = listener->asked(std::move(request), during);
    Outcome<RpcMessage> response = co_await outcome_of(std::move(asking));
    RpcMessage message = response.ok()
                             ? std::move(response).value()
                             : rpc_error(std::move(id), mcp_error::internal, "The client failed.");
    HttpRequest post = self->post(message, HttpHeaders());
    Task<HttpResponse> sending = exchange(self, std::move(post));
    (void)co_await std::move(sending);
}

/// Sets the headers that expire.
Task<> refresh_headers(McpEndpointPtr self, HttpRequest* request, bool is_refused) {
    Task<HttpHeaders> asking = self->options.fresh_headers(is_refused);
    const HttpHeaders fresh = co_await std::move(asking);
    for (const HttpHeader& header : fresh) {
        if (!is_http_token(header.name) || !is_http_field_value(header.value)) {
            throw Error(ErrorCode::invalid_argument, "The header " + shown_mcp_text(header.name) +
                                                         " of the MCP server " +
                                                         self->options.server + " is invalid.");
        }
        request->headers.set(header.name, header.value);
        self->secrets.add_latest(header.value);
    }
}

bool is_redirect(int status) {
    return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

}  // namespace

HttpRequest McpEndpoint::prepared(std::string method) const {
    HttpRequest request(std::move(method), options.url);
    request.headers = options.headers;
    if (!version.empty()) request.headers.set(std::string(version_header), version);
    if (!session_id.empty()) request.headers.set(std::string(session_header), session_id);
    request.timeouts.connect = options.connect_timeout;
    // The client limits its requests itself; a call may take long.
    request.timeouts.first_byte = std::chrono::nanoseconds::zero();
    return request;
}

HttpRequest McpEndpoint::post(const RpcMessage& message, HttpHeaders headers) const {
    HttpRequest request = prepared("POST");
    if (older) request.url = older->post_url();
    for (const HttpHeader& header : headers) request.headers.set(header.name, header.value);
    request.headers.set("accept", "application/json, text/event-stream");
    request.headers.set("content-type", "application/json");
    request.body = rpc_text(message);
    return request;
}

bool has_authorizer(const McpEndpoint& self) {
    return self.options.authorizer && !self.options.headers.find("authorization");
}

Task<HttpResponse> exchange(McpEndpointPtr self, HttpRequest request, std::string* used_token) {
    if (has_authorizer(*self)) {
        const std::string token = co_await self->options.authorizer->token(request.url);
        if (!token.empty()) {
            request.headers.set("Authorization", "Bearer " + token);
            self->secrets.add_latest(token);
        }
        if (used_token) *used_token = token;
    }
    bool can_refresh = static_cast<bool>(self->options.fresh_headers);
    if (can_refresh) co_await refresh_headers(self, &request, false);
    for (int redirects = 0;; ++redirects) {
        HttpRequest copy = request;
        HttpResponse response = co_await self->transport->send(std::move(copy));
        if (response.status == 401 && can_refresh) {
            can_refresh = false;
            co_await refresh_headers(self, &request, true);
            HttpRequest again = request;
            response = co_await self->transport->send(std::move(again));
        }
        if (!is_redirect(response.status)) co_return response;
        const std::string location(response.headers.get("location"));
        const std::optional<std::string> target = same_origin_url(request.url, location);
        const bool keeps_method = response.status == 307 || response.status == 308;
        if (!target || !keeps_method || redirects == max_redirects) {
            throw Error(ErrorCode::protocol,
                        self->about("redirects to " + shown_mcp_text(location) +
                                    ", which is not followed; configure this URL if it is the "
                                    "intended server."));
        }
        request.url = *target;
    }
}

Task<std::string> read_body(McpEndpointPtr self, HttpBody* body, std::size_t limit) {
    std::string text;
    while (co_await body->read(text)) {
        if (text.size() > limit) {
            throw Error(ErrorCode::too_large, self->about("sent a response of more than " +
                                                          std::to_string(limit) + " bytes."));
        }
    }
    co_return text;
}

Task<RpcMessage> refused(McpEndpointPtr self, HttpResponse response, std::int64_t id,
                         std::string used_token) {
    const int status = response.status;
    if (status == 401 || status == 403) {
        McpChallenge challenge = read_mcp_challenge(status, response.headers);
        if (has_authorizer(*self) && wants_authorization(challenge)) {
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

void answer(const McpEndpointPtr& self, RpcMessage request, std::optional<std::int64_t> during) {
    if (!self->background || self->answering == max_answering) return;
    ++self->answering;
    self->background->spawn(post_answer(self, std::move(request), during));
}

Task<std::optional<RpcMessage>> read_events(McpEndpointPtr self, HttpBody* body, std::int64_t id,
                                            McpStreamPlace* place) {
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
                    std::optional<std::int64_t> during;
                    if (id != 0) during = id;
                    answer(self, std::move(message), during);
                } else if (message.kind == RpcMessage::Kind::notification) {
                    if (const auto listener = self->listener.lock()) listener->notified(message);
                }
            }
        }
    }
    co_return std::nullopt;
}

bool is_event_stream(const HttpResponse& response) {
    return lower_case(response.headers.get("content-type")).starts_with("text/event-stream");
}

Task<> post_notification(McpEndpointPtr self, RpcMessage notification) {
    HttpRequest request = self->post(notification, HttpHeaders());
    Task<HttpResponse> sending = exchange(self, std::move(request));
    (void)co_await std::move(sending);
}

std::string mcp_url_origin(std::string_view url) {
    const std::size_t scheme_end = url.find("://");
    if (scheme_end == std::string_view::npos) return {};
    const std::string scheme = lower_case(url.substr(0, scheme_end));
    if (scheme != "http" && scheme != "https") return {};
    const std::string_view rest = url.substr(scheme_end + 3);
    const std::string_view authority = rest.substr(0, rest.find_first_of("/?#"));
    // A backslash or a user name makes clients disagree about the host.
    if (authority.empty() || authority.find_first_of("@\\ \t\r\n") != std::string_view::npos)
        return {};
    return scheme + "://" + lower_case(authority);
}

std::optional<std::string> same_origin_url(std::string_view url, std::string_view location) {
    const std::string origin = mcp_url_origin(url);
    if (origin.empty() || location.find_first_of("\\ \t\r\n") != std::string_view::npos)
        return std::nullopt;
    if (location.starts_with('/') && !location.starts_with("//"))
        return origin + std::string(location);
    if (mcp_url_origin(location) == origin) return std::string(location);
    return std::nullopt;
}

namespace {

/// A newer server may have a stream of notifications at its URL, which names nothing.
constexpr auto name_limit = std::chrono::seconds(5);

}  // namespace

Task<std::shared_ptr<McpOlderStream>> open_older_stream(McpEndpointPtr endpoint) {
    HttpRequest request = endpoint->prepared("GET");
    request.headers.set("accept", "text/event-stream");
    request.timeouts.first_byte = name_limit;
    std::string token;
    Task<HttpResponse> sending = exchange(endpoint, std::move(request), &token);
    Outcome<HttpResponse> sent = co_await outcome_of(std::move(sending));
    if (sent.ok() && sent.value().status == 401) {
        // The stream needs a login, although the refused POST did not say so: this throws.
        Task<RpcMessage> refusing = refused(endpoint, std::move(sent).value(), 0, std::move(token));
        (void)co_await std::move(refusing);
        co_return nullptr;
    }
    if (!sent.ok() || sent.value().status != 200 || !is_event_stream(sent.value()))
        co_return nullptr;
    auto stream = std::make_shared<McpOlderStream>(endpoint);
    if (!endpoint->background) co_return nullptr;
    endpoint->background->spawn(McpOlderStream::read(stream, endpoint, std::move(sent).value()));
    Task<> naming = with_timeout(*endpoint->runtime->clock, name_limit, stream->is_named_.wait(),
                                 "endpoint of the server");
    const Outcome<> named = co_await outcome_of(std::move(naming));
    if (named.cancelled()) named.rethrow();
    if (stream->post_url_.empty()) {
        // Its reader ends with the connection.
        co_return nullptr;
    }
    co_return stream;
}

Task<RpcMessage> McpOlderStream::request(RpcMessage message, std::int64_t id) {
    const std::shared_ptr<McpOlderStream> self = shared_from_this();
    const McpEndpointPtr endpoint = endpoint_.lock();
    if (!endpoint || has_ended_)
        throw Error(ErrorCode::disconnected, "The stream of the MCP server has ended.");
    const auto waiting = std::make_shared<Waiting>();
    waiting_[id] = waiting;
    struct Entry {
        std::map<std::int64_t, std::shared_ptr<Waiting>>& map;
        std::int64_t id;
        ~Entry() { map.erase(id); }
    };
    const Entry entry{waiting_, id};
    std::string token;
    HttpRequest post = endpoint->post(message, HttpHeaders());
    post.url = post_url_;
    HttpResponse response = co_await exchange(endpoint, std::move(post), &token);
    if (response.status < 200 || response.status > 299)
        co_return co_await refused(endpoint, std::move(response), id, std::move(token));
    response.body.reset();
    co_await waiting->ended.wait();
    if (!waiting->reply) {
        throw Error(ErrorCode::disconnected,
                    endpoint->about("has ended the stream without a response."));
    }
    co_return std::move(*waiting->reply);
}

Task<> McpOlderStream::read(std::shared_ptr<McpOlderStream> self, McpEndpointPtr endpoint,
                            HttpResponse response) {
    struct End {
        McpOlderStream& stream;
        const McpEndpointPtr& endpoint;
        ~End() { stream.end(endpoint); }
    };
    const End end{*self, endpoint};
    co_await read_messages(self, endpoint, response.body.get());
}

Task<> McpOlderStream::read_messages(std::shared_ptr<McpOlderStream> self, McpEndpointPtr endpoint,
                                     HttpBody* body) {
    const McpLimits& limits = endpoint->options.limits;
    SseDecoder decoder(SseLimits{limits.max_message_bytes, limits.max_message_bytes});
    std::string bytes;
    while (co_await body->read(bytes)) {
        self->unrequested_bytes_ += bytes.size();
        if (self->unrequested_bytes_ > limits.max_unrequested_bytes) co_return;
        decoder.feed(bytes);
        bytes.clear();
        SseEvent event;
        while (decoder.next(event)) {
            if (event.event == "endpoint" && self->post_url_.empty()) {
                const auto url = same_origin_url(endpoint->options.url, event.data);
                if (!url) co_return;  // another origin would receive the token
                self->post_url_ = *url;
                self->is_named_.set();
            }
            if (event.event != "message" || event.data.empty()) continue;
            for (RpcMessage& message : read_rpc_messages(event.data, limits.max_batch))
                self->take(endpoint, std::move(message));
        }
    }
}

void McpOlderStream::take(const McpEndpointPtr& endpoint, RpcMessage message) {
    const auto listener = endpoint->listener.lock();
    switch (message.kind) {
        case RpcMessage::Kind::result:
        case RpcMessage::Kind::error: {
            const std::int64_t* id = message.id.if_int64();
            const auto found = id ? waiting_.find(*id) : waiting_.end();
            if (found == waiting_.end() || found->second->ended.is_set()) return;
            unrequested_bytes_ = 0;
            found->second->reply = std::move(message);
            found->second->ended.set();
            return;
        }
        case RpcMessage::Kind::notification:
            if (listener) listener->notified(message);
            return;
        case RpcMessage::Kind::request: answer(endpoint, std::move(message), std::nullopt); return;
    }
}

void McpOlderStream::end(const McpEndpointPtr& endpoint) noexcept {
    has_ended_ = true;
    if (endpoint->older.get() == this) endpoint->is_open = false;
    is_named_.set();
    for (const auto& [id, waiting] : waiting_) waiting->ended.set();
}

}  // namespace cubepi::detail
