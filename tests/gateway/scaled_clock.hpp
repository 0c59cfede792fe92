#pragma once

#include <chrono>
#include <memory>

#include <cubepi/core/clock.hpp>

namespace cubepi::gateway_tests {

/// The system clock, a number of times as fast: limits of a rate and delays take less time in a test of a process. The date is that of
/// the system.
class ScaledClock final : public Clock {
public:
    explicit ScaledClock(int factor);

    time_point now() const noexcept override;
    std::chrono::system_clock::time_point wall() const noexcept override;
    Task<> sleep_until(time_point deadline) override;
    std::unique_ptr<ClockTimer> timer(Executor executor) override;

private:
    class Timer;
    std::chrono::nanoseconds real(std::chrono::nanoseconds delay) const { return delay / factor_; }

    const int factor_;
    const time_point begin_;
    const std::shared_ptr<SystemClock> system_;
};

}  // namespace cubepi::gateway_tests
