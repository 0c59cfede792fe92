#pragma once

#include <memory>

#include <bub/hooks.hpp>
#include <bub/turn_error.hpp>
#include <cubepi/agent/agent.hpp>

#include "../mcp/mcp_hub.hpp"

namespace cubepi::app {

/// Returns a plugin that connects to the MCP servers of `hub` before the first turn of its framework, which waits for them for a
/// moment; later turns do not wait. Problems go to `warn`.
bub::Plugin mcp_servers_plugin(std::shared_ptr<McpHub> hub, bub::WarningHandler warn);

/// Adds the tools of the servers to the agent of a turn. They are named `mcp__SERVER__TOOL` and irreversible, so the rules for the
/// sender of a message decide about them as about other tools.
void add_mcp_tools(AgentOptions& options, McpHub& hub);

}  // namespace cubepi::app
