#include "local_time.hpp"

#include <array>
#include <cmath>
#include <cstdint>
#include <ctime>
#include <optional>

#include <bub/tape/search/dates.hpp>
#include <cubepi/core/error.hpp>

namespace cubepi::app {

namespace {

constexpr std::int64_t second = 1'000'000;

bool has_zone(std::string_view iso_time) {
    const std::size_t time = iso_time.find_first_of("Tt ");
    return time != std::string_view::npos &&
           iso_time.find_first_of("Zz+-", time + 1) != std::string_view::npos;
}

/// The time at which a local clock shows the same as a UTC clock at `microseconds`.
std::int64_t from_local(std::int64_t microseconds) {
    std::int64_t seconds = microseconds / second;
    std::int64_t rest = microseconds % second;
    if (rest < 0) {
        rest += second;
        --seconds;
    }
    const auto shown = static_cast<std::time_t>(seconds);
    std::tm parts = {};
    if (!gmtime_r(&shown, &parts)) return microseconds;
    parts.tm_isdst = -1;
    return static_cast<std::int64_t>(std::mktime(&parts)) * second + rest;
}

}  // namespace

std::string local_time(double unix_seconds) {
    const auto seconds = static_cast<std::time_t>(std::floor(unix_seconds));
    std::tm local = {};
    if (unix_seconds <= 0 || !localtime_r(&seconds, &local)) return "-";
    std::array<char, 48> text = {};
    const std::size_t size =
        std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S %z", &local);
    return std::string(text.data(), size);
}

std::string local_time(std::string_view iso_time) {
    const std::optional<std::int64_t> time = bub::detail::parse_date(iso_time);
    if (!time) return std::string(iso_time);
    return local_time(static_cast<double>(*time) / static_cast<double>(second));
}

std::string utc_time(const std::string& option, const std::string& text, bool end_of_day) {
    if (text.empty()) return text;
    const std::optional<std::int64_t> time = bub::detail::parse_date(text, end_of_day);
    if (!time) {
        throw Error(ErrorCode::invalid_argument,
                    option + ": '" + text +
                        "' is not a date or time; expected 2026-03-01, 2026-03-01T14:30 or "
                        "2026-03-01T14:30+01:00");
    }
    return bub::detail::format_date(has_zone(text) ? *time : from_local(*time));
}

}  // namespace cubepi::app
