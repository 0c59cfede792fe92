#pragma once

#include <cubepi/agent/run/run_core.hpp>

namespace cubepi::detail {

/// Runs the turns of a run from `agent_start` to `agent_end`; without prompts it continues from the
/// existing history. Failures of model, network and hooks are reported in the result; exceptions of listeners and of
/// storage are rethrown after the run was closed (D6, D35). `opening` is awaited after agent_start. `finish_run` writes
/// to the store when the outcome is known, before agent_end.
Task<RunResult> run_turns(RunCore& core, std::vector<Input> prompts,
                          std::function<Task<void>(RunOutcome)> finish_run,
                          std::function<Task<void>()> opening);

}  // namespace cubepi::detail
