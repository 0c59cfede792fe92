#pragma once

#include <string>

#include <cubepi/tracing/environment/variable_reader.hpp>

namespace cubepi::detail {

/// Reads the variables of traces or metrics: "OTEL_TRACES_EXPORTER" and "OTEL_EXPORTER_OTLP_*". `signal` is "TRACES" or "METRICS".
OtelSignal read_signal(VariableReader& reader, const std::string& signal);

}  // namespace cubepi::detail
