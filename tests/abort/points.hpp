#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <stop_token>
#include <utility>

#include <cubepi/agent/checkpointer.hpp>
#include <cubepi/core/clock.hpp>
#include <cubepi/core/task.hpp>

namespace cubepi::abort_tests {

/// The points of a run at which it can be aborted, numbered in the order in which the run reaches them: events, and the waits
/// of the test's hooks, tools, stores and models. At one of them, `fire` is called.
class Points {
public:
    Points(std::size_t target, std::function<void()> fire)
        : target_(target), fire_(std::move(fire)) {}

    /// A point without a wait: fires immediately.
    void pass() {
        if (++count_ == target_) hit();
    }

    /// A point that waits. If it is the target, it fires and waits forever.
    Task<> wait(Clock& clock);

    /// A point that waits until `stop` is requested, if it is the target.
    Task<> wait_for_stop(Clock& clock, std::stop_token stop);

    /// A point that waits and cannot be interrupted. Fires while it waits.
    Task<> wait_shortly();

    /// Disables firing.
    void disarm() noexcept { target_ = 0; }

    std::size_t count() const noexcept { return count_; }
    bool fired() const noexcept { return fired_; }

private:
    void hit() {
        fired_ = true;
        fire_();
    }

    std::size_t target_;
    std::function<void()> fire_;
    std::size_t count_ = 0;
    bool fired_ = false;
};

/// A slow store in memory, so that a run can be aborted while it is being claimed, loaded and stored.
std::shared_ptr<Checkpointer> make_waiting_store(Points& points);

}  // namespace cubepi::abort_tests
