#pragma once

#include <string>

namespace cubepi::detail {

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
        default: break;
    }
    constexpr char digits[] = "0123456789abcdef";
    const auto byte = static_cast<unsigned char>(c);
    out += "\\u00";
    out += digits[byte >> 4U];
    out += digits[byte & 15U];
}

}  // namespace cubepi::detail
