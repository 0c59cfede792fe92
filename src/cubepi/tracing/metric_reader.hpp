#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include <cubepi/core/clock.hpp>
#include <cubepi/core/notice.hpp>
#include <cubepi/tracing/exporter.hpp>
#include <cubepi/tracing/metric_registry.hpp>
#include <cubepi/tracing/span_sink.hpp>

namespace cubepi {

struct MetricReaderOptions {
    std::chrono::milliseconds interval{60000};
    std::chrono::milliseconds export_timeout{30000};
};

/// Exports the values of a registry periodically, on a thread of its own that starts with the reader, and a last time at the
/// shutdown. Nothing is exported before the first value. Any thread may call any member; for fork() and exporters that hang, the rules
/// of SpanSink hold.
class MetricReader {
public:
    /// `report` is called as that of a SpanSink; `clock`, if set, measures the interval and the time limit of an export.
    MetricReader(std::shared_ptr<const MetricRegistry> registry,
                 std::vector<std::shared_ptr<MetricExporter>> exporters,
                 std::shared_ptr<const Resource> resource, MetricReaderOptions options,
                 std::function<void(const Notice&)> report, std::shared_ptr<Clock> clock = nullptr);
    /// Calls shutdown() with a limit of 5 s.
    ~MetricReader();
    MetricReader(const MetricReader&) = delete;
    MetricReader& operator=(const MetricReader&) = delete;

    /// Exports the current values. Returns false if that was not done within `limit`. Blocks.
    bool force_flush(std::chrono::milliseconds limit);
    /// Exports the last values and ends the exporters, like SpanSink::shutdown(). Blocks.
    bool shutdown(std::chrono::milliseconds limit);
    /// Returns the counts of data points of each exporter, in their order; nothing is ever dropped.
    std::vector<ExportCounts> counts() const;

private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace cubepi
