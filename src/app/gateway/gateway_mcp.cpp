#include "gateway_mcp.hpp"

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace cubepi::app {

namespace {

constexpr auto longest_wait = std::chrono::seconds(3);

struct Servers {
    std::shared_ptr<McpHub> hub;
    bub::WarningHandler warn;
    bool is_started = false;
};

Task<std::optional<JsonObject>> connect(std::shared_ptr<Servers> servers) {
    if (!std::exchange(servers->is_started, true)) co_await servers->hub->start(longest_wait);
    for (const std::string& problem : servers->hub->take_problems()) {
        if (servers->warn) servers->warn(problem);
    }
    co_return std::nullopt;
}

}  // namespace

bub::Plugin mcp_servers_plugin(std::shared_ptr<McpHub> hub, bub::WarningHandler warn) {
    auto servers = std::make_shared<Servers>();
    servers->hub = std::move(hub);
    servers->warn = std::move(warn);
    bub::Plugin plugin;
    plugin.name = "mcp-servers";
    plugin.load_state = [servers](bub::LoadStateCall&) { return connect(servers); };
    return plugin;
}

void add_mcp_tools(AgentOptions& options, McpHub& hub) {
    // One list of all tools: each push_back() of a ToolList copies it.
    std::vector<AgentTool> tools(options.tools.begin(), options.tools.end());
    for (AgentTool& tool : hub.tools()) tools.push_back(std::move(tool));
    options.tools = ToolList(std::move(tools));
}

}  // namespace cubepi::app
