#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include <cubepi/core/task.hpp>

namespace cubepi {

/// Returns `start + delay`, or the maximum time point if that overflows.
inline std::chrono::steady_clock::time_point deadline_after(
    std::chrono::steady_clock::time_point start, std::chrono::nanoseconds delay) noexcept {
    constexpr auto end = std::chrono::steady_clock::time_point::max();
    return delay > end - start ? end : start + delay;
}

/// A timer with a callback, for code that is not a coroutine. Created by Clock::timer and used on its executor only.
class ClockTimer {
public:
    using time_point = std::chrono::steady_clock::time_point;

    virtual ~ClockTimer() = default;

    /// Calls `callback` once on the timer's executor at `deadline`, never from inside this call. Replaces an earlier
    /// callback and deadline. The callback must not throw; it may arm or cancel this timer, but not destroy it.
    virtual void expires_at(time_point deadline, std::function<void()> callback) = 0;

    /// Does the same as expires_at() with a deadline of `delay` from now.
    virtual void expires_after(std::chrono::nanoseconds delay, std::function<void()> callback) = 0;

    /// Moves the deadline of an armed timer without changing its callback; has no effect if it is not armed. Postponing
    /// is cheap: intended for timeouts that every received byte restarts.
    virtual void postpone(std::chrono::nanoseconds delay) = 0;

    /// Cancels the callback: it does not run after this returns. The destructor does the same.
    virtual void cancel() noexcept = 0;

    ClockTimer(const ClockTimer&) = delete;
    ClockTimer& operator=(const ClockTimer&) = delete;

protected:
    ClockTimer() = default;
};

/// The source of time for the whole library. Thread-safe.
class Clock {
public:
    using time_point = std::chrono::steady_clock::time_point;

    virtual ~Clock() = default;

    /// Returns the monotonic time, for durations and deadlines.
    virtual time_point now() const noexcept = 0;

    /// Returns the date, for display and for stored data.
    virtual std::chrono::system_clock::time_point wall() const noexcept = 0;

    /// Suspends until `deadline`; returns immediately if it has passed.
    virtual Task<> sleep_until(time_point deadline) = 0;

    /// Suspends for `delay`.
    Task<> sleep_for(std::chrono::nanoseconds delay) {
        return sleep_until(deadline_after(now(), delay));
    }

    /// Returns a timer whose callback runs on `executor`. The clock must outlive the timer.
    virtual std::unique_ptr<ClockTimer> timer(Executor executor) = 0;

    Clock(const Clock&) = delete;
    Clock& operator=(const Clock&) = delete;

protected:
    Clock() = default;
};

/// The system clock.
class SystemClock final : public Clock {
public:
    time_point now() const noexcept override;
    std::chrono::system_clock::time_point wall() const noexcept override;
    Task<> sleep_until(time_point deadline) override;
    std::unique_ptr<ClockTimer> timer(Executor executor) override;
};

}  // namespace cubepi
