#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include <cubepi/agent/run_result.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/task.hpp>

namespace cubepi::detail {

/// Awaits `run` so that cancelling the awaiting coroutine calls `abort`; the run then closes regularly (D38), and the
/// cancellation is thrown.
Task<void> abort_when_cancelled(Task<void> run, std::function<void()> abort);

/// A timer that aborts a run when its time limit expires (D24), and reports that in the outcome.
class DurationLimit {
public:
    /// Zero means no limit. `abort` is called on `executor`, at most once.
    void start(const Runtime& runtime, const Executor& executor, std::chrono::milliseconds limit,
               std::function<void()> abort);
    RunOutcome counted(RunOutcome outcome) const noexcept {
        return out_of_time_ && outcome == RunOutcome::aborted ? RunOutcome::limited : outcome;
    }
    void tell(RunResult& result) const;

private:
    std::chrono::milliseconds limit_ = {};
    std::unique_ptr<ClockTimer> timer_;
    bool out_of_time_ = false;
};

}  // namespace cubepi::detail
