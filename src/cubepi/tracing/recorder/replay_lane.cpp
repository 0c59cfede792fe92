#include <cubepi/tracing/recorder/replay_lane.hpp>

#include <utility>

#include <cubepi/tracing/export/sole_owner.hpp>

namespace cubepi::detail {

namespace {

/// Lets exporters take a batch, which has several steps.
Task<> let_others_run() {
    constexpr int steps = 8;
    for (int i = 0; i < steps; ++i) co_await yield_now();
}

}  // namespace

// Nothing is exported here, so there is no time limit.
ReplayLane::ReplayLane(std::shared_ptr<Clock> clock)
    : QueueLane(std::move(clock), std::chrono::milliseconds(0)) {}

bool ReplayLane::add(std::shared_ptr<RunLog> log) noexcept {
    return !settled_ && !is_closing() && queue_.push(std::move(log));
}

void ReplayLane::added() noexcept {
    wake_if_due();
    if (settled_) replay_all();
}

std::size_t ReplayLane::size() const noexcept {
    // In this order, so that the difference is not negative.
    const std::uint64_t taken = queue_.taken();
    return static_cast<std::size_t>(queue_.added() - taken);
}

std::shared_ptr<RunLog> ReplayLane::blank_log() {
    std::shared_ptr<RunLog> log;
    return replayed_.pop(log) ? log : RunLog::create();
}

std::size_t ReplayLane::replay(std::shared_ptr<RunLog> log) noexcept {
    const std::size_t notes = log->replay();
    if (is_sole_owner(log)) {
        log->retire();
        (void)replayed_.push(std::move(log));
    }
    return notes;
}

void ReplayLane::replay_all() noexcept {
    for (std::shared_ptr<RunLog> log; queue_.pop(log);) replay(std::move(log));
}

/// Frees the logs of ended runs.
void ReplayLane::release_logs() noexcept {
    for (std::shared_ptr<RunLog> log; replayed_.pop(log);) log.reset();
}

void ReplayLane::settle() noexcept {
    settled_ = true;
    replay_all();
    release_logs();
}

Task<> ReplayLane::serve() {
    const std::unique_ptr<ClockTimer> timer = co_await make_timer();
    while (!is_closing()) {
        co_await wait_for_batch(*timer, delay);
        co_await drain(*timer);
    }
    co_await drain(*timer);
}

/// Replays what is in the queue now.
Task<> ReplayLane::drain(ClockTimer& timer) {
    const std::uint64_t flush = requested_flush();
    const std::uint64_t end = queue_.added();
    while (queue_.taken() < end) {
        if (std::shared_ptr<RunLog> log; queue_.pop(log)) {
            notes_ += replay(std::move(log));
        } else {
            co_await wait_for_entry(timer);
        }
        if (notes_ < notes_at_a_time) continue;
        notes_ = 0;
        co_await let_others_run();
    }
    // Otherwise runs follow each other so fast that the logs are about to be reused.
    if (!has_some()) release_logs();
    flushed(flush);
}

}  // namespace cubepi::detail
