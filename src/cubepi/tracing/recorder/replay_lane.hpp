#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <limits>
#include <memory>

#include <cubepi/tracing/export/bounded_queue.hpp>
#include <cubepi/tracing/export/export_thread.hpp>
#include <cubepi/tracing/recorder/run_log.hpp>

namespace cubepi::detail {

/// Replays the logs of runs on the export thread.
class ReplayLane final : public ExportLane {
public:
    /// The number of notes after which exporters run. Their queues must be able to hold at least twice as many spans.
    static constexpr std::size_t notes_at_a_time = 512;

    explicit ReplayLane(std::shared_ptr<Clock> clock);

    /// Returns false if the queue is full or closed: the caller must replay the log. Otherwise the caller calls added() next. Any
    /// thread, takes no lock.
    bool add(std::shared_ptr<RunLog> log) noexcept;
    void added() noexcept;
    /// Returns a log to begin: one that was replayed and is not used any more, or a new one. Any thread, takes no lock.
    std::shared_ptr<RunLog> blank_log();
    void settle() noexcept override;

private:
    static constexpr std::size_t max_logs = 512;
    static constexpr std::size_t batch_logs = 128;
    static constexpr std::size_t never = std::numeric_limits<std::size_t>::max();
    /// The longest time that a note waits.
    static constexpr std::chrono::milliseconds delay{20};

    Task<> serve() override;
    Task<> drain(ClockTimer& timer);
    std::size_t size() const noexcept;
    void wake_if_due() noexcept;
    Task<> wait_for_batch(ClockTimer& timer);
    /// Returns the number of notes.
    std::size_t replay(std::shared_ptr<RunLog> log) noexcept;
    void replay_all() noexcept;
    void release_logs() noexcept;

    BoundedQueue<std::shared_ptr<RunLog>> queue_{max_logs};
    // Logs to reuse, see RunLog::retire().
    BoundedQueue<std::shared_ptr<RunLog>> replayed_{batch_logs * 2};
    std::size_t notes_ = 0;                 // replayed since exporters ran
    std::atomic<std::size_t> wake_at_ = 1;  // the number of logs at which added() wakes the thread
    std::atomic<bool> settled_ = false;
};

}  // namespace cubepi::detail
