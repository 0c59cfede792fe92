#include <cubepi/provider/wire/decoding.hpp>

#include <algorithm>
#include <utility>

#include <cubepi/schema/json/utf8.hpp>

namespace cubepi::detail {

namespace {

constexpr std::string_view replacement = "\xef\xbf\xbd";

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
        const std::string_view rest = token.substr(i, end - i);
        const int code = rest.starts_with("\\u") ? hex4(rest, 2) : -1;
        if (code >= 0) {
            unit(static_cast<unsigned>(code));
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
