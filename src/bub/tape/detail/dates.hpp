#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace bub::detail {

/// Microseconds since 1970 of an ISO 8601 date or time; nothing when it is none. A time without zone is UTC. A date
/// alone is the start of its day, or the last microsecond of it with `end_of_day`.
std::optional<std::int64_t> parse_date(std::string_view text, bool end_of_day = false);

/// "2026-03-01T12:00:00.250000+00:00"; without fraction when there is none, as Python's isoformat writes it.
std::string format_date(std::int64_t microseconds);

}  // namespace bub::detail
