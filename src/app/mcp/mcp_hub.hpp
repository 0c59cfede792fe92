#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include <bub/framework.hpp>
#include <bub/hooks.hpp>
#include <bub/tape/tape_store.hpp>
#include <bub/turn_error.hpp>
#include <cubepi/agent/agent.hpp>
#include <cubepi/agent/tool.hpp>
#include <cubepi/core/message_list.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/task.hpp>
#include <cubepi/process/environment.hpp>

#include "mcp_settings.hpp"

namespace cubepi::app {

/// A server of a hub, for display.
struct McpServerStatus {
    std::string name = {};
    std::string place = {};    ///< the command or the URL
    std::string program = {};  ///< as the server describes itself; empty: it has not answered yet
    std::size_t tools = 0;
    bool is_connecting = false;
    std::string problem = {};  ///< of the last attempt; empty: none
};

/// How long the first turn waits for servers, unless the key `mcp_start_wait` of the configuration states it.
inline constexpr std::chrono::seconds default_mcp_start_wait(3);

/// The MCP servers of a conversation. They are connected in the background: one that is slow, broken or gone delays the start by the
/// limit of start() at most, no turn at all, is reported once, and is tried again after a delay. Used on one executor.
///
/// Their tools are `irreversible` for approvals, so that each call is asked about: a server may change what a tool does. An answer
/// "always" holds for one definition of a tool (D148).
class McpHub {
public:
    McpHub(std::vector<McpServerSettings> servers, EnvironmentPolicy environment,
           std::shared_ptr<const Runtime> runtime, const McpHost& host = McpHost());
    /// Ends all connections and processes.
    ~McpHub();
    McpHub(const McpHub&) = delete;
    McpHub& operator=(const McpHub&) = delete;

    /// Starts to connect to all servers, and waits until they have answered or failed, but not longer than `limit`.
    Task<> start(std::chrono::nanoseconds limit);
    /// Returns the servers that have not answered yet, or have failed, and have no tools therefore.
    std::vector<std::string> without_tools() const;
    /// Waits until each of these servers has answered or failed, for which their clients have limits of time; one that has failed is
    /// tried again first. For calls that the user has allowed already.
    Task<> wait_for(std::vector<std::string> names);
    /// Returns the tools of the servers that have answered, in the order of the configuration, without repeated names. Lists again
    /// the tools of servers that have reported a change, or failed some time ago, for later calls of this function. `spill`: of the agent
    /// that gets the tools; if it stores files, sounds and other data of results are stored there (D203).
    std::vector<AgentTool> tools(const std::shared_ptr<SpillSink>& spill = nullptr);
    /// Returns the servers, in the order of the configuration.
    std::vector<McpServerStatus> status() const;
    /// Returns the client of a server; null if there is none of this name.
    std::shared_ptr<McpClient> client(const std::string& name) const;
    /// Closes the connection of a server, or of all for an empty name, and connects again. Waits like start(). Returns false for a
    /// name that no server has.
    Task<bool> reconnect(std::string name, std::chrono::nanoseconds limit);
    /// Returns what has failed or was left out since the last call.
    std::vector<std::string> take_problems();

private:
    struct State;
    std::shared_ptr<State> state_;
};

/// Returns those of `servers` that the run of a tape calls first when it continues: the servers of its calls that have no result yet.
/// All of them if a sub-agent is called, because its calls are on a tape of its own.
std::vector<std::string> servers_of_open_calls(const MessageList& messages,
                                               const std::vector<std::string>& servers);

/// Returns the same for a tape, and nothing if no run of it is suspended.
Task<std::vector<std::string>> servers_of_suspended_run(std::shared_ptr<bub::TapeStore> tapes,
                                                        std::string tape,
                                                        std::vector<std::string> servers);

/// Returns a plugin that connects to the MCP servers of `hub` before the first turn of its framework, which waits for them for
/// `start_wait`; later turns do not wait. A turn that continues a run waits for the servers of the calls with which the run continues,
/// as long as these take to start. Problems go to `warn`. It is added before the plugin that names the tapes of sessions, so that it is
/// called after that one.
bub::Plugin mcp_servers_plugin(bub::Framework& framework, std::shared_ptr<McpHub> hub,
                               std::chrono::nanoseconds start_wait, bub::WarningHandler warn);

/// Adds the tools of the servers to the agent of a turn. They are named `mcp__SERVER__TOOL` and irreversible, so the rules for the
/// sender of a message decide about them as about other tools.
void add_mcp_tools(AgentOptions& options, McpHub& hub);

}  // namespace cubepi::app
