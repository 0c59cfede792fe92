#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <cubepi/core/json.hpp>

namespace cubepi {

/// Arrays and objects within each other, at most. Deeper text is refused.
inline constexpr std::size_t max_json_depth = 512;

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
Json parse_json(std::string_view text, JsonTextError& error);

/// The same. Throws Error (parse) that names the place.
Json parse_json(std::string_view text);

}  // namespace cubepi
