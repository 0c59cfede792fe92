#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/tracing/exporter.hpp>

namespace cubepi {

/// Keeps all spans in memory, for tests of programs that use this library. Thread-safe.
///
///     auto spans = std::make_shared<InMemorySpanExporter>();
///     ...                              // run an agent with a Tracer that exports to it, then tracer.force_flush()
///     EXPECT_EQ(spans->find("invoke_agent")->status, SpanStatus::unset);
class InMemorySpanExporter final : public SpanExporter {
public:
    InMemorySpanExporter();
    ~InMemorySpanExporter() override;
    Task<ExportResult> export_spans(SpanBatch batch,
                                    std::shared_ptr<const Resource> resource) override;
    Task<void> shutdown() override;
    std::string name() const override { return "memory"; }

    /// Returns all spans in the order in which they ended.
    SpanBatch spans() const;
    /// Returns the first span with that name; null if there is none.
    std::shared_ptr<const SpanData> find(std::string_view name) const;
    /// Returns the resource of the last export; null before it.
    std::shared_ptr<const Resource> resource() const;
    void clear();
    bool is_shut_down() const;

private:
    struct State;
    std::unique_ptr<State> state_;
};

/// Keeps the last metrics in memory. Thread-safe.
class InMemoryMetricExporter final : public MetricExporter {
public:
    InMemoryMetricExporter();
    ~InMemoryMetricExporter() override;
    Task<ExportResult> export_metrics(std::shared_ptr<const MetricSnapshot> metrics,
                                      std::shared_ptr<const Resource> resource) override;
    Task<void> shutdown() override;
    std::string name() const override { return "memory"; }

    /// Returns the metrics of the last export; null before it.
    std::shared_ptr<const MetricSnapshot> metrics() const;
    std::shared_ptr<const Resource> resource() const;
    /// Returns the number of exports.
    std::size_t exports() const;
    bool is_shut_down() const;

private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace cubepi
