#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/agent/agent.hpp>
#include <cubepi/agent/tool.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/task.hpp>
#include <cubepi/mcp/json_rpc.hpp>
#include <cubepi/mcp/protocol.hpp>
#include <cubepi/mcp/server_features.hpp>

namespace cubepi {

struct McpHeaderParameter;
namespace detail {
class McpSession;
}

/// Calls that clients follow by an id (extension io.modelcontextprotocol/tasks of 2026-07-28, D167): with status, questions, result and
/// cancellation, over lost connections, but not over the end of this process.
struct McpTaskOptions {
    /// The names of tools whose calls become tasks, if their client supports tasks. Empty: there are no tasks.
    std::vector<std::string> tools = {};
    /// The names of further tools, whose functions ask their client before they call McpRequest::continue_as_task().
    std::vector<std::string> later = {};
    /// Those of both whose calls are refused to clients of 2026-07-28 without tasks; others call them as an ordinary tool.
    std::vector<std::string> required = {};
    /// From the call until the task is forgotten; a call that is still in progress is aborted.
    std::chrono::milliseconds time_to_live = std::chrono::hours(24);
    std::chrono::milliseconds poll_interval =
        std::chrono::seconds(1);  ///< that is suggested to clients
    /// Of one client, and of all. When there are more, the oldest one that has ended is forgotten; if all are in progress, the call is
    /// refused.
    std::size_t max_per_client = 16;
    std::size_t max_tasks = 256;
};

struct McpServerOptions {
    McpImplementation implementation = {};
    std::string instructions = {};  ///< for the client's model; empty: none
    /// The tools that are offered, except hidden ones.
    ToolList tools = {};
    /// Further tools, which use the protocol.
    std::vector<McpServerTool> server_tools = {};
    std::vector<McpServerPrompt> prompts = {};
    std::vector<McpServerResource> resources = {};
    std::vector<McpServerResourceTemplate> resource_templates = {};
    /// Clients are notified when set_tools() and the like are called. False: they are not told that the lists can change, and open no
    /// stream for it.
    bool announces_changes = false;
    /// How long clients may use a list without asking again, and whether caches may share it among users. For clients of the
    /// revision without sessions.
    std::chrono::milliseconds list_ttl = std::chrono::milliseconds::zero();
    bool lists_are_public = false;
    /// The hooks about calls decide about each of them, as in a run of an agent: a policy belongs here.
    HookSet hooks = {};
    /// Returns the hooks of one call, in place of `hooks`: those that ask the user of the client, see mcp_client_channel(). Empty:
    /// `hooks`. They are used while the call is answered, and again if the request is repeated.
    std::function<HookSet(McpRequest& request)> call_hooks = {};
    AgentLimits limits = {};  ///< those of tools
    McpTaskOptions tasks = {};
    /// Requests of one connection that are executed at a time. Further ones are refused.
    std::size_t max_requests = 32;
    std::size_t max_message_bytes = std::size_t{4} << 20U;  ///< of a message of a client
    /// Streams of notifications that are open at a time, of all clients.
    std::size_t max_subscriptions = 64;
    /// The state of a request over several rounds, which its client stores: the key that authenticates it, the same for all processes
    /// that serve the same clients (empty: a random one), its limits, and the rounds of a request.
    std::string state_key = {};
    std::chrono::nanoseconds state_lifetime = std::chrono::hours(1);
    std::size_t max_state_bytes = std::size_t{64} << 10U;
    std::size_t max_rounds = 16;
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
    /// Sends a notification or a question about the request; empty: it cannot be sent.
    std::function<Task<>(RpcMessage message)> notify = {};
    /// Aborts the call of a tool, and ends a stream of notifications.
    std::stop_token stop = {};
    /// The session of the client; null: it has none, and cannot be asked during a call.
    std::shared_ptr<detail::McpSession> session = {};
    /// Identifies the client among those of the server: its tasks are found by this text and their id.
    std::string client = {};
};

/// Offers tools, prompts and resources to clients of both eras (D138, D146). Connections and HTTP requests share one server, which has
/// no state of a client. Used on one serial executor.
class McpServer {
public:
    /// Throws Error(invalid_argument) for repeated names and for templates that are invalid.
    explicit McpServer(McpServerOptions options);
    ~McpServer();
    McpServer(const McpServer&) = delete;
    McpServer& operator=(const McpServer&) = delete;

    const McpServerOptions& options() const noexcept;

    // Replace what is offered, and notify the clients that want it. Requests in progress use what was offered before. Throw like the
    // constructor.
    void set_tools(ToolList tools, std::vector<McpServerTool> server_tools = {});
    void set_prompts(std::vector<McpServerPrompt> prompts);
    void set_resources(std::vector<McpServerResource> resources,
                       std::vector<McpServerResourceTemplate> templates = {});
    /// Notifies the clients that have subscribed to this resource.
    void resource_updated(std::string_view uri);

    /// Answers the messages of a client, one per line, until the end of its stream; requests in progress are answered before this
    /// returns. Throws Error(disconnected) if the client does not read its responses.
    Task<> serve(std::unique_ptr<McpByteStream> stream);

    /// Answers one request, for transports of one's own. Never throws an Error; cancelling it aborts the call of a tool.
    Task<RpcMessage> answer(McpServerCall call);
    /// Starts a coroutine that outlives its request, for transports of one's own. It must not throw, and share what it uses. Returns
    /// false, and does not start it, after close().
    bool spawn(const Executor& executor, Task<> task);
    /// Aborts what outlives requests (tasks, calls of spawn()) and waits for it. Await it before objects are destroyed that the tools
    /// use, if there are tasks or McpRouteOptions::resume_time; the destructor only cancels.
    Task<> close();
    /// Cancels the tasks of a client, see McpServerCall::client, and waits for their end.
    Task<> end_tasks(std::string client);
    /// Returns the parameters of a tool that clients repeat as headers; null if there are none. Valid until set_tools().
    const std::vector<McpHeaderParameter>* header_parameters(std::string_view tool) const;

private:
    struct State;
    std::shared_ptr<State> state_;
};

}  // namespace cubepi
