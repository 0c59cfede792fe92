#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <cubepi/core/json.hpp>

namespace cubepi {

/// Maximum nesting of arrays and objects. Deeper text is rejected.
inline constexpr std::size_t max_json_depth = 512;

/// The limits for stored JSON, where a model's arguments are wrapped in messages, and those in entries and journals:
/// the limit for writing, and a slightly higher one for reading.
inline constexpr std::size_t max_stored_json_depth = max_json_depth + 32;
inline constexpr std::size_t max_read_json_depth = max_json_depth + 64;

/// Returns true if arrays and objects are nested more than `levels` deep.
bool is_nested_deeper(const Json& value, std::size_t levels) noexcept;
bool is_nested_deeper(const JsonObject& value, std::size_t levels) noexcept;

/// The reason why a text is not JSON.
struct JsonTextError {
    std::string reason;      ///< empty if the text is JSON
    std::size_t offset = 0;  ///< of the byte at which parsing stopped
    explicit operator bool() const noexcept { return !reason.empty(); }
};

/// Parses JSON (RFC 8259, strictly). Numbers become the nearest double, whereas boost::json::parse in Boost 1.81 reads
/// one fraction in ten with an error in the last place. Integers beyond 64 bits become doubles; numbers too large for a
/// double are rejected. Of duplicate keys the last one wins. On failure the result is null and `error` has the reason;
/// otherwise `error` is cleared.
Json parse_json(std::string_view text, JsonTextError& error,
                std::size_t max_depth = max_json_depth);

/// Parses JSON like the above, but throws Error (parse) that names the position.
Json parse_json(std::string_view text);

}  // namespace cubepi
