#pragma once

#include <cubepi/agent/detail/run_core.hpp>

namespace cubepi::detail {

/// The agent loop (agent/loop.cpp): from `agent_start` to `agent_end`; without prompts it continues from the history as it
/// is. Failures of model, network and hooks end in the result; what a listener threw and what storage threw is rethrown
/// after the run was closed (D6, D35). `opening` is awaited after agent_start. `finish_run` stores what is to be stored
/// when the outcome is known, before agent_end.
Task<void> run_loop(RunCore& core, std::vector<Input> prompts,
                    std::function<Task<void>(RunOutcome)> finish_run,
                    std::function<Task<void>()> opening, RunResult& result);

}  // namespace cubepi::detail
