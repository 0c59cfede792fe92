#include <cubepi/tracing/metric_reader.hpp>

#include <algorithm>
#include <atomic>
#include <utility>

#include <cubepi/tracing/export/export_thread.hpp>

namespace cubepi {

namespace {

using detail::ExportLane;
using detail::ExportReporter;
using detail::NoticeReceiver;

/// Ends an export also if the exporter throws before it returns a task.
Task<ExportResult> call_export(std::shared_ptr<MetricExporter> exporter,
                               std::shared_ptr<const MetricSnapshot> metrics,
                               std::shared_ptr<const Resource> resource) {
    Task<ExportResult> task = exporter->export_metrics(std::move(metrics), std::move(resource));
    co_return co_await std::move(task);
}

/// The periodic export to one exporter.
class MetricLane final : public ExportLane {
public:
    MetricLane(std::shared_ptr<const MetricRegistry> registry,
               std::shared_ptr<MetricExporter> exporter, std::shared_ptr<const Resource> resource,
               const MetricReaderOptions& options, const std::shared_ptr<NoticeReceiver>& receiver,
               std::shared_ptr<Clock> clock)
        : ExportLane(std::move(clock), options.export_timeout),
          registry_(std::move(registry)),
          exporter_(std::move(exporter)),
          resource_(std::move(resource)),
          interval_(std::max(options.interval, std::chrono::milliseconds(1))),
          reporter_(exporter_->name(), "data points", receiver) {}

    ExportCounts counts() const noexcept {
        ExportCounts counts;
        counts.exported = exported_;
        counts.failed = failed_;
        return counts;
    }
    void report_losses() noexcept override {
        if (losses_reported_.exchange(true)) return;
        failed_ += exporting_.exchange(0);
        reporter_.ended(counts(), detail::retry_reason_of(*exporter_));
    }

private:
    Task<> serve() override;
    Task<> export_now();

    const std::shared_ptr<const MetricRegistry> registry_;
    const std::shared_ptr<MetricExporter> exporter_;
    const std::shared_ptr<const Resource> resource_;
    const std::chrono::milliseconds interval_;
    ExportReporter reporter_;
    std::atomic<std::size_t> exporting_ = 0;
    std::atomic<std::uint64_t> exported_ = 0;
    std::atomic<std::uint64_t> failed_ = 0;
    std::atomic<bool> losses_reported_ = false;
};

Task<> MetricLane::serve() {
    const std::unique_ptr<ClockTimer> timer = co_await make_timer();
    Clock::time_point due = clock().now();
    for (bool closing = false; !closing;) {
        // An export that takes longer than the interval does not have to be made up for.
        if (due <= clock().now()) due = deadline_after(clock().now(), interval_);
        timer->expires_at(due, [this] { wake(); });
        while (!is_requested() && clock().now() < due) co_await wait();
        closing = is_closing();
        const std::uint64_t flush = requested_flush();
        co_await export_now();
        flushed(flush);
    }
    timer->cancel();
    co_await exporter_->shutdown();
}

Task<> MetricLane::export_now() {
    auto metrics = std::make_shared<const MetricSnapshot>(registry_->snapshot());
    const std::size_t points = metrics->point_count();
    if (points == 0) co_return;
    exporting_ = points;
    Task<ExportResult> call = call_export(exporter_, std::move(metrics), resource_);
    ExportResult result = co_await limited(std::move(call), points);
    // Zero if another thread has abandoned this one and counted the points.
    const std::size_t counted = exporting_.exchange(0);
    result.rejected = std::min(result.rejected, counted);
    failed_ += result.rejected;
    exported_ += counted - result.rejected;
    reporter_.exported(result, 0);
}

}  // namespace

Task<void> MetricExporter::shutdown() { co_return; }

struct MetricReader::State : detail::ExportLanes<MetricLane> {
    using ExportLanes::ExportLanes;
};

MetricReader::MetricReader(std::shared_ptr<const MetricRegistry> registry,
                           std::vector<std::shared_ptr<MetricExporter>> exporters,
                           std::shared_ptr<const Resource> resource, MetricReaderOptions options,
                           std::function<void(const Notice&)> report,
                           std::shared_ptr<Clock> clock) {
    if (!resource) resource = std::make_shared<const Resource>();
    if (!clock) clock = std::make_shared<SystemClock>();
    auto receiver = std::make_shared<NoticeReceiver>(std::move(report));
    std::vector<std::shared_ptr<MetricLane>> lanes;
    for (auto& exporter : exporters) {
        lanes.push_back(std::make_shared<MetricLane>(registry, std::move(exporter), resource,
                                                     options, receiver, clock));
    }
    state_ = std::make_unique<State>(std::move(receiver), std::move(lanes));
    if (!state_->lanes.empty()) state_->thread.start();
}

MetricReader::~MetricReader() { shutdown(std::chrono::seconds(5)); }

bool MetricReader::force_flush(std::chrono::milliseconds limit) { return state_->flush(limit); }

bool MetricReader::shutdown(std::chrono::milliseconds limit) { return state_->shutdown(limit); }

std::vector<ExportCounts> MetricReader::counts() const { return state_->counts(); }

}  // namespace cubepi
