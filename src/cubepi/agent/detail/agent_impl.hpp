#pragma once

#include <memory>
#include <string>

#include <cubepi/agent/agent.hpp>
#include <cubepi/agent/detail/event_hub.hpp>
#include <cubepi/agent/detail/inbox.hpp>
#include <cubepi/agent/detail/run_core.hpp>
#include <cubepi/agent/detail/serial_check.hpp>
#include <cubepi/agent/detail/thread_log.hpp>
#include <cubepi/provider/prefix_guard.hpp>

namespace cubepi {

/// All that an agent owns. Runs share it, so that it outlives them when the Agent is destroyed.
struct Agent::Impl {
    explicit Impl(AgentOptions options);

    /// What most agents leave as it is.
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

    // A process may have many idle agents: what not all of them need is made when it is needed.
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

/// `result` receives what prompt() and resume() give and lives as long as the task.
Task<void> run_prompt(std::shared_ptr<Agent::Impl> impl, PromptInput input, PromptOptions options,
                      RunResult& result);
Task<void> run_resume(std::shared_ptr<Agent::Impl> impl, PromptOptions options, RunResult& result);
Task<void> wait_until_idle(std::shared_ptr<Agent::Impl> impl);
/// Waits until the current run, if it was aborted, has ended. Returns false when another abort() ended the wait; throws
/// Error(busy) when the run does not end in time.
Task<bool> wait_for_aborted_run(std::shared_ptr<Agent::Impl> impl);
/// The result of a prompt that was aborted while it waited for the run before.
RunResult aborted_before_start(const PromptOptions& options);

}  // namespace detail

}  // namespace cubepi
