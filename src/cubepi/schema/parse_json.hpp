#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <cubepi/core/json.hpp>

namespace cubepi {

/// Arrays and objects within each other, at most. Deeper text is refused.
inline constexpr std::size_t max_json_depth = 512;

/// The same for what a store keeps, where a model's arguments are wrapped in messages, and those in entries and journals: what
/// is stored may be nested so deep, and what is read again a little deeper.
inline constexpr std::size_t max_stored_json_depth = max_json_depth + 32;
inline constexpr std::size_t max_read_json_depth = max_json_depth + 64;

/// Whether it has more than `levels` arrays and objects within each other.
bool is_nested_deeper(const Json& value, std::size_t levels) noexcept;
bool is_nested_deeper(const JsonObject& value, std::size_t levels) noexcept;

/// Why a text is not JSON.
struct JsonTextError {
    std::string reason;      ///< empty when the text is JSON
    std::size_t offset = 0;  ///< of the byte at which reading stopped
    explicit operator bool() const noexcept { return !reason.empty(); }
};

/// Parses JSON (RFC 8259, strictly). Unlike boost::json::parse, which in Boost 1.81 reads one fraction in
/// ten with an error in the last place, numbers become the nearest double. Integers beyond 64 bits become
/// doubles; numbers beyond a double are refused. Of duplicate keys the last wins.
/// On failure the result is null and `error` says why; otherwise `error` is cleared.
Json parse_json(std::string_view text, JsonTextError& error,
                std::size_t max_depth = max_json_depth);

/// The same. Throws Error (parse) that names the place.
Json parse_json(std::string_view text);

}  // namespace cubepi
