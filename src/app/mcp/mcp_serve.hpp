#pragma once

#include <iosfwd>

#include <cubepi/agent/tool.hpp>

#include "../command_line.hpp"
#include "../config/config_file.hpp"
#include "../project/project.hpp"

namespace cubepi::app {

/// Returns the tool `agent` of `cubepi mcp serve`: it runs the agent of this directory, as `cubepi run` does without a terminal, in a
/// temporary session of its own, and returns its answer. The tools that it calls are its progress. `flags` are those of the run. The
/// agent has no MCP servers, so that a server cannot start itself.
AgentTool mcp_agent_tool(ConversationFlags flags);

/// Throws Error(invalid_argument) if the options of `cubepi mcp serve` are wrong, whatever the configuration file has.
void check_mcp_serve(const McpArguments& arguments);

/// Serves the tools and the agent of this directory, under the hooks of the user. Calls that no rule of the configuration allows are
/// questions to the user of the client; if it does not answer questions, they are refused. The options were checked. Returns the exit status.
int serve_mcp(const McpArguments& arguments, const ConfigFile& config,
              const ProjectSettings& project, std::ostream& error_output);

}  // namespace cubepi::app
