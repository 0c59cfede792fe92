#include "mcp_hub.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include <cubepi/core/clock.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/core/timeout.hpp>
#include <cubepi/mcp/tools.hpp>

namespace cubepi::app {

namespace {

/// Between a failed listing and the next one, which doubles from failure to failure.
constexpr std::chrono::nanoseconds first_delay = std::chrono::seconds(5);
constexpr std::chrono::nanoseconds max_delay = std::chrono::minutes(5);

}  // namespace

struct McpHub::State {
    explicit State(std::shared_ptr<const Runtime> its_runtime) : runtime(std::move(its_runtime)) {}

    /// A server and what it offers.
    struct Member {
        std::string name;
        std::shared_ptr<McpClient> client;
        std::vector<AgentTool> tools;
        std::uint64_t revision = 0;  ///< of the tools
        /// After a failure: the time of the next attempt, and the delay after the next failure.
        std::optional<Clock::time_point> next_try;
        std::chrono::nanoseconds delay = first_delay;
        bool is_listing = false;
        bool is_reported = false;
    };
    using StatePtr = std::shared_ptr<State>;
    using MemberPtr = std::shared_ptr<Member>;

    // They share what they use: they may end after the hub.
    static Task<McpTools> connect_and_list(MemberPtr member);
    static Task<> list_tools(StatePtr state, MemberPtr member);
    static Task<> list_first_time(StatePtr state, MemberPtr member);
    static Task<> until_listed(StatePtr state);
    bool is_due(const Member& member) const;

    const std::shared_ptr<const Runtime> runtime;
    std::vector<MemberPtr> members;
    std::vector<std::string> problems;
    std::set<std::string> repeated_names;  ///< of tools, that were reported
    std::size_t waiting = 0;               ///< servers that have not answered yet
    AsyncEvent answered;
    std::unique_ptr<BackgroundScope> scope;
};

/// Takes the revision before the list, so that a change in between is noticed, and after the connection, which changes it too.
Task<McpTools> McpHub::State::connect_and_list(MemberPtr member) {
    (void)co_await member->client->connect();
    member->revision = member->client->tools_revision();
    McpToolOptions options;
    options.risk = ToolRisk::irreversible;
    Task<McpTools> listing = mcp_tools(member->client, options);
    co_return co_await std::move(listing);
}

bool McpHub::State::is_due(const Member& member) const {
    if (member.is_listing) return false;
    if (member.next_try) return runtime->clock->now() >= *member.next_try;
    return member.revision != member.client->tools_revision();
}

/// Lists the tools of a server. A problem is reported once until a listing has none.
Task<> McpHub::State::list_tools(StatePtr state, MemberPtr member) {
    member->is_listing = true;
    Outcome<McpTools> listed = co_await outcome_of(connect_and_list(member));
    member->is_listing = false;
    std::vector<std::string> found;
    try {
        McpTools made = std::move(listed).value();
        member->tools = std::move(made.tools);
        member->next_try.reset();
        member->delay = first_delay;
        if (made.problems.empty()) member->is_reported = false;
        for (const std::string& problem : made.problems)
            found.push_back("MCP server " + member->name + ": " + problem);
    } catch (const Error& error) {
        if (error.code() == ErrorCode::cancelled) throw;
        member->next_try = deadline_after(state->runtime->clock->now(), member->delay);
        member->delay = std::min(member->delay * 2, max_delay);
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
    : state_(std::make_shared<State>(runtime)) {
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
        with_timeout(*state->runtime->clock, limit, State::until_listed(state), "mcp start");
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
    std::set<std::string_view> names;
    for (const State::MemberPtr& member : state_->members) {
        for (const AgentTool& tool : member->tools) {
            if (names.insert(tool.name.str()).second) {
                tools.push_back(tool);
            } else if (state_->repeated_names.insert(tool.name.str()).second) {
                state_->problems.push_back("MCP server " + member->name +
                                           ": another server has a tool with the name " +
                                           tool.name.str() + "; this one is left out.");
            }
        }
    }
    // Afterwards: a list that is not sent again replaces the tools at once.
    for (const State::MemberPtr& member : state_->members) {
        if (state_->scope && state_->is_due(*member))
            state_->scope->spawn(State::list_tools(state_, member));
    }
    return tools;
}

std::vector<std::string> McpHub::take_problems() { return std::exchange(state_->problems, {}); }

}  // namespace cubepi::app
