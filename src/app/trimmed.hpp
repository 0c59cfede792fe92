#pragma once

#include <string_view>

namespace cubepi::app {

/// Returns `text` without the white space at its ends. Refers to `text`.
inline std::string_view trimmed(std::string_view text) noexcept {
    const std::size_t begin = text.find_first_not_of(" \t\r\n");
    if (begin == std::string_view::npos) return {};
    return text.substr(begin, text.find_last_not_of(" \t\r\n") + 1 - begin);
}

}  // namespace cubepi::app
