#include <cubepi/tracing/span_sink.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <mutex>
#include <new>
#include <utility>

#include <cubepi/tracing/export/export_thread.hpp>

namespace cubepi {

namespace {

using detail::ExportLane;
using detail::ExportReporter;
using detail::NoticeReceiver;

/// Ends an export also if the exporter throws before it returns a task.
Task<ExportResult> call_export(std::shared_ptr<SpanExporter> exporter, SpanBatch batch,
                               std::shared_ptr<const Resource> resource) {
    Task<ExportResult> task = exporter->export_spans(std::move(batch), std::move(resource));
    co_return co_await std::move(task);
}

/// The queue of one exporter, and what takes spans from it. Its limits are the number of spans that wait, and the bytes of those and of
/// the spans that are being exported.
class SpanLane final : public ExportLane {
public:
    SpanLane(SpanSink::Output output, std::shared_ptr<const Resource> resource,
             const std::shared_ptr<NoticeReceiver>& receiver, std::shared_ptr<Clock> clock)
        : ExportLane(std::move(clock), output.limits.export_timeout),
          exporter_(std::move(output.exporter)),
          resource_(std::move(resource)),
          delay_(output.limits.delay),
          batch_spans_(std::clamp<std::size_t>(
              output.limits.batch_spans, 1, std::max<std::size_t>(output.limits.queue_spans, 1))),
          batch_bytes_(std::max<std::size_t>(output.limits.queue_bytes / 4, 1)),
          max_spans_(std::max<std::size_t>(output.limits.queue_spans, 1)),
          max_bytes_(output.limits.queue_bytes),
          reporter_(exporter_->name(), "spans", receiver) {}

    void add(std::shared_ptr<const SpanData> span, std::size_t bytes) noexcept;
    /// Counts a span that is not put into the queue. Takes no lock, which another thread could hold at a fork().
    void drop() noexcept { ++dropped_; }
    ExportCounts counts() const noexcept;
    void report_losses() noexcept override;

private:
    static constexpr std::size_t never = std::numeric_limits<std::size_t>::max();

    struct Entry {
        std::shared_ptr<const SpanData> span = {};
        std::size_t bytes = 0;
    };

    Task<> serve() override;
    bool push(std::shared_ptr<const SpanData> span, std::size_t bytes) noexcept;
    bool has(std::size_t spans) const noexcept;
    void wake_at(std::size_t spans) noexcept;
    Task<> wait_for_batch(ClockTimer& timer);
    Task<> drain();
    Task<std::size_t> export_batch();

    const std::shared_ptr<SpanExporter> exporter_;
    const std::shared_ptr<const Resource> resource_;
    const std::chrono::milliseconds delay_;
    const std::size_t batch_spans_;
    const std::size_t batch_bytes_;  // a batch with as many bytes is complete
    const std::size_t max_spans_;
    const std::size_t max_bytes_;
    ExportReporter reporter_;
    std::atomic<std::uint64_t> exported_ = 0;
    std::atomic<std::uint64_t> dropped_ = 0;
    std::atomic<std::uint64_t> failed_ = 0;

    mutable std::mutex mutex_;  // guards what follows
    std::deque<Entry> queue_;
    std::size_t bytes_ = 0;      // in the queue and being exported
    std::size_t exporting_ = 0;  // spans
    std::size_t wake_at_ = 1;    // the number of spans at which add() wakes the thread
    bool losses_reported_ = false;
};

void SpanLane::add(std::shared_ptr<const SpanData> span, std::size_t bytes) noexcept {
    bool due = false;
    {
        const std::lock_guard lock(mutex_);
        if (losses_reported_ || is_closing() || !push(std::move(span), bytes)) return drop();
        due = wake_at_ != never && (queue_.size() >= wake_at_ || bytes_ >= batch_bytes_);
        if (due) wake_at_ = never;
    }
    if (due) wake();
}

/// Returns false if a limit would be exceeded. The mutex must be locked.
bool SpanLane::push(std::shared_ptr<const SpanData> span, std::size_t bytes) noexcept {
    if (queue_.size() >= max_spans_ || bytes > max_bytes_ - bytes_) return false;
    try {
        queue_.push_back(Entry{std::move(span), bytes});
    } catch (const std::bad_alloc&) {
        return false;
    }
    bytes_ += bytes;
    return true;
}

/// Returns true if as many spans, or the bytes of a batch, are in the queue.
bool SpanLane::has(std::size_t spans) const noexcept {
    const std::lock_guard lock(mutex_);
    return queue_.size() >= spans || bytes_ >= batch_bytes_;
}

void SpanLane::wake_at(std::size_t spans) noexcept {
    const std::lock_guard lock(mutex_);
    wake_at_ = spans;
}

ExportCounts SpanLane::counts() const noexcept {
    ExportCounts counts;
    counts.exported = exported_;
    counts.dropped = dropped_;
    counts.failed = failed_;
    return counts;
}

void SpanLane::report_losses() noexcept {
    std::deque<Entry> discarded;  // destroyed after the lock
    {
        const std::lock_guard lock(mutex_);
        if (std::exchange(losses_reported_, true)) return;
        discarded.swap(queue_);
        failed_ += std::exchange(exporting_, 0);
    }
    dropped_ += discarded.size();
    reporter_.ended(counts(), detail::retry_reason_of(*exporter_));
}

Task<> SpanLane::serve() {
    const std::unique_ptr<ClockTimer> timer = co_await make_timer();
    while (!is_closing()) {
        co_await wait_for_batch(*timer);
        if (is_requested()) {
            co_await drain();
        } else {
            co_await export_batch();
        }
    }
    co_await drain();
    co_await exporter_->shutdown();
}

/// Waits until a batch is complete, the first span has waited long enough, or a flush or the end is requested.
Task<> SpanLane::wait_for_batch(ClockTimer& timer) {
    wake_at(1);
    while (!has(1) && !is_requested()) co_await wait();
    wake_at(batch_spans_);
    const Clock::time_point due = deadline_after(clock().now(), delay_);
    timer.expires_at(due, [this] { wake(); });
    while (!has(batch_spans_) && !is_requested() && clock().now() < due) co_await wait();
    timer.cancel();
    wake_at(never);
}

/// Exports the spans that were added before the request.
Task<> SpanLane::drain() {
    const std::uint64_t flush = requested_flush();
    std::unique_lock lock(mutex_);
    std::size_t left = queue_.size();
    lock.unlock();
    while (left != 0) {
        const std::size_t taken = co_await export_batch();
        left = taken == 0 ? 0 : left - std::min(left, taken);
    }
    flushed(flush);
}

/// Returns the number of spans that were taken from the queue.
Task<std::size_t> SpanLane::export_batch() {
    SpanBatch batch;
    std::size_t bytes = 0;
    {
        const std::lock_guard lock(mutex_);
        while (!queue_.empty() && batch.size() < batch_spans_ && bytes < batch_bytes_) {
            bytes += queue_.front().bytes;
            batch.push_back(std::move(queue_.front().span));
            queue_.pop_front();
        }
        exporting_ = batch.size();
    }
    const std::size_t size = batch.size();
    if (size == 0) co_return size;
    Task<ExportResult> call = call_export(exporter_, std::move(batch), resource_);
    ExportResult result = co_await limited(std::move(call), size);
    {
        const std::lock_guard lock(mutex_);
        bytes_ -= bytes;
        // Zero if another thread has abandoned this one and counted the batch.
        const std::size_t counted = std::exchange(exporting_, 0);
        result.rejected = std::min(result.rejected, counted);
        failed_ += result.rejected;
        exported_ += counted - result.rejected;
    }
    reporter_.exported(result, dropped_);
    co_return size;
}

}  // namespace

Task<void> SpanExporter::shutdown() { co_return; }

struct SpanSink::State : detail::ExportLanes<SpanLane> {
    using ExportLanes::ExportLanes;
};

SpanSink::SpanSink(std::vector<Output> outputs, std::shared_ptr<const Resource> resource,
                   std::function<void(const Notice&)> report, std::shared_ptr<Clock> clock) {
    if (!resource) resource = std::make_shared<const Resource>();
    if (!clock) clock = std::make_shared<SystemClock>();
    auto receiver = std::make_shared<NoticeReceiver>(std::move(report));
    std::vector<std::shared_ptr<SpanLane>> lanes;
    for (Output& output : outputs)
        lanes.push_back(std::make_shared<SpanLane>(std::move(output), resource, receiver, clock));
    state_ = std::make_unique<State>(std::move(receiver), std::move(lanes));
}

SpanSink::~SpanSink() { shutdown(std::chrono::seconds(5)); }

void SpanSink::add(std::shared_ptr<const SpanData> span) noexcept {
    if (!span || state_->lanes.empty()) return;
    if (state_->thread.is_forked()) {
        for (const auto& lane : state_->lanes) lane->drop();
        return;
    }
    const std::size_t bytes = span->memory();
    const auto last = state_->lanes.end() - 1;
    for (auto lane = state_->lanes.begin(); lane != last; ++lane) (*lane)->add(span, bytes);
    (*last)->add(std::move(span), bytes);
    state_->thread.start();
}

bool SpanSink::force_flush(std::chrono::milliseconds limit) { return state_->flush(limit); }

bool SpanSink::shutdown(std::chrono::milliseconds limit) { return state_->shutdown(limit); }

std::vector<ExportCounts> SpanSink::counts() const { return state_->counts(); }

}  // namespace cubepi
