#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <cubepi/agent/run/run_core.hpp>
#include <cubepi/agent/run/run_end.hpp>
#include <cubepi/agent/run/tool_batch.hpp>

namespace cubepi::detail {

/// The beginning and the end of a run.
struct RunPlan {
    /// Added to the history first; without prompts the run continues from the existing history.
    std::vector<Input> prompts = {};
    /// The run takes up the calls of a suspended run first.
    std::optional<OpenCalls> open_calls = {};
    /// The run continues a prompt, of whose limits earlier runs have used a part: its id; empty: the last prompt of the history.
    std::optional<std::string> continued_input = {};
    /// Awaited after agent_start.
    std::function<Task<void>()> opening = {};
    StoreOutcome store_outcome = {};
    const DurationLimit* duration_limit = nullptr;
};

/// Runs the turns of a run from `agent_start` to `agent_end`, or to `agent_suspended`. Failures of model, network and hooks
/// are reported in the result; exceptions of listeners and of storage are rethrown after the run was closed (D6, D35).
Task<RunResult> run_turns(RunCore& core, RunPlan plan);

}  // namespace cubepi::detail
