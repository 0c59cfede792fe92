#include <cubepi/tracing/span_sink.hpp>

#include <algorithm>
#include <atomic>
#include <limits>
#include <utility>

#include <cubepi/tracing/export/export_report.hpp>
#include <cubepi/tracing/export/export_thread.hpp>
#include <cubepi/tracing/export/sole_owner.hpp>
#include <cubepi/tracing/export/span_queue.hpp>

namespace cubepi {

namespace {

using detail::BoundedQueue;
using detail::ExportLane;
using detail::ExportReporter;
using detail::is_sole_owner;
using detail::NoticeReceiver;
using detail::SpanQueue;

/// Ends an export also if the exporter throws before it returns a task.
Task<ExportResult> call_export(std::shared_ptr<SpanExporter> exporter, SpanBatch batch,
                               std::shared_ptr<const Resource> resource) {
    Task<ExportResult> task = exporter->export_spans(std::move(batch), std::move(resource));
    co_return co_await std::move(task);
}

/// The capacity of a new span. Only spans with content, or with tags and metadata, have more attributes.
constexpr std::size_t attributes_of_a_call = 18;

/// Destroys the spans of SpanSink::blank_span(), and identifies them.
struct ReusableSpan {
    void operator()(SpanData* span) const noexcept { delete span; }
};

/// Returns true if the span is one of SpanSink::blank_span() and has no other owner.
bool is_reusable(const std::shared_ptr<const SpanData>& span) noexcept {
    return std::get_deleter<ReusableSpan>(span) && is_sole_owner(span);
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
          queue_(output.limits.queue_spans, output.limits.queue_bytes),
          exported_spans_(2 * batch_spans_) {}

    void add(std::shared_ptr<const SpanData> span, std::size_t bytes) noexcept;
    /// Returns an exported span that can be reused; null if there is none.
    std::shared_ptr<SpanData> take_exported() noexcept;
    /// Counts a span that is not put into the queue.
    void drop() noexcept { ++dropped_; }
    ExportCounts counts() const noexcept;
    void settle() noexcept override;

private:
    static constexpr std::size_t small_span_bytes = 4096;
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
    // Spans that were exported or dropped. The threads that add spans reuse or destroy them: an allocator is slow, for both sides, if one
    // thread allocates what another one frees.
    BoundedQueue<std::shared_ptr<const SpanData>> exported_spans_;
    std::atomic<std::size_t> wake_at_ = 1;  // the number of spans at which add() wakes the thread
    std::atomic<std::size_t> exporting_ = 0;
    std::atomic<std::uint64_t> exported_ = 0;
    std::atomic<std::uint64_t> dropped_ = 0;
    std::atomic<std::uint64_t> failed_ = 0;
    std::atomic<bool> settled_ = false;
};

void SpanLane::add(std::shared_ptr<const SpanData> span, std::size_t bytes) noexcept {
    if (settled_ || is_closing()) return drop();
    if (!queue_.push(std::move(span), bytes)) {
        drop();
        if (bytes <= small_span_bytes) (void)exported_spans_.push(std::move(span));
        return;
    }
    wake_if_due();
    if (settled_) discard_queue();
    // Those that are not reused: two for each one added, so that the queue does not fill.
    if (exported_spans_.added() - exported_spans_.taken() <= batch_spans_) return;
    std::shared_ptr<const SpanData> first;
    std::shared_ptr<const SpanData> second;
    if (exported_spans_.pop(first)) exported_spans_.pop(second);
}

std::shared_ptr<SpanData> SpanLane::take_exported() noexcept {
    std::shared_ptr<const SpanData> span;
    for (int attempts = 0; attempts < 2 && exported_spans_.pop(span); ++attempts) {
        if (is_reusable(span)) return std::const_pointer_cast<SpanData>(std::move(span));
    }
    return nullptr;
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
    for (std::shared_ptr<const SpanData> span; exported_spans_.pop(span);) span.reset();
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
    // The exporter shares the ownership of all small spans of the batch together. Counting its references to each of them would
    // move the counts between the processors of this thread and of the threads that reuse the spans.
    const auto small = std::make_shared<SpanBatch>();
    SpanBatch batch;
    std::size_t bytes = 0;
    batch.reserve(std::min(batch_spans_, queue_.size()));
    small->reserve(batch.capacity());
    for (SpanQueue::Entry entry;
         batch.size() < batch_spans_ && bytes < batch_bytes_ && queue_.pop(entry);) {
        bytes += entry.bytes;
        if (entry.bytes > small_span_bytes) {
            batch.push_back(std::move(entry.span));
        } else {
            batch.emplace_back(small, entry.span.get());
            small->push_back(std::move(entry.span));
        }
    }
    const std::size_t size = batch.size();
    if (size == 0) co_return false;
    exporting_ = size;
    Task<ExportResult> call = call_export(exporter_, std::move(batch), resource_);
    ExportResult result = co_await limited(std::move(call), size);
    queue_.release(bytes);
    if (is_sole_owner(small)) {
        for (std::shared_ptr<const SpanData>& span : *small) {
            if (!exported_spans_.push(std::move(span))) break;
        }
    }
    // Zero if another thread has abandoned this one and counted the batch.
    const std::size_t counted = exporting_.exchange(0);
    result.rejected = std::min(result.rejected, counted);
    failed_ += result.rejected;
    exported_ += counted - result.rejected;
    reporter_.exported(result, dropped_);
    co_return true;
}

}  // namespace

struct SpanSink::State {
    State(std::vector<Output> outputs, const std::shared_ptr<const Resource>& resource,
          std::function<void(const Notice&)> report, const std::shared_ptr<Clock>& clock,
          std::shared_ptr<ExportLane> span_source)
        : receiver(std::make_shared<NoticeReceiver>(std::move(report))),
          lanes(make_lanes(std::move(outputs), resource, receiver, clock)),
          source(std::move(span_source)),
          thread(lanes_of_thread()) {}

    std::vector<std::shared_ptr<ExportLane>> lanes_of_thread() const {
        // The source first, so that its last spans are counted before the exporters report their counts.
        std::vector<std::shared_ptr<ExportLane>> all;
        if (source) all.push_back(source);
        all.insert(all.end(), lanes.begin(), lanes.end());
        return all;
    }
    /// Waits until the source has added its spans. Returns the rest of the limit.
    std::chrono::milliseconds flush_source(std::chrono::milliseconds limit) {
        if (!source) return limit;
        const auto end = deadline_after(std::chrono::steady_clock::now(), limit);
        (void)thread.flush(limit, source.get());
        return detail::time_until(end);
    }

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
    const std::shared_ptr<ExportLane> source;
    detail::ExportThread thread;
};

SpanSink::SpanSink(std::vector<Output> outputs, std::shared_ptr<const Resource> resource,
                   std::function<void(const Notice&)> report, std::shared_ptr<Clock> clock,
                   std::shared_ptr<ExportLane> source) {
    if (!resource) resource = std::make_shared<const Resource>();
    if (!clock) clock = std::make_shared<SystemClock>();
    state_ = std::make_unique<State>(std::move(outputs), resource, std::move(report), clock,
                                     std::move(source));
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

std::shared_ptr<SpanData> SpanSink::blank_span() {
    for (const auto& lane : state_->lanes) {
        if (std::shared_ptr<SpanData> span = lane->take_exported()) {
            span->clear();
            return span;
        }
    }
    std::shared_ptr<SpanData> span(new SpanData, ReusableSpan());
    span->attributes.reserve(attributes_of_a_call);
    return span;
}

bool SpanSink::start() noexcept { return !state_->thread.is_forked() && state_->thread.start(); }

bool SpanSink::force_flush(std::chrono::milliseconds limit) {
    return state_->lanes.empty() || state_->thread.flush(state_->flush_source(limit));
}

bool SpanSink::shutdown(std::chrono::milliseconds limit) {
    if (state_->lanes.empty()) return true;
    const bool in_time = state_->thread.close(state_->flush_source(limit));
    if (!state_->thread.is_forked()) state_->receiver->close();
    return in_time;
}

std::vector<ExportCounts> SpanSink::counts() const {
    std::vector<ExportCounts> counts;
    for (const auto& lane : state_->lanes) counts.push_back(lane->counts());
    return counts;
}

}  // namespace cubepi
