#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include <cubepi/tracing/span.hpp>

// The files of traces: their lines, and their directories.

namespace cubepi::detail {

/// Appends a span as one line of CubePi's trace files: the keys, their order and the spaces are those of the JSON that the Python SDK
/// of OpenTelemetry writes (ReadableSpan.to_json). `resource` is the text of resource_json().
void append_span_line(std::string& out, const SpanData& span, const std::string& resource);

std::string resource_json(const Resource& resource);

/// Appends the attributes as a JSON object.
void append_attributes(std::string& out, const Attributes& attributes);

/// Appends a JSON string with quotes. Text outside ASCII is not escaped; invalid UTF-8 becomes U+FFFD.
void append_json_string(std::string& out, std::string_view text);

/// Appends a number that reads back as the same double, with a decimal point or an exponent; "NaN", "Infinity" and "-Infinity"
/// as strings, because JSON has no such numbers.
void append_json_double(std::string& out, double value);

void append_integer(std::string& out, std::int64_t value);

/// Appends "2026-11-21T23:28:50.155353Z". A time outside of the years 1970 to 9999 becomes the nearest one within.
void append_iso_time(std::string& out, std::chrono::system_clock::time_point time);

/// Creates a directory and those above it, readable only by their owner. A failure shows when a file in it is opened.
void make_private_directories(const std::filesystem::path& path);

}  // namespace cubepi::detail
