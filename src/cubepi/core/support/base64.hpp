#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

namespace cubepi::detail {

/// Encodes bytes as base64, with padding.
inline std::string base64(std::string_view bytes) {
    constexpr std::string_view alphabet =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string out;
    out.reserve((bytes.size() + 2) / 3 * 4);
    for (std::size_t i = 0; i < bytes.size(); i += 3) {
        const std::size_t count = bytes.size() - i < 3 ? bytes.size() - i : 3;
        unsigned group = 0;
        for (std::size_t k = 0; k < 3; ++k) {
            group = group << 8 | (k < count ? static_cast<unsigned char>(bytes[i + k]) : 0u);
        }
        for (std::size_t k = 0; k < 4; ++k) {
            out += k <= count ? alphabet[group >> (18 - 6 * k) & 63] : '=';
        }
    }
    return out;
}

/// Returns true for the encoding of at least one byte, with padding. A picture of another party that is anything else may be a URL,
/// which the endpoint of a model would fetch.
inline bool is_base64(std::string_view text) {
    if (text.empty() || text.size() % 4 != 0) return false;
    const std::size_t end = std::min(text.find('='), text.size());
    const std::string_view digits = text.substr(0, end);
    const std::string_view padding = text.substr(end);
    const bool is_clean = std::all_of(digits.begin(), digits.end(), [](char c) {
        return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
               c == '+' || c == '/';
    });
    return is_clean && (padding.empty() || padding == "=" || padding == "==");
}

}  // namespace cubepi::detail
