#pragma once

#include <cstddef>
#include <string_view>

namespace cubepi::detail {

/// Returns `text` without the leading and trailing characters that are in `blanks`.
constexpr std::string_view trimmed(std::string_view text,
                                   std::string_view blanks = " \t\r\n") noexcept {
    const std::size_t first = text.find_first_not_of(blanks);
    if (first == std::string_view::npos) return {};
    return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

}  // namespace cubepi::detail
