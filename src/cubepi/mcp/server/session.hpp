#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/json.hpp>
#include <cubepi/core/task.hpp>
#include <cubepi/mcp/json_rpc.hpp>
#include <cubepi/mcp/server/replay.hpp>
#include <cubepi/mcp/server/subscriptions.hpp>
#include <cubepi/mcp/server_features.hpp>

namespace cubepi::detail {

/// Sends a message to a client.
using McpSend = std::function<Task<>(RpcMessage message)>;

/// A client of the era with sessions: what it has told the server, its requests in progress, and the questions to it. A connection over
/// standard streams has one, whatever the era of its client. Used on the executor of the server.
class McpSession {
public:
    McpSession() = default;
    McpSession(const McpSession&) = delete;
    McpSession& operator=(const McpSession&) = delete;

    std::string client = {};   ///< that has opened it, McpRouteOptions::client; empty: any
    std::string version = {};  ///< empty: `initialize` has not been called
    JsonObject capabilities = {};
    McpLogLevel log_level = McpLogLevel::info;
    /// Null until `initialize`, or if the server announces no changes.
    std::shared_ptr<McpSubscriber> subscriber = {};
    bool has_stream = false;  ///< over HTTP: its notifications are being written
    /// Requests in progress by their ids, as text: 1 and "1" are different.
    std::map<std::string, std::stop_source> running = {};
    McpReplays replays = {};  ///< over HTTP

    /// Sends a request to the client and waits for the response. Throws McpError for an error response, Error(disconnected) if the
    /// session is closed, Error(limit) if too many requests wait.
    Task<JsonObject> ask(std::string method, JsonObject params, McpSend send);
    /// Receives a response of the client. One that nothing waits for is ignored.
    void answered(RpcMessage response);
    /// Ends all questions, and the subscriber. Requests in progress are not affected.
    void close();
    /// Aborts the requests in progress.
    void abort_requests();
    bool is_closed() const noexcept { return is_closed_; }

private:
    struct Waiting {
        AsyncEvent ended;
        std::optional<RpcMessage> response;
    };
    struct Entry;

    bool is_closed_ = false;
    std::int64_t last_id_ = 0;
    std::map<std::int64_t, Waiting*> waiting_;
};

}  // namespace cubepi::detail
