#pragma once

#include <memory>

#include <cubepi/agent/run/agent_impl.hpp>

namespace cubepi::detail {

/// Runs a prompt: accepts the call, restores the history, claims the run and runs its turns. Throws Error(busy) if another
/// run is active.
Task<RunResult> run_prompt(std::shared_ptr<Agent::Impl> impl, PromptInput input,
                           PromptOptions options);
/// Continues from the last message of the history like run_prompt().
Task<RunResult> run_resume(std::shared_ptr<Agent::Impl> impl, PromptOptions options);
Task<void> wait_until_idle(std::shared_ptr<Agent::Impl> impl);
/// Waits until the current run, if it was aborted, has ended. Returns false if another abort() ended the wait; throws
/// Error(busy) if the run does not end in time.
Task<bool> wait_for_aborted_run(std::shared_ptr<Agent::Impl> impl);
/// Returns the result of a prompt that was aborted while it waited for the previous run.
RunResult aborted_before_start(const PromptOptions& options);

}  // namespace cubepi::detail
