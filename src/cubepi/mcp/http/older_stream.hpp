#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include <cubepi/core/event_signal.hpp>
#include <cubepi/mcp/http/endpoint.hpp>

namespace cubepi::detail {

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
