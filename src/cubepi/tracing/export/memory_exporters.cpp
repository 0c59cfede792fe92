#include <cubepi/tracing/memory_exporters.hpp>

#include <algorithm>
#include <mutex>
#include <utility>

namespace cubepi {

struct InMemorySpanExporter::State {
    mutable std::mutex mutex;
    SpanBatch spans;
    std::shared_ptr<const Resource> resource;
    bool shut_down = false;
};

InMemorySpanExporter::InMemorySpanExporter() : state_(std::make_unique<State>()) {}
InMemorySpanExporter::~InMemorySpanExporter() = default;

Task<ExportResult> InMemorySpanExporter::export_spans(SpanBatch batch,
                                                      std::shared_ptr<const Resource> resource) {
    const std::lock_guard lock(state_->mutex);
    std::move(batch.begin(), batch.end(), std::back_inserter(state_->spans));
    state_->resource = std::move(resource);
    co_return ExportResult();
}

Task<void> InMemorySpanExporter::shutdown() {
    const std::lock_guard lock(state_->mutex);
    state_->shut_down = true;
    co_return;
}

SpanBatch InMemorySpanExporter::spans() const {
    const std::lock_guard lock(state_->mutex);
    return state_->spans;
}

std::shared_ptr<const SpanData> InMemorySpanExporter::find(std::string_view name) const {
    const std::lock_guard lock(state_->mutex);
    const auto found = std::find_if(state_->spans.begin(), state_->spans.end(),
                                    [name](const auto& span) { return span->name == name; });
    return found == state_->spans.end() ? nullptr : *found;
}

std::shared_ptr<const Resource> InMemorySpanExporter::resource() const {
    const std::lock_guard lock(state_->mutex);
    return state_->resource;
}

void InMemorySpanExporter::clear() {
    const std::lock_guard lock(state_->mutex);
    state_->spans.clear();
}

bool InMemorySpanExporter::is_shut_down() const {
    const std::lock_guard lock(state_->mutex);
    return state_->shut_down;
}

struct InMemoryMetricExporter::State {
    mutable std::mutex mutex;
    std::shared_ptr<const MetricSnapshot> metrics;
    std::shared_ptr<const Resource> resource;
    std::size_t exports = 0;
    bool shut_down = false;
};

InMemoryMetricExporter::InMemoryMetricExporter() : state_(std::make_unique<State>()) {}
InMemoryMetricExporter::~InMemoryMetricExporter() = default;

Task<ExportResult> InMemoryMetricExporter::export_metrics(
    std::shared_ptr<const MetricSnapshot> metrics, std::shared_ptr<const Resource> resource) {
    const std::lock_guard lock(state_->mutex);
    state_->metrics = std::move(metrics);
    state_->resource = std::move(resource);
    ++state_->exports;
    co_return ExportResult();
}

Task<void> InMemoryMetricExporter::shutdown() {
    const std::lock_guard lock(state_->mutex);
    state_->shut_down = true;
    co_return;
}

std::shared_ptr<const MetricSnapshot> InMemoryMetricExporter::metrics() const {
    const std::lock_guard lock(state_->mutex);
    return state_->metrics;
}

std::shared_ptr<const Resource> InMemoryMetricExporter::resource() const {
    const std::lock_guard lock(state_->mutex);
    return state_->resource;
}

std::size_t InMemoryMetricExporter::exports() const {
    const std::lock_guard lock(state_->mutex);
    return state_->exports;
}

bool InMemoryMetricExporter::is_shut_down() const {
    const std::lock_guard lock(state_->mutex);
    return state_->shut_down;
}

}  // namespace cubepi
