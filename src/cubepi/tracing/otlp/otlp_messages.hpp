#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <cubepi/tracing/exporter.hpp>

// The request messages of OTLP. Numbers of fields and values of enums are those of opentelemetry-proto 1.x
// (https://github.com/open-telemetry/opentelemetry-proto/tree/main/opentelemetry/proto), the JSON mapping that of
// https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding.

namespace cubepi::detail {

using SpanRange = std::span<const std::shared_ptr<const SpanData>>;

/// The instrumentation scope of everything that this library records.
inline constexpr std::string_view scope_name = "cubepi.tracing";
std::string_view scope_version() noexcept;

/// Returns an ExportTraceServiceRequest.
std::string traces_protobuf(SpanRange spans, const Resource& resource);
std::string traces_json(SpanRange spans, const Resource& resource);

/// Returns an ExportMetricsServiceRequest.
std::string metrics_protobuf(const MetricSnapshot& metrics, const Resource& resource);
std::string metrics_json(const MetricSnapshot& metrics, const Resource& resource);

/// The values of Span.SpanKind and Status.StatusCode.
std::uint32_t otlp_kind(SpanKind kind) noexcept;
std::uint32_t otlp_status(SpanStatus status) noexcept;
/// Nanoseconds since 1970; zero for earlier times.
std::uint64_t unix_nanoseconds(std::chrono::system_clock::time_point time) noexcept;

/// AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE.
inline constexpr std::uint32_t otlp_cumulative = 2;

}  // namespace cubepi::detail
