#include "safe_json.hpp"

#include <cstdint>
#include <cstdio>

#include <boost/json/serialize.hpp>

#include <cubepi/net/utf8.hpp>

#include "terminal_text.hpp"
#include "text_width.hpp"

namespace cubepi::app {

namespace {

void add_unit(std::string& out, std::uint32_t unit) {
    char escape[8];
    (void)std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned>(unit));
    out += escape;
}

void add_escaped(std::string& out, char32_t code) {
    if (code < 0x10000) return add_unit(out, code);
    add_unit(out, 0xD800 + ((code - 0x10000) >> 10));
    add_unit(out, 0xDC00 + ((code - 0x10000) & 0x3FF));
}

}  // namespace

std::string safe_json(const Json& value) {
    std::string text = boost::json::serialize(value);
    if (!is_utf8(text)) text = replace_broken_utf8(text);
    std::string out;
    out.reserve(text.size());
    // Escaped characters occur only in strings: all other parts of JSON are ASCII.
    for (std::string_view rest = text; !rest.empty();) {
        const std::string_view character = first_code_point(rest);
        const char32_t code = code_point(character);
        if (code == 0x7F || is_deceptive(code)) {
            add_escaped(out, code);
        } else {
            out += character;
        }
        rest.remove_prefix(character.size());
    }
    return out;
}

}  // namespace cubepi::app
