#pragma once

#include <cstdint>
#include <string>

namespace cubepi::detail {

/// Appends the JSON escape of a character by its code: \uXXXX, or two of them.
inline void append_unicode_escape(std::string& out, std::uint32_t code) {
    if (code >= 0x10000U) {
        append_unicode_escape(out, 0xD800U + ((code - 0x10000U) >> 10U));
        code = 0xDC00U + ((code - 0x10000U) & 0x3FFU);
    }
    out += "\\u";
    for (unsigned shift = 16; shift > 0;) {
        shift -= 4;
        out += "0123456789abcdef"[(code >> shift) & 15U];
    }
}

/// Appends the JSON escape of `c`: a quote, a backslash or a control character.
inline void append_json_escape(std::string& out, char c) {
    switch (c) {
        case '"': out += "\\\""; return;
        case '\\': out += "\\\\"; return;
        case '\b': out += "\\b"; return;
        case '\f': out += "\\f"; return;
        case '\n': out += "\\n"; return;
        case '\r': out += "\\r"; return;
        case '\t': out += "\\t"; return;
        default: append_unicode_escape(out, static_cast<unsigned char>(c));
    }
}

}  // namespace cubepi::detail
