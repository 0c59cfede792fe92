#include "mcp_hub.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <bub/session_tape.hpp>
#include <bub/tape/tape_session.hpp>
#include <cubepi/core/clock.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/core/timeout.hpp>
#include <cubepi/mcp/tools.hpp>
#include <cubepi/workspace/spill.hpp>

#include "../transcript.hpp"

namespace cubepi::app {

namespace {

/// Between a failed listing and the next one, which doubles from failure to failure.
constexpr std::chrono::nanoseconds first_delay = std::chrono::seconds(5);
constexpr std::chrono::nanoseconds max_delay = std::chrono::minutes(5);

/// The last answer and the results of its other calls are among them.
constexpr std::size_t newest_entries = 200;

/// Returns the tool that a call runs in the end: a deferred tool has the call of another one (D122).
std::string_view called_tool(const ToolCall& call) {
    if (call.name != "deferred_tool_call") return call.name.str();
    return detail::string_member(call.arguments, "tool_name");
}

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

struct McpHub::State {
    explicit State(std::shared_ptr<const Runtime> its_runtime) : runtime(std::move(its_runtime)) {}

    /// A server and what it offers.
    struct Member {
        std::string name;
        std::string place;
        std::shared_ptr<McpClient> client;  ///< null: its settings cannot be used
        std::string program;
        std::string problem;
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
    static Task<> close_and_list(StatePtr state, MemberPtr member);
    static Task<> until_answered(StatePtr state, MemberPtr member);
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
    const McpServerInfo info = co_await member->client->connect();
    const McpImplementation& program = info.implementation;
    member->program = program.name + " " + program.version + ", protocol " + info.version;
    member->revision = member->client->tools_revision();
    McpToolOptions options;
    options.risk = ToolRisk::irreversible;
    Task<McpTools> listing = mcp_tools(member->client, options);
    co_return co_await std::move(listing);
}

bool McpHub::State::is_due(const Member& member) const {
    if (!member.client || member.is_listing) return false;
    if (member.next_try) return runtime->clock->now() >= *member.next_try;
    return member.revision != member.client->tools_revision();
}

/// Lists the tools of a server. A problem is reported once until a listing has none.
Task<> McpHub::State::list_tools(StatePtr state, MemberPtr member) {
    member->is_listing = true;
    Outcome<McpTools> listed = co_await outcome_of(connect_and_list(member));
    member->is_listing = false;
    state->answered.pulse();
    std::vector<std::string> found;
    try {
        McpTools made = std::move(listed).value();
        member->tools = std::move(made.tools);
        member->next_try.reset();
        member->delay = first_delay;
        member->problem.clear();
        if (made.problems.empty()) member->is_reported = false;
        for (const std::string& problem : made.problems)
            found.push_back("MCP server " + member->name + ": " + problem);
    } catch (const Error& error) {
        if (error.code() == ErrorCode::cancelled) throw;
        member->next_try = deadline_after(state->runtime->clock->now(), member->delay);
        member->delay = std::min(member->delay * 2, max_delay);
        const std::string text = error.what();
        member->problem = text;
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
               std::shared_ptr<const Runtime> runtime, const McpHost& host)
    : state_(std::make_shared<State>(runtime)) {
    for (const McpServerSettings& server : servers) {
        if (server.disabled) continue;
        auto member = std::make_shared<State::Member>();
        member->name = server.name;
        member->place = server.address();
        try {
            member->client = mcp_client(server, environment, runtime, host);
        } catch (const Error& error) {
            member->problem = error.what();
            state_->problems.emplace_back(error.what());
        }
        state_->members.push_back(std::move(member));
    }
}

McpHub::~McpHub() { state_->scope.reset(); }

Task<> McpHub::start(std::chrono::nanoseconds limit) {
    const std::shared_ptr<State> state = state_;
    const Executor executor = co_await this_executor;
    state->scope = std::make_unique<BackgroundScope>(executor, [](std::exception_ptr) {});
    for (const State::MemberPtr& member : state->members) {
        if (!member->client) continue;
        ++state->waiting;
        state->scope->spawn(State::list_first_time(state, member));
    }
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

std::vector<std::string> McpHub::without_tools() const {
    std::vector<std::string> names;
    for (const State::MemberPtr& member : state_->members) {
        const bool waits = member->is_listing || member->next_try;
        if (member->client && member->tools.empty() && waits) names.push_back(member->name);
    }
    return names;
}

Task<> McpHub::wait_for(std::vector<std::string> names) {
    const std::shared_ptr<State> state = state_;
    std::vector<State::MemberPtr> chosen;
    for (const State::MemberPtr& member : state->members) {
        if (member->client && std::ranges::find(names, member->name) != names.end())
            chosen.push_back(member);
    }
    for (const State::MemberPtr& member : chosen) {
        if (member->is_listing || !member->next_try || !state->scope) continue;
        member->is_listing = true;
        state->scope->spawn(State::list_tools(state, member));
    }
    for (const State::MemberPtr& member : chosen) co_await State::until_answered(state, member);
}

namespace {

/// Stores data of a result next to long texts, whose limits hold for it. Returns a sentence that states where.
std::string store_data(FileSpillSink& files, const std::string& tool, const std::string& bytes) {
    const std::shared_ptr<SpillFile> file = files.create(tool);
    file->append(bytes);
    std::error_code failed;
    // A part of a sound is not a sound.
    if (std::filesystem::file_size(file->path(), failed) != bytes.size() || failed)
        throw Error(ErrorCode::storage_full, "there is no space for the data of a result");
    return "It is in the file " + file->path() +
           ", whatever the end of that name; no tool shows it.";
}

void bind_spill(std::vector<AgentTool>& tools, const std::shared_ptr<SpillSink>& spill) {
    const auto files = std::dynamic_pointer_cast<FileSpillSink>(spill);
    if (!files) return;
    for (AgentTool& tool : tools) {
        store_mcp_data(
            tool, [files](const std::string& name, const std::string&, const std::string& bytes) {
                return store_data(*files, name, bytes);
            });
    }
}

}  // namespace

std::vector<AgentTool> McpHub::tools(const std::shared_ptr<SpillSink>& spill) {
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
    bind_spill(tools, spill);
    // Afterwards: a list that is not sent again replaces the tools at once.
    for (const State::MemberPtr& member : state_->members) {
        if (state_->scope && state_->is_due(*member))
            state_->scope->spawn(State::list_tools(state_, member));
    }
    return tools;
}

std::vector<McpServerStatus> McpHub::status() const {
    std::vector<McpServerStatus> all;
    for (const State::MemberPtr& member : state_->members) {
        McpServerStatus one;
        one.name = member->name;
        one.place = member->place;
        one.program = member->program;
        one.tools = member->tools.size();
        one.is_connecting = member->is_listing;
        one.problem = member->problem;
        all.push_back(std::move(one));
    }
    return all;
}

std::shared_ptr<McpClient> McpHub::client(const std::string& name) const {
    for (const State::MemberPtr& member : state_->members) {
        if (member->name == name) return member->client;
    }
    return nullptr;
}

Task<> McpHub::State::close_and_list(StatePtr state, MemberPtr member) {
    const Outcome<> closed = co_await outcome_of(member->client->close());
    if (closed.cancelled()) closed.rethrow();
    co_await list_tools(std::move(state), std::move(member));
}

Task<> McpHub::State::until_answered(StatePtr state, MemberPtr member) {
    while (member->is_listing) co_await state->answered.wait();
}

Task<bool> McpHub::reconnect(std::string name, std::chrono::nanoseconds limit) {
    const std::shared_ptr<State> state = state_;
    bool is_found = false;
    std::vector<State::MemberPtr> chosen;
    for (const State::MemberPtr& member : state->members) {
        if (!name.empty() && member->name != name) continue;
        is_found = true;
        if (member->client && !member->is_listing && state->scope) chosen.push_back(member);
    }
    for (const State::MemberPtr& member : chosen) {
        member->is_listing = true;
        member->is_reported = false;
        state->scope->spawn(State::close_and_list(state, member));
    }
    for (const State::MemberPtr& member : chosen) {
        Task<> waiting = with_timeout(*state->runtime->clock, limit,
                                      State::until_answered(state, member), "mcp reconnect");
        const Outcome<> waited = co_await outcome_of(std::move(waiting));
        if (waited.cancelled()) waited.rethrow();
    }
    co_return is_found;
}

std::vector<std::string> McpHub::take_problems() { return std::exchange(state_->problems, {}); }

std::vector<std::string> servers_of_open_calls(const MessageList& messages,
                                               const std::vector<std::string>& servers) {
    std::set<std::string_view> answered;
    for (std::size_t i = messages.size(); i > 0; --i) {
        const Message& message = messages[i - 1];
        if (const ToolResultMessage* const result = message.tool_result())
            answered.insert(result->tool_call_id.str());
        const AssistantMessage* const answer = message.assistant();
        if (!answer) continue;
        std::vector<std::string> called;
        for (const AssistantContent& block : answer->content) {
            const auto* const call = std::get_if<ToolCall>(&block);
            if (!call || answered.contains(call->id.str())) continue;
            const std::string_view tool = called_tool(*call);
            if (tool == "subagent") return servers;
            for (const std::string& server : servers) {
                if (tool.starts_with("mcp__" + server + "__")) called.push_back(server);
            }
        }
        return called;
    }
    return servers;
}

Task<std::vector<std::string>> servers_of_suspended_run(std::shared_ptr<bub::TapeStore> tapes,
                                                        std::string tape,
                                                        std::vector<std::string> servers) {
    std::vector<std::string> called;
    const JsonObject state = co_await tapes->read_state(tape);
    if (!bub::has_suspended_run(state)) co_return called;
    const MessageList messages = co_await read_end(tapes, std::move(tape), newest_entries);
    called = servers_of_open_calls(messages, servers);
    co_return called;
}

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
