#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <cubepi/agent/run/limit_checks.hpp>
#include <cubepi/agent/run/run_core.hpp>
#include <cubepi/agent/run/tool_batch.hpp>
#include <cubepi/agent/run_result.hpp>
#include <cubepi/core/error.hpp>

namespace cubepi::detail {

/// Writes to the store when the outcome of a run is known, before the last event. May be empty.
using StoreOutcome = std::function<Task<void>(RunOutcome)>;

/// The end of a run: its outcome and error while they are not final, then its last events and its result. Every run
/// ends in finish(), suspend() or, after an exception, close().
class RunEnd {
public:
    /// `limit`: may be null.
    RunEnd(RunCore& core, StoreOutcome store, const DurationLimit* limit)
        : core_(core), store_(std::move(store)), limit_(limit) {}

    /// The run ends because the model's answer failed or was aborted.
    void set_failed_answer(std::shared_ptr<const Error> error, const AssistantMessage& answer);
    void set_limited(LimitReachedError reached);
    /// The run ends without the value that its prompt requires.
    void set_without_value(std::shared_ptr<const Error> error);
    void set_aborted();
    /// Null as long as no error has been set.
    const std::shared_ptr<const Error>& error() const noexcept { return error_; }

    /// Stores the outcome and emits agent_end.
    Task<void> finish();
    /// Ends the run as suspended (D59): everything is stored before agent_suspended.
    Task<void> suspend();
    /// Ends the run after an exception: an error message, turn_end if a turn is open (D31), one agent_end (D30).
    Task<void> close(std::exception_ptr failure, bool is_turn_open);

    /// Returns the exception for the caller that awaits the run, or null.
    const std::exception_ptr& rethrow() const noexcept { return rethrow_; }
    RunResult result() const;

private:
    void note_time_limit();
    Task<void> announce();
    std::string note_failure(const std::exception_ptr& failure);
    Task<void> attempt(Task<void> step);

    RunCore& core_;
    StoreOutcome store_;
    const DurationLimit* const limit_;
    RunOutcome outcome_ = RunOutcome::completed;
    std::shared_ptr<const Error> error_;
    std::exception_ptr rethrow_;
    bool announced_ = false;  ///< the last event of the run was emitted, or must not be
};

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
