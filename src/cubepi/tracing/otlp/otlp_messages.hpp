#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/core/http_transport.hpp>
#include <cubepi/tracing/exporter.hpp>

// The messages of OTLP: requests, and what collectors answer. Numbers of fields and values of enums are those of opentelemetry-proto 1.x
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

/// Compresses a request to the gzip format (RFC 1952). Throws std::bad_alloc.
std::string gzip(std::string_view bytes);

/// The part of a request that a collector did not accept, although it answered with 200.
struct PartialSuccess {
    std::uint64_t rejected = 0;
    std::string message = {};
};

/// Reads an ExportTraceServiceResponse or ExportMetricsServiceResponse, in JSON if the content type says so. A body that is neither
/// counts as complete success: some collectors answer with an empty object or a word.
PartialSuccess read_partial_success(std::string_view body, std::string_view content_type);

/// Returns the description in the body of an error response: a google.rpc.Status, JSON with a "message", or plain text. Empty if
/// there is none.
std::string read_error_message(std::string_view body, std::string_view content_type);

/// Returns true if the body is an HTML page, as proxies and login pages return.
bool is_html(std::string_view body, std::string_view content_type);

/// Returns a text of a server as one short line of valid UTF-8 in which the values of the headers are replaced by "***".
std::string safe_server_text(std::string text, const std::vector<HttpHeader>& headers);

}  // namespace cubepi::detail
