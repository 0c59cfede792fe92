#include <cubepi/provider/wire/json_text.hpp>

#include <utility>

#include <cubepi/core/support/json_member.hpp>

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

}  // namespace

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

void collect_content_part(const Json& part, std::string& text, std::string& thinking) {
    if (part.is_string()) {
        text += std::string_view(part.get_string());
        return;
    }
    if (!part.is_object()) return;
    const JsonObject& object = part.get_object();
    if (string_member(object, "type") != "thinking") {
        text += string_member(object, "text");
        return;
    }
    thinking += string_member(object, "thinking");
    const Json* inner = object.if_contains("thinking");
    if (!inner || !inner->is_array()) return;
    for (const Json& piece : inner->get_array()) {
        if (piece.is_object()) thinking += string_member(piece.get_object(), "text");
    }
}

std::string thinking_details_text(const JsonArray& details) {
    std::string text;
    for (const Json& item : details) {
        if (!item.is_object()) continue;
        text += string_member(item.get_object(), "text");
        text += string_member(item.get_object(), "summary");
    }
    return text;
}

void append_thinking_detail(JsonArray& details, const JsonObject& piece) {
    if (!details.empty()) {
        JsonObject& last = details.back().get_object();
        const Json* index = piece.if_contains("index");
        const Json* last_index = last.if_contains("index");
        const bool same = index && last_index && *index == *last_index &&
                          string_member(last, "type") == string_member(piece, "type");
        if (same) {
            for (const auto& [key, value] : piece) {
                const bool grows = key == "text" || key == "summary" || key == "data";
                Json& old = last[key];
                if (grows && old.is_string() && value.is_string()) {
                    old.get_string().append(value.get_string());
                } else if (!value.is_null()) {
                    old = value;
                }
            }
            return;
        }
    }
    details.push_back(piece);
}

}  // namespace cubepi::detail
