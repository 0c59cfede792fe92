#include <cubepi/core/loop_lag.hpp>

#include <algorithm>
#include <utility>

#include <cubepi/core/error.hpp>

namespace cubepi {

LoopLagGauge::LoopLagGauge(Executor executor, std::shared_ptr<const Runtime> runtime,
                           std::chrono::nanoseconds interval)
    : clock_(runtime->clock), interval_(interval), timer_(clock_->timer(std::move(executor))) {
    if (interval <= std::chrono::nanoseconds::zero()) {
        throw Error(ErrorCode::invalid_argument, "LoopLagGauge: the interval must be positive");
    }
}

LoopLagGauge::~LoopLagGauge() { stop(); }

void LoopLagGauge::start() {
    if (std::exchange(running_, true)) return;
    arm();
}

void LoopLagGauge::stop() noexcept {
    if (std::exchange(running_, false)) timer_->cancel();
}

void LoopLagGauge::reset() noexcept {
    last_.store(0, std::memory_order_relaxed);
    worst_.store(0, std::memory_order_relaxed);
    ticks_.store(0, std::memory_order_relaxed);
}

void LoopLagGauge::arm() {
    due_ = deadline_after(clock_->now(), interval_);
    timer_->expires_at(due_, [this] { tick(); });
}

void LoopLagGauge::tick() {
    const std::chrono::nanoseconds lag =
        std::max(clock_->now() - due_, Clock::time_point::duration());
    last_.store(lag.count(), std::memory_order_relaxed);
    if (lag > worst()) worst_.store(lag.count(), std::memory_order_relaxed);
    ticks_.fetch_add(1, std::memory_order_relaxed);
    arm();
}

}  // namespace cubepi
