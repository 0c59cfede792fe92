#include <cubepi/tracing/span_sink.hpp>

#include <algorithm>
#include <atomic>
#include <limits>
#include <utility>

#include <cubepi/tracing/export/export_thread.hpp>
#include <cubepi/tracing/export/span_queue.hpp>

namespace cubepi {

namespace {

using detail::ExportLane;
using detail::ExportReporter;
using detail::NoticeReceiver;
using detail::SpanQueue;

/// Ends an export also if the exporter throws before it returns a task.
Task<ExportResult> call_export(std::shared_ptr<SpanExporter> exporter, SpanBatch batch,
                               std::shared_ptr<const Resource> resource) {
    Task<ExportResult> task = exporter->export_spans(std::move(batch), std::move(resource));
    co_return co_await std::move(task);
}

/// The queue of one exporter, and what takes spans from it.
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
          reporter_(exporter_->name(), "spans", receiver),
          queue_(output.limits.queue_spans, output.limits.queue_bytes) {}

    void add(std::shared_ptr<const SpanData> span, std::size_t bytes) noexcept;
    /// Counts a span that is not put into the queue.
    void drop() noexcept { ++dropped_; }
    ExportCounts counts() const noexcept;
    void settle() noexcept override;

private:
    static constexpr std::size_t never = std::numeric_limits<std::size_t>::max();

    Task<> serve() override;
    bool has_batch() const noexcept {
        const SpanQueue::Load load = queue_.load();
        return load.spans >= batch_spans_ || load.bytes >= batch_bytes_;
    }
    void wake_if_due() noexcept;
    Task<> wait_for_batch(ClockTimer& timer);
    Task<> drain(ClockTimer& timer);
    Task<> export_some(ClockTimer& timer);
    Task<bool> export_batch();
    void discard_queue() noexcept;

    const std::shared_ptr<SpanExporter> exporter_;
    const std::shared_ptr<const Resource> resource_;
    const std::chrono::milliseconds delay_;
    const std::size_t batch_spans_;
    const std::size_t batch_bytes_;  // a batch with as many bytes is complete
    ExportReporter reporter_;
    SpanQueue queue_;
    std::atomic<std::size_t> wake_at_ = 1;  // the number of spans at which add() wakes the thread
    std::atomic<std::size_t> exporting_ = 0;
    std::atomic<std::uint64_t> exported_ = 0;
    std::atomic<std::uint64_t> dropped_ = 0;
    std::atomic<std::uint64_t> failed_ = 0;
    std::atomic<bool> settled_ = false;
};

void SpanLane::add(std::shared_ptr<const SpanData> span, std::size_t bytes) noexcept {
    if (settled_ || is_closing()) return drop();
    if (!queue_.push(std::move(span), bytes)) return drop();
    wake_if_due();
    if (settled_) discard_queue();
}

/// The thread stores wake_at_ and then reads the size; here it is the other way round, so one of the two sees the other.
void SpanLane::wake_if_due() noexcept {
    const std::size_t wake_at = wake_at_.load();
    if (wake_at == never) return;
    const SpanQueue::Load load = queue_.load();
    const bool due = load.spans >= wake_at || load.bytes >= batch_bytes_;
    if (due && wake_at_.exchange(never) != never) control().wake(*this);
}

ExportCounts SpanLane::counts() const noexcept {
    ExportCounts counts;
    counts.exported = exported_;
    counts.dropped = dropped_;
    counts.failed = failed_;
    return counts;
}

void SpanLane::discard_queue() noexcept {
    for (SpanQueue::Entry entry; queue_.pop(entry);) {
        queue_.release(entry.bytes);
        ++dropped_;
    }
}

void SpanLane::settle() noexcept {
    if (settled_.exchange(true)) return;
    const std::string reason = detail::retry_reason_of(*exporter_);
    discard_queue();
    failed_ += exporting_.exchange(0);
    reporter_.ended(counts(), reason);
}

Task<> SpanLane::serve() {
    const std::unique_ptr<ClockTimer> timer = co_await make_timer();
    while (!is_closing()) {
        co_await wait_for_batch(*timer);
        if (is_requested()) {
            co_await drain(*timer);
        } else {
            co_await export_some(*timer);
        }
    }
    co_await drain(*timer);
    co_await exporter_->shutdown();
}

/// Waits until a batch is complete, the first span has waited long enough, or a flush or the end is requested.
Task<> SpanLane::wait_for_batch(ClockTimer& timer) {
    wake_at_ = 1;
    while (queue_.size() == 0 && !is_requested()) co_await wait();
    wake_at_ = batch_spans_;
    const Clock::time_point due = deadline_after(clock().now(), delay_);
    timer.expires_at(due, [this] { wake(); });
    while (!has_batch() && !is_requested() && clock().now() < due) co_await wait();
    timer.cancel();
    wake_at_ = never;
}

/// Exports the spans that were added before the request.
Task<> SpanLane::drain(ClockTimer& timer) {
    const std::uint64_t flush = requested_flush();
    const std::uint64_t end = queue_.added();
    while (queue_.taken() < end) co_await export_some(timer);
    flushed(flush);
}

/// Exports a batch, or waits a moment if the thread that adds the next span has not finished.
Task<> SpanLane::export_some(ClockTimer& timer) {
    if (co_await export_batch()) co_return;
    timer.expires_after(std::chrono::milliseconds(1), [this] { wake(); });
    co_await wait();
}

/// Returns false if no span could be taken.
Task<bool> SpanLane::export_batch() {
    SpanBatch batch;
    std::size_t bytes = 0;
    batch.reserve(std::min(batch_spans_, queue_.size()));
    for (SpanQueue::Entry entry;
         batch.size() < batch_spans_ && bytes < batch_bytes_ && queue_.pop(entry);) {
        bytes += entry.bytes;
        batch.push_back(std::move(entry.span));
    }
    const std::size_t size = batch.size();
    if (size == 0) co_return false;
    exporting_ = size;
    Task<ExportResult> call = call_export(exporter_, std::move(batch), resource_);
    ExportResult result = co_await limited(std::move(call), size);
    queue_.release(bytes);
    // Zero if another thread has abandoned this one and counted the batch.
    const std::size_t counted = exporting_.exchange(0);
    result.rejected = std::min(result.rejected, counted);
    failed_ += result.rejected;
    exported_ += counted - result.rejected;
    reporter_.exported(result, dropped_);
    co_return true;
}

}  // namespace

Task<void> SpanExporter::shutdown() { co_return; }

struct SpanSink::State {
    State(std::vector<Output> outputs, const std::shared_ptr<const Resource>& resource,
          std::function<void(const Notice&)> report, const std::shared_ptr<Clock>& clock)
        : receiver(std::make_shared<NoticeReceiver>(std::move(report))),
          lanes(make_lanes(std::move(outputs), resource, receiver, clock)),
          thread(std::vector<std::shared_ptr<ExportLane>>(lanes.begin(), lanes.end())) {}

    static std::vector<std::shared_ptr<SpanLane>> make_lanes(
        std::vector<Output> outputs, const std::shared_ptr<const Resource>& resource,
        const std::shared_ptr<NoticeReceiver>& receiver, const std::shared_ptr<Clock>& clock) {
        std::vector<std::shared_ptr<SpanLane>> lanes;
        for (Output& output : outputs) {
            lanes.push_back(
                std::make_shared<SpanLane>(std::move(output), resource, receiver, clock));
        }
        return lanes;
    }

    const std::shared_ptr<NoticeReceiver> receiver;
    const std::vector<std::shared_ptr<SpanLane>> lanes;
    detail::ExportThread thread;
};

SpanSink::SpanSink(std::vector<Output> outputs, std::shared_ptr<const Resource> resource,
                   std::function<void(const Notice&)> report, std::shared_ptr<Clock> clock) {
    if (!resource) resource = std::make_shared<const Resource>();
    if (!clock) clock = std::make_shared<SystemClock>();
    state_ = std::make_unique<State>(std::move(outputs), resource, std::move(report), clock);
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

bool SpanSink::force_flush(std::chrono::milliseconds limit) {
    return state_->lanes.empty() || state_->thread.flush(limit);
}

bool SpanSink::shutdown(std::chrono::milliseconds limit) {
    if (state_->lanes.empty()) return true;
    const bool in_time = state_->thread.close(limit);
    if (!state_->thread.is_forked()) state_->receiver->close();
    return in_time;
}

std::vector<ExportCounts> SpanSink::counts() const {
    std::vector<ExportCounts> counts;
    for (const auto& lane : state_->lanes) counts.push_back(lane->counts());
    return counts;
}

}  // namespace cubepi
