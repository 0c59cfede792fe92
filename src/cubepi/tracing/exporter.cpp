#include <cubepi/tracing/exporter.hpp>

namespace cubepi {

Task<void> SpanExporter::shutdown() { co_return; }

Task<void> MetricExporter::shutdown() { co_return; }

}  // namespace cubepi
