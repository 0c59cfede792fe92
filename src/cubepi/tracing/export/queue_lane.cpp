#include <cubepi/tracing/export/queue_lane.hpp>

namespace cubepi::detail {

/// The thread stores awaited_ and then reads the queue; here it is the other way round, so one of the two sees the other.
void QueueLane::wake_if_due() noexcept {
    const Awaited awaited = awaited_.load();
    if (awaited == Awaited::nothing) return;
    if (awaited == Awaited::batch && !has_batch()) return;
    if (awaited_.exchange(Awaited::nothing) != Awaited::nothing) control().wake(*this);
}

Task<> QueueLane::wait_for_batch(ClockTimer& timer, std::chrono::milliseconds delay) {
    awaited_ = Awaited::first;
    while (!has_some() && !is_requested()) co_await wait();
    awaited_ = Awaited::batch;
    const Clock::time_point due = deadline_after(clock().now(), delay);
    timer.expires_at(due, [this] { wake(); });
    while (!has_batch() && !is_requested() && clock().now() < due) co_await wait();
    timer.cancel();
    awaited_ = Awaited::nothing;
}

Task<> QueueLane::wait_for_entry(ClockTimer& timer) {
    timer.expires_after(std::chrono::milliseconds(1), [this] { wake(); });
    co_await wait();
}

}  // namespace cubepi::detail
