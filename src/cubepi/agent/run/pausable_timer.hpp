#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

#include <cubepi/core/clock.hpp>

namespace cubepi::detail {

/// A time limit that can stand still (D64). Used on one executor.
class PausableTimer {
public:
    /// `clock` must outlive the timer. `callback` is called once, when the time that was not paused reaches `limit`.
    PausableTimer(Clock& clock, Executor executor, std::chrono::nanoseconds limit,
                  std::function<void()> callback);

    /// Stops the time. Without effect if it is stopped, or the limit was reached.
    void pause();
    void resume();
    void cancel() noexcept;
    /// Replaces limit and callback, also after the limit was reached.
    void restart(std::chrono::nanoseconds limit, std::function<void()> callback);

private:
    enum class State : std::uint8_t { running, paused, over };
    void arm();

    Clock& clock_;
    std::unique_ptr<ClockTimer> timer_;
    std::function<void()> callback_;
    std::chrono::nanoseconds left_;
    Clock::time_point armed_at_ = {};
    State state_ = State::running;
};

}  // namespace cubepi::detail
