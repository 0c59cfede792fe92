#include <algorithm>
#include <cctype>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include <cubepi/net/retry.hpp>

// Apart from retry.cpp, because the classification of failures reads durations, and agents wait before a repeated call, without libcurl.

namespace cubepi {
namespace {

/// The seconds of a unit; 0: not one.
double seconds_of(std::string_view unit) {
    if (unit == "ms" || unit.starts_with("milli")) return 0.001;
    if (unit.empty() || unit == "s" || unit.starts_with("sec")) return 1;
    if (unit == "m" || unit.starts_with("min")) return 60;
    return unit == "h" || unit.starts_with("hour") ? 3600 : 0;
}

/// Removes the unit at the beginning of a text. Returns its seconds; 0 for another word.
double read_unit(std::string_view& text) {
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
    if (text.starts_with("more ")) text.remove_prefix(5);
    constexpr std::pair<std::string_view, double> chinese[] = {
        {"毫秒", 0.001}, {"秒", 1}, {"分", 60}, {"小时", 3600}};
    for (const auto& [unit, seconds] : chinese) {
        if (!text.starts_with(unit)) continue;
        text.remove_prefix(unit.size());
        return seconds;
    }
    std::size_t length = 0;
    while (length < text.size() && std::isalpha(static_cast<unsigned char>(text[length]))) ++length;
    const std::string_view unit = text.substr(0, length);
    text.remove_prefix(length);
    return seconds_of(unit);
}

}  // namespace

std::optional<double> read_duration(std::string_view& text) {
    std::optional<double> sum;
    while (!text.empty() && std::isdigit(static_cast<unsigned char>(text.front()))) {
        double number = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number,
                                                  std::chars_format::fixed);
        if (error != std::errc()) return std::nullopt;
        text.remove_prefix(static_cast<std::size_t>(end - text.data()));
        const double unit = read_unit(text);
        if (unit == 0) return sum;
        sum = sum.value_or(0) + number * unit;
        if (!std::isfinite(*sum)) return std::nullopt;
    }
    return sum;
}

std::chrono::milliseconds backoff_delay(const RetryPolicy& policy, int retries_done,
                                        double random) {
    std::chrono::milliseconds delay = policy.base_delay;
    for (int i = 0; i < retries_done && delay < policy.max_delay; ++i) delay *= 2;
    delay = std::min(delay, policy.max_delay);
    return std::chrono::milliseconds(
        static_cast<std::int64_t>(static_cast<double>(delay.count()) * (1.0 - 0.25 * random)));
}

}  // namespace cubepi
