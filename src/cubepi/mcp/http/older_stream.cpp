#include <cubepi/mcp/http/older_stream.hpp>

#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include <cubepi/core/outcome.hpp>
#include <cubepi/core/timeout.hpp>
#include <cubepi/mcp/http/endpoint.hpp>
#include <cubepi/net/sse_decoder.hpp>

namespace cubepi::detail {

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
