#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include <cubepi/agent/agent.hpp>
#include <cubepi/agent/tool.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/task.hpp>
#include <cubepi/mcp/json_rpc.hpp>
#include <cubepi/mcp/protocol.hpp>

namespace cubepi {

struct McpServerOptions {
    McpImplementation implementation = {};
    std::string instructions = {};  ///< for the client's model; empty: none
    /// The tools that are offered, except hidden ones.
    ToolList tools = {};
    /// The hooks about calls decide about each of them, as in a run of an agent: a policy belongs here.
    HookSet hooks = {};
    AgentLimits limits = {};  ///< those of tools
    /// Requests of one connection that are executed at a time. Further ones are refused.
    std::size_t max_requests = 32;
    std::size_t max_message_bytes = std::size_t{4} << 20U;  ///< of a message of a client
    std::shared_ptr<const Runtime> runtime = Runtime::standard();
};

/// A connection of bytes with one client.
class McpByteStream {
public:
    virtual ~McpByteStream() = default;
    /// Waits for bytes and appends them. Returns false at the end.
    virtual Task<bool> read(std::string& out) = 0;
    /// Throws Error(disconnected) if the client does not read any more. One writer at a time.
    virtual Task<> write(std::string bytes) = 0;

    McpByteStream(const McpByteStream&) = delete;
    McpByteStream& operator=(const McpByteStream&) = delete;

protected:
    McpByteStream() = default;
};

/// Returns standard input and standard output of this process. Nothing else may use them.
std::unique_ptr<McpByteStream> mcp_standard_streams(Executor executor);

/// A request of a client, and what its transport knows about it.
struct McpServerCall {
    RpcMessage request = {};
    /// The version of the session; ignored for requests that state their own version. Empty: `initialize` has not been called.
    std::string session_version = {};
    /// Sends a notification about the request; empty: it cannot be sent.
    std::function<Task<>(RpcMessage notification)> notify = {};
    /// Aborts the call of a tool.
    std::stop_token stop = {};
};

/// Offers tools to clients of both eras (D138). Has no state of a client: connections and HTTP requests share one server. Used on
/// one serial executor.
class McpServer {
public:
    explicit McpServer(McpServerOptions options);
    ~McpServer();
    McpServer(const McpServer&) = delete;
    McpServer& operator=(const McpServer&) = delete;

    const McpServerOptions& options() const noexcept;

    /// Answers the messages of a client, one per line, until the end of its stream; requests in progress are answered before this
    /// returns. Throws Error(disconnected) if the client does not read its responses.
    Task<> serve(std::unique_ptr<McpByteStream> stream);

    /// Answers one request, for transports of one's own. Never throws an Error; cancelling it aborts the call of a tool.
    Task<RpcMessage> answer(McpServerCall call);

private:
    struct State;
    std::shared_ptr<State> state_;
};

}  // namespace cubepi
