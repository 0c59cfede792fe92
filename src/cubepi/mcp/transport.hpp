#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <cubepi/core/error.hpp>
#include <cubepi/core/http_transport.hpp>
#include <cubepi/core/task.hpp>
#include <cubepi/mcp/authorizer.hpp>
#include <cubepi/mcp/json_rpc.hpp>

namespace cubepi {

/// Receives what a server sends on its own. Called on the executor of the transport.
class McpTransportListener {
public:
    virtual ~McpTransportListener() = default;
    /// A notification. Must not wait and must not throw.
    virtual void notified(const RpcMessage& notification) noexcept = 0;
    /// A request of the server, which the era with sessions has. Returns the response. `during`: the id of the request of this client
    /// to which it belongs, if the transport shows that.
    virtual Task<RpcMessage> asked(RpcMessage request, std::optional<std::int64_t> during) = 0;

    McpTransportListener(const McpTransportListener&) = delete;
    McpTransportListener& operator=(const McpTransportListener&) = delete;

protected:
    McpTransportListener() = default;
};

/// A request of this client.
struct McpOutgoing {
    std::int64_t id = 0;  ///< unique among the requests of a client
    std::string method = {};
    JsonObject params = {};
    HttpHeaders headers =
        {};  ///< for transports over HTTP: `Mcp-Method`, `Mcp-Name`, `Mcp-Param-...`
};

/// A session of the server has ended (404 with a session id): the request was not executed. A new `initialize` opens another one.
class McpSessionExpired : public Error {
public:
    explicit McpSessionExpired(const std::string& message)
        : Error(ErrorCode::disconnected, message) {}
};

/// An HTTP server has refused a request with a status and without a JSON-RPC error: it does not know the method or the era.
class McpRefused : public Error {
public:
    McpRefused(int status, const std::string& message)
        : Error(ErrorCode::protocol, message), status_(status) {}
    int status() const noexcept { return status_; }

private:
    int status_;
};

/// A connection to one server. Used on one serial executor.
class McpTransport {
public:
    virtual ~McpTransport() = default;

    /// Opens the connection; closes an earlier one. Throws Error if the server cannot be started or reached, or if it failed a
    /// short time ago and is not tried again yet (ErrorCode::unavailable).
    virtual Task<> open(std::weak_ptr<McpTransportListener> listener) = 0;
    /// Returns true if requests can be sent.
    virtual bool is_open() const noexcept = 0;

    /// Sends a request and waits for its response: a message of the kind `result` or `error`. Several may be in progress. A
    /// request that is cancelled is withdrawn at the server. Throws Error: disconnected, too_large, protocol and those of
    /// HttpTransport; McpSessionExpired; McpRefused; McpUnauthorized, after which authorize() may help.
    virtual Task<RpcMessage> request(McpOutgoing outgoing) = 0;
    virtual Task<> notify(std::string method, JsonObject params) = 0;

    /// Returns true if the transport has a source of tokens.
    virtual bool can_authorize() const noexcept { return false; }
    /// Obtains another token for requests (McpAuthorizer). Only for transports that can.
    virtual Task<> authorize(McpChallenge challenge) {
        throw McpUnauthorized(std::move(challenge), "The server has refused the request.");
    }

    /// Sets the version that the following requests state outside of their bodies. Empty: none.
    virtual void use_version(std::string_view version) = 0;
    /// The connection has proved to work; the delay before the next start is reset.
    virtual void succeeded() noexcept {}

    /// Ends the connection in order; a child process is asked to exit first.
    virtual Task<> close() = 0;
    /// Ends the connection immediately.
    virtual void abandon() noexcept = 0;

    McpTransport(const McpTransport&) = delete;
    McpTransport& operator=(const McpTransport&) = delete;

protected:
    McpTransport() = default;
};

}  // namespace cubepi
