#include <cubepi/provider/wire/decoding.hpp>

#include <algorithm>
#include <utility>

namespace cubepi::detail {

namespace {

constexpr std::string_view replacement = "\xef\xbf\xbd";

unsigned hex_value(std::string_view digits) {
    unsigned value = 0;
    for (const char c : digits) {
        value *= 16;
        if (c >= '0' && c <= '9') value += static_cast<unsigned>(c - '0');
        if (c >= 'a' && c <= 'f') value += static_cast<unsigned>(c - 'a' + 10);
        if (c >= 'A' && c <= 'F') value += static_cast<unsigned>(c - 'A' + 10);
    }
    return value;
}

/// The escape that `text` begins with is a whole one, \u and four digits.
bool is_unicode_escape(std::string_view text) {
    return text.size() >= 6 && text.starts_with("\\u") &&
           text.substr(2, 4).find_first_not_of("0123456789abcdefABCDEF") == std::string_view::npos;
}

char escaped_char(char c) {
    switch (c) {
        case 'b': return '\b';
        case 'f': return '\f';
        case 'n': return '\n';
        case 'r': return '\r';
        case 't': return '\t';
        default: return c;
    }
}

void append_utf8(std::string& out, unsigned code) {
    const auto byte = [&out](unsigned value) {
        out.push_back(static_cast<char>(static_cast<unsigned char>(value)));
    };
    if (code < 0x80) {
        byte(code);
    } else if (code < 0x800) {
        byte(0xc0 | (code >> 6));
        byte(0x80 | (code & 0x3f));
    } else if (code < 0x10000) {
        byte(0xe0 | (code >> 12));
        byte(0x80 | ((code >> 6) & 0x3f));
        byte(0x80 | (code & 0x3f));
    } else {
        byte(0xf0 | (code >> 18));
        byte(0x80 | ((code >> 12) & 0x3f));
        byte(0x80 | ((code >> 6) & 0x3f));
        byte(0x80 | (code & 0x3f));
    }
}

}  // namespace

JsonObject unknown_members(const JsonObject& object,
                           std::initializer_list<std::string_view> known) {
    JsonObject unknown;
    for (const auto& [key, value] : object) {
        const std::string_view name = key;
        if (!value.is_null() && std::find(known.begin(), known.end(), name) == known.end())
            unknown[key] = value;
    }
    return unknown;
}

void throw_not_json(std::string_view data) {
    const std::string_view begin = data.substr(0, 100);
    throw Error(ErrorCode::protocol, "the endpoint sent something that is not JSON: " +
                                         std::string(begin.substr(0, complete_utf8_prefix(begin))));
}

void SplitText::unit(unsigned code) {
    const bool low = code >= 0xdc00 && code < 0xe000;
    if (high_ != 0) {
        const unsigned high = std::exchange(high_, 0u);
        if (low) {
            append_utf8(scratch, 0x10000 + ((high - 0xd800) << 10) + (code - 0xdc00));
            return;
        }
        scratch += replacement;
    }
    if (code >= 0xd800 && code < 0xdc00) {
        high_ = code;
    } else if (low) {
        scratch += replacement;
    } else {
        append_utf8(scratch, code);
    }
}

std::string_view SplitText::unescape(std::string_view token) {
    scratch.clear();
    const std::size_t begin = token.find('"') + 1;
    const std::size_t end = token.rfind('"');
    for (std::size_t i = begin; i < end; ++i) {
        // Not every parser looks at the digits: four other bytes may be half of a UTF-8 sequence.
        if (is_unicode_escape(token.substr(i, end - i))) {
            unit(hex_value(token.substr(i + 2, 4)));
            i += 5;
            continue;
        }
        if (high_ != 0) {
            high_ = 0;
            scratch += replacement;
        }
        if (token[i] == '\\' && i + 1 < end) {
            scratch.push_back(escaped_char(token[++i]));
        } else {
            scratch.push_back(token[i]);
        }
    }
    return scratch;
}

std::string_view SplitText::give_up() noexcept {
    high_ = 0;
    return replacement;
}

std::string_view piece_of(od::value& value, SplitText& split) {
    if (!is_json_string(value)) return {};
    const std::string_view token = value.raw_json_token();
    std::string_view plain;
    if (!split.holds_back() && value.get_string().get(plain) == simdjson::SUCCESS) return plain;
    return split.unescape(token);
}

}  // namespace cubepi::detail
