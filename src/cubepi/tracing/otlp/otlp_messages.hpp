#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/core/http_transport.hpp>
#include <cubepi/net/utf8.hpp>
#include <cubepi/tracing/exporter.hpp>

// The messages of OTLP: requests, and what collectors answer. Numbers of fields and values of enums are those of opentelemetry-proto 1.x
// (https://github.com/open-telemetry/opentelemetry-proto/tree/main/opentelemetry/proto), the JSON mapping that of
// https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding.

namespace cubepi::detail {

using SpanRange = std::span<const std::shared_ptr<const SpanData>>;

/// The instrumentation scope of everything that this library records.
inline constexpr std::string_view scope_name = "cubepi.tracing";

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

/// Writes messages in the wire format of protobuf (https://protobuf.dev/programming-guides/encoding/). Fields with their default
/// value are written too: the caller omits them where that matters.
class ProtobufWriter {
public:
    explicit ProtobufWriter(std::string& out) : out_(out) {}

    void varint(std::uint32_t field, std::uint64_t value) {
        tag(field, 0);
        append_varint(value);
    }
    void fixed64(std::uint32_t field, std::uint64_t value) {
        tag(field, 1);
        append_fixed(value, 8);
    }
    void number(std::uint32_t field, double value) {
        fixed64(field, std::bit_cast<std::uint64_t>(value));
    }
    void fixed32(std::uint32_t field, std::uint32_t value) {
        tag(field, 5);
        append_fixed(value, 4);
    }
    void bytes(std::uint32_t field, std::string_view value) {
        tag(field, 2);
        append_varint(value.size());
        out_ += value;
    }
    /// Replaces invalid UTF-8, because receivers reject a message with it as a whole.
    void text(std::uint32_t field, std::string_view value);

    /// Writes a nested message: `content` writes its fields with this writer.
    template <class F>
    void message(std::uint32_t field, F content) {
        tag(field, 2);
        const std::size_t start = out_.size();
        out_.push_back('\0');
        content();
        set_length(start);
    }

    /// Writes packed fixed64 or double values: `bits` returns the bits of a value.
    template <class List, class F>
    void packed_fixed64(std::uint32_t field, const List& values, F bits) {
        tag(field, 2);
        append_varint(8 * values.size());
        for (const auto& value : values) append_fixed(bits(value), 8);
    }

private:
    void tag(std::uint32_t field, std::uint32_t wire_type) {
        append_varint((std::uint64_t{field} << 3U) | wire_type);
    }
    void append_varint(std::uint64_t value);
    void append_fixed(std::uint64_t value, int size) {
        for (int i = 0; i < size; ++i) out_.push_back(static_cast<char>(value >> (8 * i)));
    }
    /// Replaces the byte at `start` by the length of what follows it.
    void set_length(std::size_t start);

    std::string& out_;
};

/// Stores a varint of at most 10 bytes and returns its size.
inline std::size_t encode_varint(std::uint64_t value, std::array<char, 10>& to) {
    std::size_t size = 0;
    while (value >= 0x80) {
        to[size++] = static_cast<char>(value | 0x80U);
        value >>= 7U;
    }
    to[size++] = static_cast<char>(value);
    return size;
}

inline void ProtobufWriter::append_varint(std::uint64_t value) {
    std::array<char, 10> bytes{};
    out_.append(bytes.data(), encode_varint(value, bytes));
}

inline void ProtobufWriter::set_length(std::size_t start) {
    std::array<char, 10> bytes{};
    const std::size_t size = encode_varint(out_.size() - start - 1, bytes);
    // One byte is enough for most messages; otherwise the contents move.
    out_.replace(start, 1, bytes.data(), size);
}

inline void ProtobufWriter::text(std::uint32_t field, std::string_view value) {
    if (is_utf8(value)) {
        bytes(field, value);
    } else {
        bytes(field, replace_broken_utf8(value));
    }
}

}  // namespace cubepi::detail
