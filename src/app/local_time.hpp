#pragma once

#include <string>
#include <string_view>

namespace cubepi::app {

/// "2026-03-01 14:30:05 +0100": a time in the local time zone with its offset from UTC; "-" if it is unknown (not positive).
std::string local_time(double unix_seconds);

/// The same for an ISO 8601 time, without zone UTC. Text that is not a time is returned as it is.
std::string local_time(std::string_view iso_time);

/// Converts the value of `option` to ISO 8601 in UTC. A time without zone is local; a date alone is the start of the
/// local day, or with `end_of_day` its end. Empty text stays empty. Throws Error(invalid_argument).
std::string utc_time(const std::string& option, const std::string& text, bool end_of_day);

}  // namespace cubepi::app
