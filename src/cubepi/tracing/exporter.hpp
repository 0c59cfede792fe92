#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include <cubepi/core/task.hpp>
#include <cubepi/tracing/metric_data.hpp>
#include <cubepi/tracing/span.hpp>

// The interfaces of exporters. Exporters run on the export thread of a Tracer or Meter, never on the path of a run (D26).

namespace cubepi {

/// The outcome of an export. A failed batch is not exported again: an exporter retries by itself.
struct ExportResult {
    std::size_t rejected = 0;  ///< spans or data points that were not accepted
    std::string error = {};    ///< why; if nothing was rejected, a warning. Contains no secret

    bool ok() const noexcept { return rejected == 0 && error.empty(); }
};

using SpanBatch = std::vector<std::shared_ptr<const SpanData>>;

/// A destination for spans. export_spans() and shutdown() are called on an export thread, one call at a time; other exporters
/// share the thread, so a blocking call goes through offload() (core/offload.hpp). An exception of a member counts as a failed
/// export. Work in progress is cancelled when the time limit of an export or of a shutdown expires.
class SpanExporter {
public:
    virtual ~SpanExporter() = default;
    /// Exports spans that have ended, children before their parents.
    virtual Task<ExportResult> export_spans(SpanBatch batch,
                                            std::shared_ptr<const Resource> resource) = 0;
    /// Called once, after the last export.
    virtual Task<void> shutdown();
    /// Returns a name for messages: "otlp", "jsonl".
    virtual std::string name() const = 0;
    /// Returns why the current export is being repeated; empty if it is not. For the report of an export that is cut off by the
    /// end of the program. Thread-safe. Contains no secret.
    virtual std::string retry_reason() const { return {}; }
};

/// A destination for metrics; called like a SpanExporter.
class MetricExporter {
public:
    virtual ~MetricExporter() = default;
    /// Exports the current values of all instruments (cumulative temporality).
    virtual Task<ExportResult> export_metrics(std::shared_ptr<const MetricSnapshot> metrics,
                                              std::shared_ptr<const Resource> resource) = 0;
    virtual Task<void> shutdown();
    virtual std::string name() const = 0;
    /// As SpanExporter::retry_reason().
    virtual std::string retry_reason() const { return {}; }
};

}  // namespace cubepi
