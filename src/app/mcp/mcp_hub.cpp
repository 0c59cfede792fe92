#include "mcp_hub.hpp"

#include <cstddef>
#include <cstdint>
#include <exception>
#include <utility>

#include <cubepi/core/error.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/core/timeout.hpp>
#include <cubepi/mcp/tools.hpp>

namespace cubepi::app {

struct McpHub::State {
    /// A server and what it offers.
    struct Member {
        std::string name;
        std::shared_ptr<McpClient> client;
        std::vector<AgentTool> tools;
        std::uint64_t revision = 0;  ///< of the tools; 0: not listed yet
        bool is_listing = false;
        bool is_reported = false;
    };
    using StatePtr = std::shared_ptr<State>;
    using MemberPtr = std::shared_ptr<Member>;

    // They share what they use: they may end after the hub.
    static Task<> list_tools(StatePtr state, MemberPtr member);
    static Task<> list_first_time(StatePtr state, MemberPtr member);
    static Task<> until_listed(StatePtr state);

    std::vector<MemberPtr> members;
    std::vector<std::string> problems;
    std::size_t waiting = 0;  ///< servers that have not answered yet
    AsyncEvent answered;
    std::unique_ptr<BackgroundScope> scope;
};

/// Lists the tools of a server; a failure is reported once.
Task<> McpHub::State::list_tools(StatePtr state, MemberPtr member) {
    member->is_listing = true;
    McpToolOptions options;
    options.risk = ToolRisk::irreversible;
    Task<McpTools> listing = mcp_tools(member->client, options);
    Outcome<McpTools> listed = co_await outcome_of(std::move(listing));
    member->is_listing = false;
    member->revision = member->client->tools_revision();
    std::vector<std::string> found;
    try {
        McpTools made = std::move(listed).value();
        member->tools = std::move(made.tools);
        for (const std::string& problem : made.problems)
            found.push_back("MCP server " + member->name + ": " + problem);
    } catch (const Error& error) {
        if (error.code() == ErrorCode::cancelled) throw;
        const std::string text = error.what();
        const bool is_named = text.find(member->name) != std::string::npos;
        found.push_back(is_named ? text : "MCP server " + member->name + ": " + text);
    }
    if (found.empty() || member->is_reported) co_return;
    member->is_reported = true;
    state->problems.insert(state->problems.end(), found.begin(), found.end());
}

Task<> McpHub::State::list_first_time(StatePtr state, MemberPtr member) {
    struct Count {
        State& state;
        ~Count() {
            --state.waiting;
            state.answered.pulse();
        }
    };
    const Count count{*state};
    co_await list_tools(state, std::move(member));
}

Task<> McpHub::State::until_listed(StatePtr state) {
    while (state->waiting > 0) co_await state->answered.wait();
}

McpHub::McpHub(std::vector<McpServerSettings> servers, EnvironmentPolicy environment,
               std::shared_ptr<const Runtime> runtime)
    : state_(std::make_shared<State>()) {
    for (const McpServerSettings& server : servers) {
        if (server.disabled) continue;
        auto member = std::make_shared<State::Member>();
        member->name = server.name;
        try {
            member->client = mcp_client(server, environment, runtime);
            state_->members.push_back(std::move(member));
        } catch (const Error& error) {
            state_->problems.emplace_back(error.what());
        }
    }
}

McpHub::~McpHub() { state_->scope.reset(); }

Task<> McpHub::start(std::chrono::nanoseconds limit) {
    const std::shared_ptr<State> state = state_;
    const Executor executor = co_await this_executor;
    state->scope = std::make_unique<BackgroundScope>(executor, [](std::exception_ptr) {});
    state->waiting = state->members.size();
    for (const State::MemberPtr& member : state->members)
        state->scope->spawn(State::list_first_time(state, member));
    Task<> waiting =
        with_timeout(*Runtime::standard()->clock, limit, State::until_listed(state), "mcp start");
    const Outcome<> waited = co_await outcome_of(std::move(waiting));
    try {
        waited.rethrow();
    } catch (const TimeoutError&) {
        for (const State::MemberPtr& member : state->members) {
            if (member->is_listing)
                state->problems.push_back("The MCP server " + member->name +
                                          " has not answered yet; its tools follow when it does.");
        }
    }
}

std::vector<AgentTool> McpHub::tools() {
    std::vector<AgentTool> tools;
    for (const State::MemberPtr& member : state_->members) {
        tools.insert(tools.end(), member->tools.begin(), member->tools.end());
        const bool is_stale =
            member->revision != 0 && member->revision != member->client->tools_revision();
        if (is_stale && !member->is_listing && state_->scope)
            state_->scope->spawn(State::list_tools(state_, member));
    }
    return tools;
}

std::vector<std::string> McpHub::take_problems() { return std::exchange(state_->problems, {}); }

}  // namespace cubepi::app
