#pragma once

#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/core/notice.hpp>
#include <cubepi/tracing/meter.hpp>
#include <cubepi/tracing/otlp_exporter.hpp>
#include <cubepi/tracing/tracer.hpp>

// The standard environment variables of OpenTelemetry, as far as this library has what they configure:
// https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/ and
// https://opentelemetry.io/docs/specs/otel/protocol/exporter/. docs/guides/tracing/exporters.md lists them.

namespace cubepi {

/// Returns the value of an environment variable; nothing if it is not set.
using EnvironmentLookup = std::function<std::optional<std::string>(std::string_view name)>;

/// The destinations of traces or of metrics.
struct OtelSignal {
    bool otlp = false;     ///< if set, `options` are those of the exporter
    bool console = false;  ///< readable text, for development
    OTLPOptions options = {};

    bool exported() const noexcept { return otlp || console; }
};

/// The values of the variables. Variables that are empty count as not set. A value that is malformed or not supported never
/// fails: it is treated as not set, and a notice names the variable and the value that is used instead.
///
/// Differences from the specification: without `OTEL_TRACES_EXPORTER` or `OTEL_METRICS_EXPORTER`, OTLP is used only if one of its
/// endpoints is set, so that nothing is sent to this machine unasked; and an endpoint that is malformed turns OTLP off instead of
/// selecting the default one.
struct OtelEnvironment {
    bool disabled = false;                  ///< OTEL_SDK_DISABLED: the functions below do nothing
    Attributes resource_attributes = {};    ///< OTEL_RESOURCE_ATTRIBUTES and OTEL_SERVICE_NAME
    std::optional<Sampling> sampling = {};  ///< OTEL_TRACES_SAMPLER; not set: empty
    OtelSignal traces = {};
    OtelSignal metrics = {};
    ExportLimits limits = {};          ///< OTEL_BSP_*
    MetricReaderOptions reader = {};   ///< OTEL_METRIC_EXPORT_*
    std::vector<Notice> notices = {};  ///< code "otel_variable". Without headers and credentials
};

/// Reads the variables through `lookup`, which is not called later.
OtelEnvironment read_otel_environment(const EnvironmentLookup& lookup);

/// Reads the variables of the process. Not while another thread changes them (setenv).
OtelEnvironment process_otel_environment();

/// Creates the exporters of spans with their limits; none if the SDK is disabled. `console` must outlive them; a program whose
/// standard output has a meaning passes std::cerr.
std::vector<SpanSink::Output> span_outputs(const OtelEnvironment& environment,
                                           std::ostream& console);
std::vector<std::shared_ptr<MetricExporter>> metric_exporters(const OtelEnvironment& environment,
                                                              std::ostream& console);

/// Adds the exporters to those of `options` and the attributes to the resource, where names and attributes that are set in
/// `options` take precedence. A configured sampler replaces `options.sampling`.
void apply(const OtelEnvironment& environment, TracerOptions& options, std::ostream& console);
/// The same for a meter; the variables determine its reader.
void apply(const OtelEnvironment& environment, MeterOptions& options, std::ostream& console);

}  // namespace cubepi
