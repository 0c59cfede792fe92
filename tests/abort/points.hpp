#pragma once

#include <cstddef>
#include <functional>
#include <stop_token>
#include <utility>

#include <cubepi/core/clock.hpp>
#include <cubepi/core/task.hpp>

namespace cubepi::abort_tests {

/// The places of a run at which it can be aborted, numbered in the order in which the run comes by: events, and whatever
/// the test's own hooks, tools, stores and models wait for. At one of them, `fire` is called.
class Points {
public:
    Points(std::size_t target, std::function<void()> fire)
        : target_(target), fire_(std::move(fire)) {}

    /// A place where nothing waits: fires on the spot.
    void pass() {
        if (++count_ == target_) hit();
    }

    /// A place that waits. If it is the one, it waits for ever, and fires when it does.
    Task<> wait(Clock& clock);

    /// A place that waits until `stop` is requested, if it is the one.
    Task<> wait_for_stop(Clock& clock, std::stop_token stop);

    /// A place that waits and cannot be interrupted. Fires while it waits.
    Task<> wait_shortly();

    /// Fires no more.
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

}  // namespace cubepi::abort_tests
