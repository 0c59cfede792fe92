#pragma once

#include <memory>
#include <string>

#include <cubepi/agent/agent.hpp>
#include <cubepi/agent/run/event_hub.hpp>
#include <cubepi/agent/run/inbox.hpp>
#include <cubepi/agent/run/run_core.hpp>
#include <cubepi/agent/run/serial_check.hpp>
#include <cubepi/agent/run/thread_log.hpp>
#include <cubepi/provider/prefix_guard.hpp>

namespace cubepi {

/// The data of an agent. Shared with its runs, so that it outlives them if the Agent is destroyed.
struct Agent::Impl {
    explicit Impl(AgentOptions options);

    /// The settings that most agents leave at their defaults.
    struct Settings {
        HookSet hooks = {};
        ExecutionMode tool_execution = ExecutionMode::parallel;
        AgentLimits limits = {};
        PayloadHook on_payload = {};
        ResponseHook on_response = {};
        std::shared_ptr<SpillSink> spill = {};
    };
    const Settings& settings() const noexcept;
    detail::RunParts parts() noexcept;

    // A process may have many idle agents: members that not all of them need are created on demand.
    std::shared_ptr<Provider> provider;  // of state.model
    std::shared_ptr<const Runtime> runtime;
    std::unique_ptr<Settings> own_settings;  // null: the defaults
    AgentState state;
    // The two members after the hub lie in its tail padding.
    [[no_unique_address]] detail::EventHub hub;
    bool destroyed = false;  // the Agent is gone; its run ends as aborted
    detail::SerialCheck serial;
    detail::Inbox inbox;
    detail::ThreadLog log;
    PrefixGuard prefix_guard;
    std::unique_ptr<AsyncEvent> idle;  // pulsed at the end of a run; null until a coroutine waits
};

namespace detail {

/// `result` receives the result of prompt() or resume() and must outlive the task.
Task<void> run_prompt(std::shared_ptr<Agent::Impl> impl, PromptInput input, PromptOptions options,
                      RunResult& result);
Task<void> run_resume(std::shared_ptr<Agent::Impl> impl, PromptOptions options, RunResult& result);
Task<void> wait_until_idle(std::shared_ptr<Agent::Impl> impl);
/// Waits until the current run, if it was aborted, has ended. Returns false if another abort() ended the wait; throws
/// Error(busy) if the run does not end in time.
Task<bool> wait_for_aborted_run(std::shared_ptr<Agent::Impl> impl);
/// Returns the result of a prompt that was aborted while it waited for the previous run.
RunResult aborted_before_start(const PromptOptions& options);

}  // namespace detail

}  // namespace cubepi
