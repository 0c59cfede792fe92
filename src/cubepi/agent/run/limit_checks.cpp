#include <cubepi/agent/run/limit_checks.hpp>

#include <algorithm>
#include <string>
#include <utility>

#include <cubepi/provider/cost.hpp>

namespace cubepi::detail {

namespace {

LimitReachedError reached(const char* limit, const std::string& value, const std::string& advice) {
    const std::string name(limit);
    return LimitReachedError(name,
                             "the run reached its limit " + name + " (" + value + ")" + advice);
}

}  // namespace

std::optional<LimitReachedError> limit_reached(const AgentLimits& limits, std::uint32_t turns,
                                               std::optional<double> spent) {
    if (limits.max_turns != 0 && turns >= limits.max_turns) {
        return reached("max_turns", std::to_string(limits.max_turns), "; prompt again to continue");
    }
    if (limits.max_spend <= 0) return std::nullopt;
    if (spent && *spent < limits.max_spend) return std::nullopt;
    if (!spent) {
        return reached("max_spend", money_text(limits.max_spend),
                       ": the cost of an answer is unknown, because its model has no price");
    }
    return reached("max_spend", money_text(limits.max_spend),
                   ": " + money_text(*spent) + " spent; prompt again to continue");
}

void DurationLimit::start(const Runtime& runtime, const Executor& executor,
                          std::chrono::milliseconds limit, std::function<void()> abort) {
    if (limit.count() == 0) return;
    limit_ = limit;
    // The remainder of an exceeded budget is negative: the run ends as soon as it can be ended.
    limit = std::max(limit, std::chrono::milliseconds(1));
    auto expire = [this, abort = std::move(abort)] {
        out_of_time_ = true;
        abort();
    };
    timer_ = std::make_unique<PausableTimer>(*runtime.clock, executor, limit, std::move(expire));
}

void DurationLimit::set_waiting(bool waiting) {
    if (!timer_) return;
    if (waiting) {
        timer_->pause();
    } else {
        timer_->resume();
    }
}

LimitReachedError DurationLimit::error() const {
    return LimitReachedError("max_duration", "the run reached its limit max_duration (" +
                                                 std::to_string(limit_.count()) + " ms)");
}

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
