#include "gateway_mcp.hpp"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <bub/session_tape.hpp>

#include "../mcp/mcp_hub.hpp"

namespace cubepi::app {

namespace {

struct Servers {
    bub::Framework* framework = nullptr;
    std::shared_ptr<McpHub> hub;
    std::chrono::nanoseconds start_wait;
    bub::WarningHandler warn;
    bool is_started = false;
};

/// Waits for the servers that the run of the session calls first, if it is suspended.
Task<> wait_for_open_calls(std::shared_ptr<Servers> servers, std::string session_id,
                           bub::TurnState* state) {
    std::vector<std::string> missing = servers->hub->without_tools();
    if (missing.empty()) co_return;
    std::shared_ptr<bub::TapeStore> tapes;
    if (const auto own = state->service<bub::TurnTapes>()) tapes = own->base;
    if (!tapes) tapes = co_await servers->framework->tape_store();
    if (!tapes) co_return;
    Task<std::string> naming = bub::session_tape_name(tapes, *state, std::move(session_id));
    std::string tape = co_await std::move(naming);
    Task<std::vector<std::string>> finding =
        servers_of_suspended_run(tapes, std::move(tape), std::move(missing));
    std::vector<std::string> called = co_await std::move(finding);
    if (!called.empty()) co_await servers->hub->wait_for(std::move(called));
}

Task<std::optional<JsonObject>> connect(std::shared_ptr<Servers> servers, std::string session_id,
                                        bub::TurnState* state) {
    if (!std::exchange(servers->is_started, true))
        co_await servers->hub->start(servers->start_wait);
    co_await wait_for_open_calls(servers, std::move(session_id), state);
    for (const std::string& problem : servers->hub->take_problems()) {
        if (servers->warn) servers->warn(problem);
    }
    co_return std::nullopt;
}

}  // namespace

bub::Plugin mcp_servers_plugin(bub::Framework& framework, std::shared_ptr<McpHub> hub,
                               std::chrono::nanoseconds start_wait, bub::WarningHandler warn) {
    auto servers = std::make_shared<Servers>();
    servers->framework = &framework;
    servers->hub = std::move(hub);
    servers->start_wait = start_wait;
    servers->warn = std::move(warn);
    bub::Plugin plugin;
    plugin.name = "mcp-servers";
    plugin.load_state = [servers](bub::LoadStateCall& call) {
        return connect(servers, call.session_id, &call.state);
    };
    return plugin;
}

void add_mcp_tools(AgentOptions& options, McpHub& hub) {
    // One list of all tools: each push_back() of a ToolList copies it.
    std::vector<AgentTool> tools(options.tools.begin(), options.tools.end());
    for (AgentTool& tool : hub.tools(options.spill)) tools.push_back(std::move(tool));
    options.tools = ToolList(std::move(tools));
}

}  // namespace cubepi::app
