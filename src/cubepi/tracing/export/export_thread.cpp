#include <cubepi/tracing/export/export_thread.hpp>

#include <pthread.h>

#include <algorithm>
#include <exception>
#include <limits>
#include <new>
#include <system_error>
#include <utility>

#include <cubepi/core/error.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/support/blocked_signals.hpp>
#include <cubepi/core/support/fork_generation.hpp>
#include <cubepi/core/timeout.hpp>

namespace cubepi::detail {

namespace {

using std::chrono::milliseconds;

/// The time in which cancelled work must end before the thread is left to itself.
constexpr milliseconds grace{250};

/// A limit that can be added to the current time.
milliseconds bounded(milliseconds limit) {
    return std::clamp<milliseconds>(limit, milliseconds(0), std::chrono::hours(24 * 365));
}

}  // namespace

Task<> ExportLane::run() {
    try {
        co_await serve();
    } catch (...) {
        // Cancelled, or out of memory: report_losses() counts what is left.
    }
    report_losses();
    // A flush does not wait for a lane that has ended.
    flushed(std::numeric_limits<std::uint64_t>::max());
}

void ExportLane::wake() noexcept {
    try {
        woken_.set();
    } catch (const std::bad_alloc&) {
        // The next wake() is as good.
    }
}

Task<> ExportLane::wait() { return woken_.wait(); }

Task<std::unique_ptr<ClockTimer>> ExportLane::make_timer() {
    const Executor executor = co_await this_executor;
    co_return clock_->timer(executor);
}

Task<ExportResult> ExportLane::limited(Task<ExportResult> work, std::size_t items) {
    Task<ExportResult> timed = with_timeout(*clock_, export_timeout_, std::move(work), "export");
    Outcome<ExportResult> done = co_await outcome_of(std::move(timed));
    if (done) co_return std::move(done).value();
    const auto state = co_await this_cancellation;
    if (state.cancelled() != boost::asio::cancellation_type::none) throw_cancelled();
    ExportResult failed;
    failed.rejected = items;
    failed.error = exception_text(done.failure());
    co_return failed;
}

bool ExportLane::is_requested() const noexcept {
    return is_closing() || requested_flush() != flushed_;
}

std::uint64_t ExportLane::requested_flush() const noexcept { return control_->flush_.load(); }

bool ExportLane::is_closing() const noexcept { return control_->closing_.load(); }

void ExportLane::flushed(std::uint64_t flush) {
    {
        const std::lock_guard lock(control_->mutex_);
        flushed_ = flush;
    }
    control_->changed_.notify_all();
}

ExportControl::ExportControl(std::vector<std::shared_ptr<ExportLane>> lanes)
    : lanes_(std::move(lanes)) {
    for (const auto& lane : lanes_) lane->control_ = this;
}

void ExportControl::wake() const noexcept {
    for (const auto& lane : lanes_) lane->wake();
}

bool ExportControl::is_flushed(std::uint64_t flush) const {
    return std::all_of(lanes_.begin(), lanes_.end(),
                       [flush](const auto& lane) { return lane->flushed_ >= flush; });
}

Task<> ExportControl::cancel_on_request(BackgroundScope& lanes) {
    co_await cancel_.wait();
    lanes.cancel();
}

Task<> ExportControl::main() {
    const Executor executor = co_await this_executor;
    const std::function<void(std::exception_ptr)> ignore = [](const std::exception_ptr&) {};
    BackgroundScope lanes(executor, ignore);
    BackgroundScope canceller(executor, ignore);
    for (const auto& lane : lanes_) lanes.spawn(lane->run());
    canceller.spawn(cancel_on_request(lanes));
    co_await lanes.idle();
    co_await canceller.close();
}

ExportThread::ExportThread(std::vector<std::shared_ptr<ExportLane>> lanes)
    : control_(std::make_shared<ExportControl>(std::move(lanes))), process_(fork_generation()) {}

ExportThread::~ExportThread() {
    if (!is_forked()) return;
    // The thread and its event loop exist only in the parent: nothing may touch them, wait for a lock of theirs, detach the
    // thread, or run the destructors of exporters that were in use. This copy of them lasts as long as the process.
    static auto* const unusable =
        new std::vector<std::pair<std::shared_ptr<ExportControl>, std::thread>>();
    unusable->emplace_back(std::move(control_), std::move(thread_));
}

bool ExportThread::is_forked() const noexcept { return process_ != fork_generation(); }

bool ExportThread::start() noexcept {
    if (started_.load(std::memory_order_acquire)) return true;
    if (is_forked()) return false;
    try {
        const std::lock_guard lock(control_->mutex_);
        if (started_ || control_->ended_) return true;
        const BlockedSignals blocked;
        thread_ = std::thread([control = control_] {
            pthread_setname_np(pthread_self(), "cubepi-export");
            try {
                cubepi::run(control->main());
            } catch (...) {
                // The end of the thread must be announced in any case.
            }
            {
                const std::lock_guard ending(control->mutex_);
                control->ended_ = true;
            }
            control->changed_.notify_all();
        });
        control_->thread_id_ = thread_.get_id();
        started_.store(true, std::memory_order_release);
    } catch (...) {
        return false;
    }
    return true;
}

bool ExportThread::flush(milliseconds limit) {
    if (is_forked() || control_->thread_id_.load() == std::this_thread::get_id()) return false;
    if (!started_.load()) return true;
    const std::uint64_t flush = control_->flush_.fetch_add(1) + 1;
    control_->wake();
    std::unique_lock lock(control_->mutex_);
    control_->changed_.wait_for(lock, bounded(limit), [this, flush] {
        return control_->ended_ || control_->given_up_ || control_->is_flushed(flush);
    });
    return control_->is_flushed(flush);
}

bool ExportThread::close(milliseconds limit) {
    if (is_forked()) return false;
    control_->closing_ = true;
    const bool has_thread = start();
    control_->wake();
    if (control_->thread_id_.load() == std::this_thread::get_id()) return false;
    std::unique_lock lock(control_->mutex_);
    if (!has_thread) control_->ended_ = true;
    const bool in_time = end(lock, limit);
    const bool ended = control_->ended_;
    std::thread thread = std::move(thread_);
    lock.unlock();
    if (!thread.joinable()) {
        // Closed before, or without a thread.
    } else if (ended) {
        thread.join();
    } else {
        thread.detach();
    }
    for (const auto& lane : control_->lanes_) lane->report_losses();
    return in_time && has_thread;
}

/// Waits for the end of the lanes. Returns false if they had to be cancelled.
bool ExportThread::end(std::unique_lock<std::mutex>& lock, milliseconds limit) {
    ExportControl& control = *control_;
    const auto is_over = [&control] { return control.ended_ || control.given_up_; };
    if (control.changed_.wait_for(lock, bounded(limit), is_over)) return !control.cancelled_;
    control.cancelled_ = true;
    control.cancel_.set();
    control.changed_.wait_for(lock, grace, is_over);
    control.given_up_ = true;
    control.changed_.notify_all();
    return false;
}

void NoticeReceiver::send(const Notice& notice) noexcept {
    const std::lock_guard lock(mutex_);
    if (!report_) return;
    try {
        report_(notice);
    } catch (...) {
        // Tracing must not fail because its operator could not be notified.
    }
}

void NoticeReceiver::close() noexcept {
    const std::lock_guard lock(mutex_);
    report_ = nullptr;
}

void ExportReporter::send(const char* code, std::string text, JsonObject details) noexcept {
    try {
        Notice notice;
        notice.code = code;
        notice.text = std::move(text);
        notice.details = std::move(details);
        notice.details["exporter"] = exporter_;
        receiver_->send(notice);
    } catch (...) {
        // No memory for a notice.
    }
}

void ExportReporter::exported(const ExportResult& result, std::uint64_t dropped) {
    const bool drops = dropped > std::exchange(dropped_, dropped);
    if (drops && !std::exchange(dropping_, true)) {
        send("export_dropping", "the exporter " + exporter_ +
                                    " is too slow: its queue is full and " + item_ +
                                    " are dropped");
    }
    if (result.rejected != 0) {
        if (std::exchange(failing_, true)) return;
        const std::string error =
            result.error.empty() ? std::to_string(result.rejected) + " " + item_ + " were rejected"
                                 : result.error;
        JsonObject details;
        details["error"] = error;
        send("export_failing",
             "the exporter " + exporter_ + " cannot deliver " + item_ + ": " + error,
             std::move(details));
        return;
    }
    if (!result.error.empty() && warning_ != result.error) {
        warning_ = result.error;
        send("export_warning", "the exporter " + exporter_ + ": " + warning_);
    }
    if (drops || (!failing_ && !dropping_)) return;
    failing_ = false;
    dropping_ = false;
    send("export_recovered", "the exporter " + exporter_ + " delivers " + item_ + " again");
}

void ExportReporter::ended(const ExportCounts& counts, const std::string& reason) {
    JsonObject details;
    details["exported"] = counts.exported;
    details["dropped"] = counts.dropped;
    details["failed"] = counts.failed;
    std::string text =
        "the exporter " + exporter_ + " delivered " + std::to_string(counts.exported) + " " + item_;
    if (counts.dropped != 0) text += ", " + std::to_string(counts.dropped) + " were dropped";
    if (counts.failed != 0) text += ", " + std::to_string(counts.failed) + " were not accepted";
    if (counts.failed != 0 && !reason.empty()) {
        text += ": " + reason;
        details["error"] = reason;
    }
    send("export_ended", std::move(text), std::move(details));
}

}  // namespace cubepi::detail
