#pragma once

#include <string>

#include <cubepi/tracing/span.hpp>

namespace cubepi::detail {

/// Appends a span as one line of CubePi's trace files: the keys, their order and the spaces are those of the JSON that the Python SDK
/// of OpenTelemetry writes (ReadableSpan.to_json). `resource` is the text of resource_json().
void append_span_line(std::string& out, const SpanData& span, const std::string& resource);

std::string resource_json(const Resource& resource);

/// Appends the attributes as a JSON object.
void append_attributes(std::string& out, const Attributes& attributes);

}  // namespace cubepi::detail
