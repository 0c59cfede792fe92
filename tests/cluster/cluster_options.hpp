#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <map>
#include <string>
#include <string_view>
#include <vector>

// The environment of the judge.

namespace cubepi::cluster_tests {

/// CUBEPI_CLUSTER_SEED: another sequence of faults.
inline std::uint32_t seed() {
    const char* const other = std::getenv("CUBEPI_CLUSTER_SEED");
    return other ? static_cast<std::uint32_t>(std::strtoul(other, nullptr, 10)) : 20261128U;
}

inline bool is_set(const char* name) {
    const char* const value = std::getenv(name);
    return value && std::string_view(value) == "1";
}

/// Returns the number in a variable of the environment, at least 1, or another one without it.
inline std::size_t number_or(const char* name, std::size_t other) {
    const char* const value = std::getenv(name);
    return value ? std::max(std::strtoul(value, nullptr, 10), 1UL) : other;
}

/// The number of messages, unless ALL=1.
inline std::size_t messages_or_all(std::size_t count) {
    return is_set("ALL") ? number_or("CUBEPI_CLUSTER_MESSAGES", 10'000) : count;
}

/// Returns true after the time CUBEPI_CLUSTER_END, in seconds since 1970: no further message is posted then.
inline bool is_time_over() {
    const char* const end = std::getenv("CUBEPI_CLUSTER_END");
    if (!end) return false;
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    return now >= std::chrono::seconds(std::strtoll(end, nullptr, 10));
}

inline std::string lines_of(const std::vector<std::string>& list) {
    std::string text;
    for (const std::string& line : list) text += line + "\n";
    return text;
}

/// Prints how many there are of each kind, their middle one, the 99th of 100, and the longest.
inline void print_delays(const std::map<std::string, std::vector<double>>& all) {
    for (const auto& [description, unsorted] : all) {
        std::vector<double> delays = unsorted;
        std::sort(delays.begin(), delays.end());
        const auto quantile = [&delays](std::size_t percent) {
            return delays[(delays.size() * percent + 99) / 100 - 1];
        };
        std::cout << delays.size() << " times " << description << ": p50 " << quantile(50)
                  << " s, p99 " << quantile(99) << " s, longest " << delays.back() << " s\n";
    }
}

}  // namespace cubepi::cluster_tests
