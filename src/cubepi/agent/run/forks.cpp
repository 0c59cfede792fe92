#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cubepi/agent/run/agent_impl.hpp>
#include <cubepi/agent/run/prompt.hpp>
#include <cubepi/agent/run/thread_log.hpp>
#include <cubepi/agent/transcript.hpp>

// Continuing a thread from an earlier place: fork(), fork_once() and rewind(). Not in agent.cpp, so that only programs that do it are
// linked with it.

namespace cubepi {
namespace detail {
namespace {

/// Returns the store as one that forks. `operation` names the caller's function in errors.
ForkStore& fork_store(const ThreadLog& log, std::string_view operation) {
    if (!log.store()) {
        throw Error(
            ErrorCode::invalid_state,
            std::string(operation) + ": the agent has no store; set AgentOptions::checkpointer");
    }
    auto* forks = dynamic_cast<ForkStore*>(log.store());
    if (!forks) {
        throw Error(
            ErrorCode::unsupported,
            std::string(operation) + ": the store cannot fork threads (it is not a ForkStore)");
    }
    return *forks;
}

Task<void> run_fork(std::shared_ptr<Agent::Impl> impl, std::string source, std::string target,
                    std::string after_run_id, std::optional<JsonObject> metadata) {
    ForkStore& forks = fork_store(impl->log, "fork()");
    if (target.empty()) {
        throw Error(ErrorCode::invalid_argument, "fork(): the new thread needs an id");
    }
    auto call = [&] { return forks.fork(source, target, after_run_id, metadata); };
    Task<void> forking = store_call("fork the thread", source, std::move(call));
    co_await std::move(forking);
}

std::string without_effect_text(const std::string& name) {
    return "Tool " + name + " belongs to the conversation and has no effect here";
}

/// Replaces a tool of middleware, whose state is that of the agent, by one that refuses its calls. Its definition stays, so that
/// the request begins like those of the thread.
AgentTool without_effect(AgentTool tool) {
    const std::string text = without_effect_text(tool.name.str());
    tool.execute = [text](JsonObject, ToolContext&) { return AgentToolResult::error(text); };
    return tool;
}

Task<std::optional<BeforeToolCallResult>> decided(std::optional<BeforeToolCallResult> decision) {
    co_return decision;
}

/// Refuses the calls of tools that hooks have added to the run, like those of tools of middleware.
BeforeToolCallHook refusing_added(BeforeToolCallHook next) {
    return [next = std::move(next)](BeforeToolCallContext& call) {
        const std::string& name = call.tool_call.name.str();
        std::optional<BeforeToolCallResult> decision;
        if (!call.context.account->added_tools().find(name))
            return next ? next(call) : decided(std::move(decision));
        decision.emplace();
        decision->block = true;
        decision->reason = without_effect_text(name);
        return decided(std::move(decision));
    };
}

/// Returns the options of an agent that continues `messages` as this one would, without a store.
AgentOptions probe_options(const Agent::Impl& impl, MessageList messages) {
    const Agent::Impl::Settings& settings = impl.settings();
    AgentOptions options;
    options.model = BoundModel(impl.provider, impl.state.model);
    options.system_prompt = impl.state.system_prompt.str();
    for (const AgentTool& tool : impl.state.tools) {
        const std::vector<SharedString>& owned = settings.middleware_tools;
        const bool is_owned = std::find(owned.begin(), owned.end(), tool.name) != owned.end();
        options.tools.push_back(is_owned ? without_effect(tool) : tool);
    }
    options.reasoning = impl.state.reasoning;
#define CUBEPI_DETAIL_COPY_HOOK(type, name, ...) options.name = settings.hooks.name;
    CUBEPI_AGENT_HOOKS(CUBEPI_DETAIL_COPY_HOOK)
#undef CUBEPI_DETAIL_COPY_HOOK
    options.before_tool_call = refusing_added(std::move(options.before_tool_call));
    // The to-dos, the goal and the tasks of the thread would continue the probe.
    options.after_model_response = {};
    options.on_run_end = {};
    options.on_payload = settings.on_payload;
    options.on_response = settings.on_response;
    options.tool_execution = settings.tool_execution;
    options.limits = settings.limits;
    options.messages = std::move(messages);
    options.runtime = impl.runtime;
    return options;
}

Task<RunResult> run_fork_once(std::shared_ptr<Agent::Impl> impl, std::string source,
                              PromptInput input, std::string after_run_id, PromptOptions options) {
    ForkStore& forks = fork_store(impl->log, "fork_once()");
    if (impl->settings().channel) {
        throw Error(ErrorCode::unsupported,
                    "fork_once(): the agent has a channel, but a probe cannot wait for the user; "
                    "use an agent without one");
    }
    auto cut = [&] { return forks.snapshot(source, after_run_id); };
    Task<MessageList> cutting = store_call("read the thread", source, std::move(cut));
    MessageList messages = co_await std::move(cutting);
    auto load = [&] { return impl->log.store()->load(source); };
    Task<std::optional<CheckpointData>> loading = store_call("load", source, std::move(load));
    const std::optional<CheckpointData> data = co_await std::move(loading);
    Agent probe(probe_options(*impl, std::move(messages)));
    if (data) {
        for (const auto& [key, value] : data->extra) probe.set_extra(key, value);
    }
    Task<RunResult> work = probe.prompt(std::move(input), std::move(options));
    RunResult result = co_await std::move(work);
    co_return result;
}

[[noreturn]] void refuse(const std::string& why) {
    throw Error(ErrorCode::invalid_argument, "rewind(): " + why);
}

/// Returns the position of the message in the history.
std::size_t position_of(const MessageList& messages, const std::string& message_id) {
    for (std::size_t i = 0; i < messages.size(); ++i) {
        if (messages[i].id() == message_id) return i;
    }
    refuse("the history has no message '" + message_id + "'");
}

MessageList first_of(const MessageList& messages, std::size_t count) {
    MessageList first;
    for (std::size_t i = 0; i < count; ++i) first.push_back(messages[i]);
    return first;
}

bool same_ids(const MessageList& a, const MessageList& b) {
    if (a.size() != b.size()) return false;
    for (std::size_t i = 0; i < a.size(); ++i) {
        if (a[i].id() != b[i].id()) return false;
    }
    return true;
}

void rewind_memory(Agent::Impl& impl, MessageList rest) {
    if (!is_legal_transcript(rest))
        refuse("the message belongs to calls whose answer would stay: name an earlier one");
    impl.log.forget();
    impl.state.messages = std::move(rest);
}

/// Checks that a fork after the last run before the message has exactly the messages before it.
Task<void> check_snapshot(ThreadLog& log, ForkStore& forks, std::string after_run_id,
                          MessageList rest) {
    auto call = [&] { return forks.snapshot(log.thread_id(), after_run_id); };
    Task<MessageList> reading =
        store_call("read the thread before the message", log.thread_id(), std::move(call));
    const MessageList stored = co_await std::move(reading);
    if (same_ids(stored, rest)) co_return;
    refuse(
        "the part of thread '" + log.thread_id() +
        "' before the message has runs that were not completed, which a fork does not copy; name a "
        "message of an earlier run");
}

/// Throws if the thread exists.
Task<void> require_new(ThreadLog& log, std::string thread_id) {
    auto call = [&] { return log.store()->load(thread_id); };
    Task<std::optional<CheckpointData>> loading =
        store_call("check that the thread is new", thread_id, std::move(call));
    const std::optional<CheckpointData> data = co_await std::move(loading);
    if (data) {
        throw ThreadAlreadyExistsError(
            ErrorCode::thread_exists,
            "rewind(): thread '" + thread_id + "' exists already; pass a new thread id", thread_id);
    }
}

Task<void> rewind_thread(Agent::Impl& impl, ForkStore& forks, std::size_t count,
                         std::string new_thread_id) {
    ThreadLog& log = impl.log;
    MessageList rest = first_of(impl.state.messages, count);
    if (rest.empty()) {
        co_await require_new(log, new_thread_id);
    } else {
        const std::string after(rest.back().run_id().str());
        co_await check_snapshot(log, forks, after, std::move(rest));
        auto call = [&] { return forks.fork(log.thread_id(), new_thread_id, after, std::nullopt); };
        Task<void> forking = store_call("fork the thread", log.thread_id(), std::move(call));
        co_await std::move(forking);
    }
    log.continue_in(std::move(new_thread_id));
    co_await log.load();
}

Task<void> run_rewind(std::shared_ptr<Agent::Impl> impl, std::string message_id,
                      std::string new_thread_id) {
    ActiveRun active(*impl, impl->runtime->ids->next());
    ThreadLog& log = impl->log;
    co_await log.load();
    const MessageList& messages = impl->state.messages;
    const std::size_t position = position_of(messages, message_id);
    if (!log.persistent()) {
        rewind_memory(*impl, first_of(messages, position));
    } else {
        ForkStore& forks = fork_store(log, "rewind()");
        if (new_thread_id.empty())
            refuse(
                "a stored thread is append-only: pass the id of the new thread that continues it");
        const bool begins_run =
            position == 0 || messages[position - 1].run_id() != messages[position].run_id();
        if (!begins_run) refuse("message '" + message_id + "' does not begin a run");
        co_await rewind_thread(*impl, forks, position, std::move(new_thread_id));
    }
    impl->state.error_message = {};
    impl->state.last_outcome = LastOutcome::complete;
    impl->prefix_guard.reset();
}

}  // namespace
}  // namespace detail

Task<void> Agent::rewind(std::string message_id, std::string new_thread_id) {
    return detail::run_rewind(impl_, std::move(message_id), std::move(new_thread_id));
}

Task<void> Agent::fork(std::string source_thread_id, std::string new_thread_id,
                       std::string after_run_id, std::optional<JsonObject> metadata) {
    return detail::run_fork(impl_, std::move(source_thread_id), std::move(new_thread_id),
                            std::move(after_run_id), std::move(metadata));
}

Task<RunResult> Agent::fork_once(std::string source_thread_id, PromptInput input,
                                 std::string after_run_id, PromptOptions options) {
    return detail::run_fork_once(impl_, std::move(source_thread_id), std::move(input),
                                 std::move(after_run_id), std::move(options));
}

}  // namespace cubepi
