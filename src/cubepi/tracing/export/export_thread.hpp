#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <cubepi/core/clock.hpp>
#include <cubepi/core/notice.hpp>
#include <cubepi/core/task.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/core/thread_queue.hpp>
#include <cubepi/tracing/exporter.hpp>
#include <cubepi/tracing/span_sink.hpp>

namespace cubepi::detail {

class ExportControl;

/// Returns the time that is left until `end`, at least zero.
inline std::chrono::milliseconds time_until(std::chrono::steady_clock::time_point end) {
    const auto left = end - std::chrono::steady_clock::now();
    return std::max(std::chrono::milliseconds(0),
                    std::chrono::duration_cast<std::chrono::milliseconds>(left));
}

/// The task of one exporter on an export thread. Unless stated otherwise, members are used on that thread.
class ExportLane {
public:
    ExportLane(std::shared_ptr<Clock> clock, std::chrono::milliseconds export_timeout)
        : clock_(std::move(clock)), export_timeout_(export_timeout) {}
    virtual ~ExportLane() = default;
    ExportLane(const ExportLane&) = delete;
    ExportLane& operator=(const ExportLane&) = delete;

    /// Runs serve() to its end, and then report_losses().
    Task<> run();
    /// Any thread.
    void wake() noexcept;
    /// Counts and reports what was not exported, once. Called by the thread, or by the thread that abandons it.
    virtual void report_losses() noexcept = 0;

protected:
    /// Exports what there is until the sink is closed, and then ends the exporter.
    virtual Task<> serve() = 0;
    /// Waits for the next wake().
    Task<> wait();
    /// Returns a timer that calls wake(), for a lane that waits for a time.
    Task<std::unique_ptr<ClockTimer>> make_timer();
    /// Runs an export of `items` with the time limit. Only a cancellation of the lane is thrown.
    Task<ExportResult> limited(Task<ExportResult> work, std::size_t items);

    /// Returns true if a flush or the end was requested and not served yet.
    bool is_requested() const noexcept;
    /// Serves the requests: `done` exports everything that was there when it was called.
    std::uint64_t requested_flush() const noexcept;
    bool is_closing() const noexcept;
    void flushed(std::uint64_t flush);
    Clock& clock() const noexcept { return *clock_; }

private:
    friend class ExportControl;
    ExportControl* control_ = nullptr;
    std::uint64_t flushed_ = 0;  // guarded by the mutex of the control; written on the thread only
    ThreadSignal woken_;
    const std::shared_ptr<Clock> clock_;
    const std::chrono::milliseconds export_timeout_;
};

/// The state that the export thread shares with the threads that use it.
class ExportControl {
public:
    explicit ExportControl(std::vector<std::shared_ptr<ExportLane>> lanes);

    /// Wakes all lanes. Any thread.
    void wake() const noexcept;

    Task<> main();

    ExportControl(const ExportControl&) = delete;
    ExportControl& operator=(const ExportControl&) = delete;

private:
    friend class ExportLane;
    friend class ExportThread;
    Task<> cancel_on_request(BackgroundScope& lanes);
    bool is_flushed(std::uint64_t flush) const;

    const std::vector<std::shared_ptr<ExportLane>> lanes_;
    std::atomic<std::uint64_t> flush_ = 0;  // the number of flushes requested
    std::atomic<bool> closing_ = false;
    ThreadSignal cancel_;
    std::atomic<std::thread::id> thread_id_ = {};
    std::mutex mutex_;
    std::condition_variable changed_;
    bool ended_ = false;
    bool cancelled_ = false;
    bool given_up_ = false;  // a caller of close() waits no longer
};

/// A thread with an event loop that runs lanes concurrently. Starts with the first start(); idle lanes cost nothing. Any thread
/// may call any member. In a child process of fork() there is no such thread, and no member waits.
class ExportThread {
public:
    explicit ExportThread(std::vector<std::shared_ptr<ExportLane>> lanes);
    /// Requires a preceding close().
    ~ExportThread();

    /// Starts the thread unless it was started. Takes no lock except at the first calls. Returns false if the system has no thread
    /// left; a later call tries again.
    bool start() noexcept;
    /// Waits until the lanes have exported what they had. Returns false after `limit`, or on the export thread itself.
    bool flush(std::chrono::milliseconds limit);
    /// Ends the lanes. After `limit` they are cancelled; if one of them ignores that, the thread is left to itself. Returns false
    /// if they did not end by themselves.
    bool close(std::chrono::milliseconds limit);

    /// Returns true in a child process of the one that constructed this object.
    bool is_forked() const noexcept;

    ExportThread(const ExportThread&) = delete;
    ExportThread& operator=(const ExportThread&) = delete;

private:
    bool end(std::unique_lock<std::mutex>& lock, std::chrono::milliseconds limit);

    std::shared_ptr<ExportControl> control_;
    std::atomic<bool> started_ = false;
    std::thread thread_;
    const unsigned process_;
};

/// The receiver of notices about exporters, shared by those of one sink. Thread-safe. Nothing arrives after close().
class NoticeReceiver {
public:
    explicit NoticeReceiver(std::function<void(const Notice&)> report)
        : report_(std::move(report)) {}
    /// Discards an exception of the receiver.
    void send(const Notice& notice) noexcept;
    void close() noexcept;

private:
    std::mutex mutex_;
    std::function<void(const Notice&)> report_;
};

/// Returns exporter.retry_reason(), or nothing if it throws.
template <class Exporter>
std::string retry_reason_of(const Exporter& exporter) noexcept {
    try {
        return exporter.retry_reason();
    } catch (...) {
        // The report lacks the reason.
        return {};
    }
}

/// Reports what becomes of the items of one exporter: once when they begin to be lost, once when the exporter has recovered, and
/// the totals at the end. Used by one thread at a time.
class ExportReporter {
public:
    /// `item` is "spans" or "data points".
    ExportReporter(std::string exporter, std::string_view item,
                   std::shared_ptr<NoticeReceiver> receiver)
        : exporter_(std::move(exporter)), item_(item), receiver_(std::move(receiver)) {}

    /// Reports after an export. `dropped` counts the items that found the queue full so far.
    void exported(const ExportResult& result, std::uint64_t dropped);
    /// `reason`: why the last export did not succeed; may be empty.
    void ended(const ExportCounts& counts, const std::string& reason);

private:
    void send(const char* code, std::string text, JsonObject details = {}) noexcept;

    const std::string exporter_;
    const std::string item_;
    const std::shared_ptr<NoticeReceiver> receiver_;
    bool failing_ = false;
    bool dropping_ = false;
    std::uint64_t dropped_ = 0;
    std::string warning_;
};

/// The lanes of a sink with their thread and the receiver of their notices.
template <class Lane>
struct ExportLanes {
    ExportLanes(std::shared_ptr<NoticeReceiver> notices, std::vector<std::shared_ptr<Lane>> all)
        : receiver(std::move(notices)),
          lanes(std::move(all)),
          thread({lanes.begin(), lanes.end()}) {}

    bool flush(std::chrono::milliseconds limit) { return lanes.empty() || thread.flush(limit); }
    bool shutdown(std::chrono::milliseconds limit) {
        if (lanes.empty()) return true;
        const bool in_time = thread.close(limit);
        if (!thread.is_forked()) receiver->close();
        return in_time;
    }
    std::vector<ExportCounts> counts() const {
        std::vector<ExportCounts> counts;
        for (const auto& lane : lanes) counts.push_back(lane->counts());
        return counts;
    }

    const std::shared_ptr<NoticeReceiver> receiver;
    const std::vector<std::shared_ptr<Lane>> lanes;
    ExportThread thread;
};

}  // namespace cubepi::detail
