#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>

#include <cubepi/core/clock.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/task.hpp>

namespace cubepi::testing {

/// A clock that advances only on request. Thread-safe. Starts at steady time zero plus one hour and at
/// 2026-01-01T00:00:00Z.
class ManualClock final : public Clock {
public:
    ManualClock();
    ~ManualClock() override;

    time_point now() const noexcept override;
    std::chrono::system_clock::time_point wall() const noexcept override;
    Task<> sleep_until(time_point deadline) override;
    std::unique_ptr<ClockTimer> timer(Executor executor) override;

    /// Advances both times and wakes due sleepers and timers, in the order of the deadlines, through their executors:
    /// none of them has run when this returns.
    void advance(std::chrono::nanoseconds amount);

    /// Advances to the next deadline. Returns false if nothing waits.
    bool advance_to_next();

    /// Sets the date without changing the monotonic time.
    void set_wall(std::chrono::system_clock::time_point value);

    /// Returns the number of sleepers and armed timers.
    std::size_t pending_sleepers() const;
    std::optional<time_point> next_deadline() const;

    /// Blocks this thread until at least `count` sleepers and timers wait; for tests with several threads.
    void wait_for_sleepers(std::size_t count) const;

    struct State;

private:
    std::shared_ptr<State> state_;
};

/// Like run(), but if nothing is ready the clock advances to its next deadline, so that hours of waiting take no time.
template <class T>
T run_advancing(ManualClock& clock, Task<T> task) {
    const std::function<bool()> advance = [&clock] { return clock.advance_to_next(); };
    if constexpr (std::is_void_v<T>) {
        cubepi::detail::run_blocking(std::move(task), advance);
    } else {
        std::optional<T> result;
        cubepi::detail::run_blocking(cubepi::detail::store_result(std::move(task), result),
                                     advance);
        return std::move(*result);
    }
}

}  // namespace cubepi::testing
