#pragma once

#include <string>
#include <string_view>

namespace cubepi::detail {

/// Returns the text with its ASCII letters in lower case. Other bytes, also those of UTF-8, do not change.
inline std::string lower_case(std::string_view text) {
    std::string lower(text);
    for (char& c : lower) {
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    }
    return lower;
}

}  // namespace cubepi::detail
