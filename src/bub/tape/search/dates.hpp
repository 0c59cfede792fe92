#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace bub::detail {

/// Returns the microseconds since 1970 of an ISO 8601 date or time; nothing if invalid. A time without a zone is UTC. A
/// date alone is the start of its day, or the last microsecond of it with `end_of_day`.
std::optional<std::int64_t> parse_date(std::string_view text, bool end_of_day = false);

/// Formats a time like "2026-03-01T12:00:00.250000+00:00"; a zero fraction is omitted, like in Python's isoformat.
std::string format_date(std::int64_t microseconds);

}  // namespace bub::detail
