#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include <cubepi/core/task.hpp>

namespace cubepi {

/// `start + delay`, or the end of time where that does not fit.
inline std::chrono::steady_clock::time_point deadline_after(
    std::chrono::steady_clock::time_point start, std::chrono::nanoseconds delay) noexcept {
    constexpr auto end = std::chrono::steady_clock::time_point::max();
    return delay > end - start ? end : start + delay;
}

/// One callback at one time, for what is no coroutine. Made by Clock::timer and used on its
/// executor only.
class ClockTimer {
public:
    using time_point = std::chrono::steady_clock::time_point;

    virtual ~ClockTimer() = default;

    /// Calls `callback` once on the timer's executor at `deadline`, never from inside this call.
    /// Replaces what was armed before. The callback must not throw; it may arm or cancel this
    /// timer, not destroy it.
    virtual void expires_at(time_point deadline, std::function<void()> callback) = 0;

    /// The same, `delay` from now.
    virtual void expires_after(std::chrono::nanoseconds delay, std::function<void()> callback) = 0;

    /// Moves the deadline of an armed timer and keeps its callback; does nothing when it is not
    /// armed. Moving it later costs next to nothing: made for time-outs that every byte pushes
    /// back.
    virtual void postpone(std::chrono::nanoseconds delay) = 0;

    /// After this returns the callback does not run any more. The destructor does the same.
    virtual void cancel() noexcept = 0;

    ClockTimer(const ClockTimer&) = delete;
    ClockTimer& operator=(const ClockTimer&) = delete;

protected:
    ClockTimer() = default;
};

/// Time, as everything in the library sees it. Any thread may call any member.
class Clock {
public:
    using time_point = std::chrono::steady_clock::time_point;

    virtual ~Clock() = default;

    /// Monotonic time, for durations and deadlines.
    virtual time_point now() const noexcept = 0;

    /// The date, for people and for what is stored.
    virtual std::chrono::system_clock::time_point wall() const noexcept = 0;

    /// Suspends until `deadline`; returns at once when it has passed.
    virtual Task<> sleep_until(time_point deadline) = 0;

    /// Suspends for `delay`.
    Task<> sleep_for(std::chrono::nanoseconds delay) {
        return sleep_until(deadline_after(now(), delay));
    }

    /// A timer whose callback runs on `executor`. The clock outlives the timer.
    virtual std::unique_ptr<ClockTimer> timer(Executor executor) = 0;

    Clock(const Clock&) = delete;
    Clock& operator=(const Clock&) = delete;

protected:
    Clock() = default;
};

/// The machine's clock.
class SystemClock final : public Clock {
public:
    time_point now() const noexcept override;
    std::chrono::system_clock::time_point wall() const noexcept override;
    Task<> sleep_until(time_point deadline) override;
    std::unique_ptr<ClockTimer> timer(Executor executor) override;
};

}  // namespace cubepi
