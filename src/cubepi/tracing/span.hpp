#pragma once

#include <array>
#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/core/shared_string.hpp>
#include <cubepi/tracing/attribute.hpp>

// Spans in the data model of OpenTelemetry (https://opentelemetry.io/docs/specs/otel/trace/api/), as exporters receive them.

namespace cubepi {

/// The schema of the attribute names, on resources and scopes.
inline constexpr std::string_view semantic_conventions_url =
    "https://opentelemetry.io/schemas/1.41.0";

/// Identifies a trace: 16 bytes, not all zero.
struct TraceId {
    std::array<std::uint8_t, 16> bytes = {};

    bool valid() const noexcept { return bytes != decltype(bytes){}; }
    /// Returns 32 lower-case hexadecimal digits.
    std::string hex() const;
    /// Returns a random id. Thread-safe; safe after fork().
    static TraceId random();
    friend auto operator<=>(const TraceId&, const TraceId&) = default;
};

/// Identifies a span of a trace: 8 bytes, not all zero.
struct SpanId {
    std::array<std::uint8_t, 8> bytes = {};

    bool valid() const noexcept { return bytes != decltype(bytes){}; }
    /// Returns 16 lower-case hexadecimal digits.
    std::string hex() const;
    static SpanId random();
    friend auto operator<=>(const SpanId&, const SpanId&) = default;
};

/// The identity of a span, also across processes.
struct SpanContext {
    TraceId trace_id = {};
    SpanId span_id = {};
    bool sampled = true;

    bool valid() const noexcept { return trace_id.valid() && span_id.valid(); }
    /// Returns the header `traceparent` of W3C Trace Context, version 00.
    std::string traceparent() const;
    /// Parses a `traceparent` (https://www.w3.org/TR/trace-context/#traceparent-header). Empty if it is invalid.
    static std::optional<SpanContext> parse(std::string_view traceparent);
};

enum class SpanKind : std::uint8_t { internal, server, client, producer, consumer };
enum class SpanStatus : std::uint8_t { unset, ok, error };

/// Something that happened during a span, for example an exception.
struct SpanEvent {
    SharedString name = {};
    std::chrono::system_clock::time_point time = {};
    Attributes attributes = {};
};

/// A reference to a span that is not the parent, for example the suspended run that a run continues.
struct SpanLink {
    SpanContext context = {};
    Attributes attributes = {};
};

/// A span that has ended. Immutable, shared by all exporters.
struct SpanData {
    SharedString name = {};
    SpanContext context = {};
    SpanId parent = {};  ///< not valid: none
    SpanKind kind = SpanKind::internal;
    std::chrono::system_clock::time_point start = {};
    std::chrono::system_clock::time_point end = {};
    SpanStatus status = SpanStatus::unset;
    std::string status_description = {};
    Attributes attributes = {};
    std::vector<SpanEvent> events = {};
    std::vector<SpanLink> links = {};

    /// Estimates the memory of the span in bytes, for the limits of queues.
    std::size_t memory() const noexcept;
};

/// The program that produced spans or metrics.
struct Resource {
    Attributes attributes = {};
    std::string schema_url = std::string(semantic_conventions_url);
};

}  // namespace cubepi
