#include <cubepi/agent/run/pausable_timer.hpp>

#include <algorithm>
#include <utility>

namespace cubepi::detail {

PausableTimer::PausableTimer(Clock& clock, Executor executor, std::chrono::nanoseconds limit,
                             std::function<void()> callback)
    : clock_(clock),
      timer_(clock.timer(std::move(executor))),
      callback_(std::move(callback)),
      left_(limit) {
    arm();
}

void PausableTimer::arm() {
    state_ = State::running;
    armed_at_ = clock_.now();
    timer_->expires_after(left_, [this] {
        state_ = State::over;
        // Moved out first: the callback may restart this timer.
        const std::function<void()> callback = std::move(callback_);
        callback();
    });
}

void PausableTimer::pause() {
    if (state_ != State::running) return;
    state_ = State::paused;
    timer_->cancel();
    const std::chrono::nanoseconds used = clock_.now() - armed_at_;
    left_ = std::max(left_ - used, std::chrono::nanoseconds(0));
}

void PausableTimer::resume() {
    if (state_ == State::paused) arm();
}

void PausableTimer::cancel() noexcept {
    state_ = State::over;
    timer_->cancel();
}

void PausableTimer::restart(std::chrono::nanoseconds limit, std::function<void()> callback) {
    left_ = limit;
    callback_ = std::move(callback);
    arm();
}

}  // namespace cubepi::detail
