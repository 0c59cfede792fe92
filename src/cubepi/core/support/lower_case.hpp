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

/// Returns the ASCII letters and digits of the text, in lower case: words of servers are written in several ways.
inline std::string letters_of(std::string_view text) {
    std::string letters;
    for (const char c : lower_case(text)) {
        if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) letters += c;
    }
    return letters;
}

}  // namespace cubepi::detail
