#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <cubepi/core/json.hpp>

// The text forms of values on tapes and in their names: JSON, dates and digests, as Bub's Python code writes them.

namespace bub::detail {

/// Appends JSON in one line, formatted like Python's json.dumps(ensure_ascii=False). Invalid UTF-8 becomes U+FFFD.
void append_json_text(std::string& out, const cubepi::Json& value);
void append_json_text(std::string& out, const cubepi::JsonObject& value);
void append_json_string(std::string& out, std::string_view text);

/// Returns the microseconds since 1970 of an ISO 8601 date or time; nothing if invalid. A time without a zone is UTC. A
/// date alone is the start of its day, or the last microsecond of it with `end_of_day`.
std::optional<std::int64_t> parse_date(std::string_view text, bool end_of_day = false);

/// Formats a time like "2026-03-01T12:00:00.250000+00:00"; a zero fraction is omitted, like in Python's isoformat.
std::string format_date(std::int64_t microseconds);

/// Initializes OpenSSL. OpenSSL 3.0 binds the required resources to the calling thread and loses them when that thread
/// ends; call this on a long-lived thread before workers connect to a server by TLS.
void prepare_tls();

}  // namespace bub::detail
