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
    : ExportLane(std::move(clock), std::chrono::milliseconds(0)) {}

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

/// The thread stores wake_at_ and then reads the size; here it is the other way round, so one of the two sees the other.
void ReplayLane::wake_if_due() noexcept {
    const std::size_t wake_at = wake_at_.load();
    if (wake_at != never && size() >= wake_at && wake_at_.exchange(never) != never)
        control().wake(*this);
}

/// Waits until a batch is complete, the first log has waited long enough, or a flush or the end is requested.
Task<> ReplayLane::wait_for_batch(ClockTimer& timer) {
    wake_at_ = 1;
    while (size() == 0 && !is_requested()) co_await wait();
    wake_at_ = batch_logs;
    const Clock::time_point due = deadline_after(clock().now(), delay);
    timer.expires_at(due, [this] { wake(); });
    while (size() < batch_logs && !is_requested() && clock().now() < due) co_await wait();
    timer.cancel();
    wake_at_ = never;
}

Task<> ReplayLane::serve() {
    const std::unique_ptr<ClockTimer> timer = co_await make_timer();
    while (!is_closing()) {
        co_await wait_for_batch(*timer);
        co_await drain(*timer);
    }
    co_await drain(*timer);
}

/// Replays what is in the queue now.
Task<> ReplayLane::drain(ClockTimer& timer) {
    const std::uint64_t flush = requested_flush();
    const std::uint64_t end = queue_.added();
    while (queue_.taken() < end) {
        std::shared_ptr<RunLog> log;
        if (queue_.pop(log)) {
            notes_ += replay(std::move(log));
        } else {
            // The thread that adds the next log has not finished.
            timer.expires_after(std::chrono::milliseconds(1), [this] { wake(); });
            co_await wait();
        }
        if (notes_ < notes_at_a_time) continue;
        notes_ = 0;
        co_await let_others_run();
    }
    // Otherwise runs follow each other so fast that the logs are about to be reused.
    if (size() == 0) release_logs();
    flushed(flush);
}

}  // namespace cubepi::detail
