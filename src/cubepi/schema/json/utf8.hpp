#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace cubepi::detail {

struct Utf8Char {
    std::uint32_t code;  ///< U+FFFD if `valid` is false
    std::size_t length;  ///< its length in bytes, at least 1
    bool valid;
};

/// Decodes the character at `at` (which must be inside `text`). An invalid sequence is one byte long. Overlong forms,
/// surrogates and values above U+10FFFF are invalid.
inline Utf8Char utf8_char(std::string_view text, std::size_t at) {
    const auto byte = [&](std::size_t i) -> std::uint32_t {
        return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0U;
    };
    const auto continues = [&](std::size_t i) { return (byte(i) & 0xC0U) == 0x80U; };
    const std::uint32_t first = byte(0);
    constexpr Utf8Char bad{0xFFFD, 1, false};
    if (first < 0x80U) return {first, 1, true};
    if (first >= 0xC2U && first < 0xE0U) {
        if (!continues(1)) return bad;
        return {((first & 0x1FU) << 6U) | (byte(1) & 0x3FU), 2, true};
    }
    if (first >= 0xE0U && first < 0xF0U) {
        if (!continues(1) || !continues(2)) return bad;
        const auto code = ((first & 0x0FU) << 12U) | ((byte(1) & 0x3FU) << 6U) | (byte(2) & 0x3FU);
        if (code < 0x800U || (code >= 0xD800U && code < 0xE000U)) return bad;
        return {code, 3, true};
    }
    if (first >= 0xF0U && first < 0xF5U) {
        if (!continues(1) || !continues(2) || !continues(3)) return bad;
        const auto code = ((first & 0x07U) << 18U) | ((byte(1) & 0x3FU) << 12U) |
                          ((byte(2) & 0x3FU) << 6U) | (byte(3) & 0x3FU);
        if (code < 0x10000U || code > 0x10FFFFU) return bad;
        return {code, 4, true};
    }
    return bad;
}

/// Appends a character in UTF-8. `code` is at most U+10FFFF.
inline void append_utf8(std::string& out, std::uint32_t code) {
    if (code < 0x80U) {
        out += static_cast<char>(code);
    } else if (code < 0x800U) {
        out += static_cast<char>(0xC0U | code >> 6U);
        out += static_cast<char>(0x80U | (code & 0x3FU));
    } else if (code < 0x10000U) {
        out += static_cast<char>(0xE0U | code >> 12U);
        out += static_cast<char>(0x80U | (code >> 6U & 0x3FU));
        out += static_cast<char>(0x80U | (code & 0x3FU));
    } else {
        out += static_cast<char>(0xF0U | code >> 18U);
        out += static_cast<char>(0x80U | (code >> 12U & 0x3FU));
        out += static_cast<char>(0x80U | (code >> 6U & 0x3FU));
        out += static_cast<char>(0x80U | (code & 0x3FU));
    }
}

/// Returns the value of four hexadecimal digits at `at`, or -1 if there are none.
inline int hex4(std::string_view text, std::size_t at) {
    if (at + 4 > text.size()) return -1;
    int value = 0;
    for (std::size_t i = at; i < at + 4; ++i) {
        const char c = text[i];
        int digit = 0;
        if (c >= '0' && c <= '9') {
            digit = c - '0';
        } else if (c >= 'a' && c <= 'f') {
            digit = c - 'a' + 10;
        } else if (c >= 'A' && c <= 'F') {
            digit = c - 'A' + 10;
        } else {
            return -1;
        }
        value = value * 16 + digit;
    }
    return value;
}

inline bool is_high_surrogate(int code) { return code >= 0xD800 && code < 0xDC00; }
inline bool is_low_surrogate(int code) { return code >= 0xDC00 && code < 0xE000; }

}  // namespace cubepi::detail
