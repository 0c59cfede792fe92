#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/http_transport.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/mcp/auth/secrets.hpp>
#include <cubepi/mcp/http_transport.hpp>
#include <cubepi/mcp/json_rpc.hpp>
#include <cubepi/mcp/transport.hpp>
#include <cubepi/net/http_client.hpp>

// The exchanges of a client with the endpoint of an MCP server.

namespace cubepi::detail {

class McpOlderStream;

/// An exchange that a coroutine of a stream may read across retries.
struct McpStreamPlace {
    std::string last_event_id;
    std::chrono::nanoseconds retry_delay;
    std::size_t bytes = 0;
    bool has_progressed = false;
};

/// The state that the coroutines of a transport share, so that it outlives the transport until they end.
struct McpEndpoint {
    McpEndpoint(McpHttpOptions settings, std::shared_ptr<const Runtime> its_runtime)
        : options(std::move(settings)),
          runtime(std::move(its_runtime)),
          transport(transport_of(*runtime)) {
        for (const HttpHeader& header : options.headers) secrets.add(header.name, header.value);
        secrets.add_parameters(options.url);
    }

    HttpRequest prepared(std::string method) const;
    HttpRequest post(const RpcMessage& message, HttpHeaders headers) const;
    std::string about(std::string_view text) const {
        return "The MCP server " + options.server + " " + secrets.without(std::string(text));
    }

    const McpHttpOptions options;
    const std::shared_ptr<const Runtime> runtime;
    const std::shared_ptr<HttpTransport> transport;
    McpSecrets secrets;
    std::weak_ptr<McpTransportListener> listener;
    std::string version;
    std::string session_id;
    /// The server of 2024-11-05 behind the URL, once it has turned out to be one.
    std::shared_ptr<McpOlderStream> older;
    bool is_open = false;
    std::unique_ptr<BackgroundScope> background;
    std::size_t answering = 0;  ///< requests of the server
};

using McpEndpointPtr = std::shared_ptr<McpEndpoint>;

/// Returns true if there is a source of tokens, and no configured one.
bool has_authorizer(const McpEndpoint& endpoint);

bool is_event_stream(const HttpResponse& response);

/// Sends a request with a token and follows redirects that keep method and origin. Sets `used_token`, unless it is null.
Task<HttpResponse> exchange(McpEndpointPtr self, HttpRequest request,
                            std::string* used_token = nullptr);

/// Reads a body up to a limit. Throws Error(too_large).
Task<std::string> read_body(McpEndpointPtr self, HttpBody* body, std::size_t limit);

/// Converts a status that is not a success: returns the error response in its body, or throws.
Task<RpcMessage> refused(McpEndpointPtr self, HttpResponse response, std::int64_t id,
                         std::string used_token);

/// Answers a request of the server with a request of its own, whose response has no content. In the background: a question to the
/// user must not hold up what follows in the stream. `during`: the request whose stream it came in. Too many at once are ignored.
void answer(const McpEndpointPtr& self, RpcMessage request, std::optional<std::int64_t> during);

/// Reads a stream of events. Returns the response to `id`, or nothing at the end of the stream. `id` is 0 for a stream that belongs to
/// no request.
Task<std::optional<RpcMessage>> read_events(McpEndpointPtr self, HttpBody* body, std::int64_t id,
                                            McpStreamPlace* place);

Task<> post_notification(McpEndpointPtr self, RpcMessage notification);

/// Returns scheme and authority of a URL, in lower case: "https://host:8443". Empty for another scheme than http and https, without
/// a host, and with a user name.
std::string mcp_url_origin(std::string_view url);

/// Returns the URL to which a server redirects with `location`, if it has the same origin as `url`.
std::optional<std::string> same_origin_url(std::string_view url, std::string_view location);

/// The transport of 2024-11-05 ("HTTP with SSE"): the server sends all messages in one stream of events, whose first event names the
/// URL for requests. Used on the executor of its endpoint.
class McpOlderStream : public std::enable_shared_from_this<McpOlderStream> {
public:
    explicit McpOlderStream(const McpEndpointPtr& endpoint) : endpoint_(endpoint) {}

    /// The URL for requests; empty until the server has named it.
    const std::string& post_url() const noexcept { return post_url_; }
    /// Sends a request and waits for its response in the stream. Throws as McpTransport::request().
    Task<RpcMessage> request(RpcMessage message, std::int64_t id);

private:
    friend Task<std::shared_ptr<McpOlderStream>> open_older_stream(McpEndpointPtr endpoint);

    /// A request that waits; `reply` is empty if the stream ended first.
    struct Waiting {
        AsyncEvent ended;
        std::optional<RpcMessage> reply;
    };

    static Task<> read(std::shared_ptr<McpOlderStream> self, McpEndpointPtr endpoint,
                       HttpResponse response);
    static Task<> read_messages(std::shared_ptr<McpOlderStream> self, McpEndpointPtr endpoint,
                                HttpBody* body);
    void take(const McpEndpointPtr& endpoint, RpcMessage message);
    void end(const McpEndpointPtr& endpoint) noexcept;

    const std::weak_ptr<McpEndpoint> endpoint_;
    std::string post_url_;
    AsyncEvent is_named_;  ///< the URL is known, or the stream has ended
    bool has_ended_ = false;
    std::size_t unrequested_bytes_ = 0;
    std::map<std::int64_t, std::shared_ptr<Waiting>> waiting_;
};

/// Opens the stream. Returns null if there is none at the URL of the endpoint.
Task<std::shared_ptr<McpOlderStream>> open_older_stream(McpEndpointPtr endpoint);

}  // namespace cubepi::detail
