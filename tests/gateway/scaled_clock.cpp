#include "scaled_clock.hpp"

#include <functional>
#include <utility>

namespace cubepi::gateway_tests {

class ScaledClock::Timer final : public ClockTimer {
public:
    Timer(const ScaledClock& clock, std::unique_ptr<ClockTimer> timer)
        : clock_(clock), timer_(std::move(timer)) {}

    void expires_at(time_point deadline, std::function<void()> callback) override {
        timer_->expires_after(clock_.real(deadline - clock_.now()), std::move(callback));
    }
    void expires_after(std::chrono::nanoseconds delay, std::function<void()> callback) override {
        timer_->expires_after(clock_.real(delay), std::move(callback));
    }
    void postpone(std::chrono::nanoseconds delay) override { timer_->postpone(clock_.real(delay)); }
    void cancel() noexcept override { timer_->cancel(); }

private:
    const ScaledClock& clock_;
    const std::unique_ptr<ClockTimer> timer_;
};

ScaledClock::ScaledClock(int factor)
    : factor_(factor),
      begin_(std::chrono::steady_clock::now()),
      system_(std::make_shared<SystemClock>()) {}

Clock::time_point ScaledClock::now() const noexcept {
    return begin_ + (system_->now() - begin_) * factor_;
}

std::chrono::system_clock::time_point ScaledClock::wall() const noexcept { return system_->wall(); }

Task<> ScaledClock::sleep_until(time_point deadline) {
    return system_->sleep_for(real(deadline - now()));
}

std::unique_ptr<ClockTimer> ScaledClock::timer(Executor executor) {
    return std::make_unique<Timer>(*this, system_->timer(std::move(executor)));
}

}  // namespace cubepi::gateway_tests
