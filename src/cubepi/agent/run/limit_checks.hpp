#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include <cubepi/agent/limits.hpp>
#include <cubepi/agent/run/pausable_timer.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/model.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/task.hpp>

namespace cubepi::detail {

/// Returns the limit that prevents a run with `turns` turns and a cost of `spent` USD (empty: unknown) from calling its
/// model again (D24); empty if there is none.
std::optional<LimitReachedError> limit_reached(const AgentLimits& limits, std::uint32_t turns,
                                               std::optional<double> spent);

/// Returns the limit that prevents one more call of this model: limit_reached(), or a spend limit if the price of the model
/// is unknown; empty if there is none. `turns`: before the current one.
std::optional<LimitReachedError> limit_before_call(const AgentLimits& limits, std::uint32_t turns,
                                                   std::optional<double> spent, const Model& model);

/// A timer that aborts a run when its time limit expires (D24), and reports that in the outcome.
class DurationLimit {
public:
    /// Zero means no limit. `abort` is called on `executor`, at most once.
    void start(const Runtime& runtime, const Executor& executor, std::chrono::milliseconds limit,
               std::function<void()> abort);
    /// Stops the time while `waiting` is set (D64).
    void set_waiting(bool waiting);
    /// Returns true if the limit has aborted the run.
    bool expired() const noexcept { return out_of_time_; }
    LimitReachedError error() const;

private:
    std::chrono::milliseconds limit_ = {};
    std::unique_ptr<PausableTimer> timer_;
    bool out_of_time_ = false;
};

}  // namespace cubepi::detail
