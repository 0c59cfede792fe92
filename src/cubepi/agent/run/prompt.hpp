#pragma once

#include <memory>
#include <stop_token>

#include <cubepi/agent/run/agent_impl.hpp>

namespace cubepi::detail {

/// Throws Error(busy): a run of the agent is active.
[[noreturn]] void throw_busy(const Agent::Impl& impl);

/// A guard that marks the agent as active from the acceptance of a run until it is idle, on every path.
class ActiveRun {
public:
    /// Throws Error(busy) if a run is active.
    ActiveRun(Agent::Impl& impl, const SharedString& run_id);
    ~ActiveRun();
    ActiveRun(const ActiveRun&) = delete;
    ActiveRun& operator=(const ActiveRun&) = delete;

    /// Changes the id, when the id of a run that is continued is known.
    void set_run_id(const SharedString& run_id);
    const std::stop_token& token() const noexcept { return token_; }

private:
    Agent::Impl& impl_;
    std::stop_token token_;
};

/// Runs a prompt: accepts the call, restores the history, claims the run and runs its turns. Throws Error(busy) if another
/// run is active.
Task<RunResult> run_prompt(std::shared_ptr<Agent::Impl> impl, PromptInput input,
                           PromptOptions options);
/// Continues from the last message of the history like run_prompt().
Task<RunResult> run_resume(std::shared_ptr<Agent::Impl> impl, PromptOptions options);
/// Awaits `work`, the run of a prompt with `options`, after an aborted run has ended. Cancelling the awaiting coroutine
/// aborts the run, which then closes regularly (D38).
Task<RunResult> run_guarded(std::shared_ptr<Agent::Impl> impl, Task<RunResult> work,
                            PromptOptions options);
Task<void> wait_until_idle(std::shared_ptr<Agent::Impl> impl);
/// Waits until the current run, if it was aborted, has ended. Returns false if another abort() ended the wait; throws
/// Error(busy) if the run does not end in time.
Task<bool> wait_for_aborted_run(std::shared_ptr<Agent::Impl> impl);
/// Returns the result of a prompt that was aborted while it waited for the previous run.
RunResult aborted_before_start(const PromptOptions& options);

}  // namespace cubepi::detail
