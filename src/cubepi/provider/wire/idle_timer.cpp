#include <cubepi/provider/wire/idle_timer.hpp>

#include <algorithm>
#include <utility>

#include <cubepi/core/number_text.hpp>

namespace cubepi::detail {

IdleTimer::IdleTimer(std::shared_ptr<const Runtime> runtime, std::chrono::nanoseconds limit,
                     std::function<void()> expired)
    : runtime_(std::move(runtime)), limit_(limit), expired_(std::move(expired)) {}

void IdleTimer::restart() noexcept {
    silence_ = {};
    counted_until_.reset();
}

void IdleTimer::count() {
    const auto now = runtime_->clock->now();
    if (counted_until_) silence_ += now - *counted_until_;
    counted_until_ = now;
}

void IdleTimer::check() {
    count();
    if (limit_.count() > 0 && silence_ >= limit_) throw error();
}

void IdleTimer::prepare(const Executor& executor) { timer_ = runtime_->clock->timer(executor); }

void IdleTimer::arm() {
    if (!timer_) return;
    const auto left = std::max(limit_ - silence_, std::chrono::nanoseconds(1));
    if (armed_) {
        timer_->postpone(left);
        return;
    }
    armed_ = true;
    timer_->expires_after(left, [this] {
        armed_ = false;
        expired_();
    });
}

void IdleTimer::cancel() noexcept {
    if (timer_) timer_->cancel();
    armed_ = false;
}

TimeoutError IdleTimer::error() const {
    return TimeoutError("idle", "no data received for " + seconds_text(limit_) + " (idle timeout)");
}

}  // namespace cubepi::detail
