#include <cubepi/mcp/deferred_mcp_tools.hpp>

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

namespace cubepi {

namespace {

using ToolsByServer = std::map<std::string, std::vector<AgentTool>>;

Task<std::vector<AgentTool>> loaded(std::vector<AgentTool> tools) { co_return tools; }

DeferredToolsMiddleware middleware_of(ToolsByServer by_server) {
    std::vector<DeferredToolGroup> groups;
    for (auto& [server, tools] : by_server) {
        DeferredToolGroup group;
        group.group_id = server;
        group.display_name = "The MCP server " + server;
        group.description = "`search_tools` finds a tool of it by words";
        for (const AgentTool& tool : tools) group.tool_names.push_back(tool.name.str());
        // The connection is the client's; their definitions are here already.
        group.loader = [tools = std::move(tools)] { return loaded(tools); };
        groups.push_back(std::move(group));
    }
    DeferredToolsOptions options;
    options.lists_names = false;
    return DeferredToolsMiddleware(std::move(groups), std::move(options));
}

}  // namespace

OfferedMcpTools offer_mcp_tools(std::vector<McpTools> servers, std::size_t max_listed) {
    OfferedMcpTools offered;
    std::size_t count = 0;
    for (McpTools& one : servers) {
        count += one.tools.size();
        std::ranges::move(one.problems, std::back_inserter(offered.problems));
    }
    ToolsByServer by_server;
    for (McpTools& one : servers) {
        std::vector<AgentTool>& place = count > max_listed ? by_server[one.server] : offered.tools;
        std::ranges::move(one.tools, std::back_inserter(place));
    }
    if (count > max_listed) offered.deferred = middleware_of(std::move(by_server));
    return offered;
}

std::optional<DeferredToolsMiddleware> defer_mcp_tools(std::vector<AgentTool>& tools,
                                                       std::size_t max_listed) {
    const auto count = static_cast<std::size_t>(std::ranges::count_if(
        tools, [](const AgentTool& tool) { return !mcp_server_of(tool).empty(); }));
    if (count <= max_listed) return std::nullopt;
    ToolsByServer by_server;
    std::vector<AgentTool> others;
    for (AgentTool& tool : tools) {
        const std::string server = mcp_server_of(tool);
        std::vector<AgentTool>& place = server.empty() ? others : by_server[server];
        place.push_back(std::move(tool));
    }
    tools = std::move(others);
    return middleware_of(std::move(by_server));
}

}  // namespace cubepi
