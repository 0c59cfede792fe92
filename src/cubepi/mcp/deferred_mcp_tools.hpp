#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <cubepi/agent/tool.hpp>
#include <cubepi/mcp/protocol.hpp>
#include <cubepi/mcp/tools.hpp>
#include <cubepi/middleware/deferred_tools.hpp>

namespace cubepi {

/// The tools of an agent's servers: in each request, or loaded by the model when it needs them.
struct OfferedMcpTools {
    std::vector<AgentTool> tools = {};                     ///< for AgentOptions::tools
    std::optional<DeferredToolsMiddleware> deferred = {};  ///< for AgentOptions::middleware
    std::vector<std::string> problems = {};                ///< of all servers
};

/// Returns the tools of servers for an agent. If all servers together have more than `max_listed` tools, none of them is in the
/// requests: the model finds and calls them by those of DeferredToolsMiddleware, with a group for each server (D164). Approvals and
/// rules see each call as that of its tool. The system prompt then has the names of the servers, as the host has given them, and no
/// words of theirs.
OfferedMcpTools offer_mcp_tools(std::vector<McpTools> servers,
                                std::size_t max_listed = default_max_listed_mcp_tools);

/// The same for a list that has other tools, too: moves those of servers (mcp_server_of()) to the middleware that it returns; nothing if
/// they are not more than `max_listed`.
std::optional<DeferredToolsMiddleware> defer_mcp_tools(
    std::vector<AgentTool>& tools, std::size_t max_listed = default_max_listed_mcp_tools);

}  // namespace cubepi
