#pragma once

#include <iosfwd>
#include <string>

#include <cubepi/tracing/exporter.hpp>

namespace cubepi {

/// Writes one readable line for each span, for development:
///
///     12:30:05.101  chat claude-sonnet-4-5  1.234 s  ok  gen_ai.usage.input_tokens=38  trace=9423... span=8ab8... parent=81b3...
///
/// The time is UTC. Control characters are replaced with spaces, and texts longer than 60 bytes are cut.
class ConsoleSpanExporter final : public SpanExporter {
public:
    /// Writes to `out`, which must outlive the exporter and is used on the export thread.
    explicit ConsoleSpanExporter(std::ostream& out);

    Task<ExportResult> export_spans(SpanBatch batch,
                                    std::shared_ptr<const Resource> resource) override;
    std::string name() const override { return "console"; }

private:
    std::ostream& out_;
};

/// Writes all metrics in the text format of Prometheus at each export, for development.
class ConsoleMetricExporter final : public MetricExporter {
public:
    /// As ConsoleSpanExporter().
    explicit ConsoleMetricExporter(std::ostream& out);

    Task<ExportResult> export_metrics(std::shared_ptr<const MetricSnapshot> metrics,
                                      std::shared_ptr<const Resource> resource) override;
    std::string name() const override { return "console"; }

private:
    std::ostream& out_;
};

}  // namespace cubepi
