#pragma once

#include <memory>
#include <string>

#include <cubepi/agent/agent.hpp>
#include <cubepi/agent/detail/event_hub.hpp>
#include <cubepi/agent/detail/inbox.hpp>
#include <cubepi/agent/detail/run_core.hpp>
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
    std::unique_ptr<const Settings> own_settings;  // null: the usual ones
    AgentState state;
    detail::EventHub hub;
    detail::Inbox inbox;
    detail::ThreadLog log;
    PrefixGuard prefix_guard;
    std::unique_ptr<AsyncEvent> idle;  // made when somebody waits
    bool destroyed = false;            // the Agent is gone; its run ends as aborted
};

namespace detail {

/// `result` receives what prompt() and resume() give and lives as long as the task.
Task<void> run_prompt(std::shared_ptr<Agent::Impl> impl, PromptInput input, PromptOptions options,
                      RunResult& result);
Task<void> run_resume(std::shared_ptr<Agent::Impl> impl, PromptOptions options, RunResult& result);
Task<void> wait_until_idle(std::shared_ptr<Agent::Impl> impl);

}  // namespace detail

}  // namespace cubepi
