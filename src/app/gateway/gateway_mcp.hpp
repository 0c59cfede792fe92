#pragma once

#include <chrono>
#include <memory>

#include <bub/framework.hpp>
#include <bub/hooks.hpp>
#include <bub/turn_error.hpp>
#include <cubepi/agent/agent.hpp>

#include "../mcp/mcp_hub.hpp"

namespace cubepi::app {

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
