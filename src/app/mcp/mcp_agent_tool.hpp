#pragma once

#include <cubepi/agent/tool.hpp>

#include "../command_line.hpp"

namespace cubepi::app {

/// Returns the tool `agent` of `cubepi mcp serve`: it runs the agent of this directory, as `cubepi run` does without a terminal, in a
/// temporary session of its own, and returns its answer. The tools that it calls are its progress. `flags` are those of the run. The
/// agent has no MCP servers, so that a server cannot start itself.
AgentTool mcp_agent_tool(ConversationFlags flags);

}  // namespace cubepi::app
