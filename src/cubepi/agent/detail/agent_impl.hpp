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

    detail::RunParts parts;
    std::unique_ptr<const HookSet> hooks;  // null: none, as most agents have
    AgentState state;
    detail::EventHub hub;
    detail::Inbox inbox;
    detail::ThreadLog log;
    PrefixGuard prefix_guard;
    std::unique_ptr<AsyncEvent> idle;  // made when somebody waits
    bool lost_persistence = false;     // store without thread id, or the reverse (D46)
};

namespace detail {

/// `result` receives what prompt() and resume() give and lives as long as the task.
Task<void> run_prompt(std::shared_ptr<Agent::Impl> impl, PromptInput input, PromptOptions options,
                      RunResult& result);
Task<void> run_resume(std::shared_ptr<Agent::Impl> impl, PromptOptions options, RunResult& result);
Task<void> wait_until_idle(std::shared_ptr<Agent::Impl> impl);

}  // namespace detail

}  // namespace cubepi
