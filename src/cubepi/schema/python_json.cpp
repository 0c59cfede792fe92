#include <cubepi/schema/python_json.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>

#include <cubepi/core/error.hpp>
#include <cubepi/schema/json/json_escape.hpp>
#include <cubepi/schema/json/utf8.hpp>
#include <cubepi/schema/parse_json.hpp>

namespace cubepi {
namespace {

constexpr char hex_digits[] = "0123456789abcdef";

// True for characters that need no escape in a Python JSON string.
constexpr auto plain_characters = [] {
    std::array<bool, 256> plain{};
    for (std::size_t c = 0x20; c < 0x7F; ++c) plain[c] = c != '"' && c != '\\';
    return plain;
}();

void append_unit(std::string& out, std::uint32_t unit) {
    const char text[6] = {'\\',
                          'u',
                          hex_digits[(unit >> 12U) & 15U],
                          hex_digits[(unit >> 8U) & 15U],
                          hex_digits[(unit >> 4U) & 15U],
                          hex_digits[unit & 15U]};
    out.append(text, sizeof text);
}

void append_escaped(std::string& out, std::uint32_t code) {
    if (code < 0x80U) {
        detail::append_json_escape(out, static_cast<char>(code));
    } else if (code < 0x10000U) {
        append_unit(out, code);
    } else {
        append_unit(out, 0xD800U + ((code - 0x10000U) >> 10U));
        append_unit(out, 0xDC00U + ((code - 0x10000U) & 0x3FFU));
    }
}

template <class Integer>
void append_integer(std::string& out, Integer value) {
    char buffer[24];
    const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
    out.append(buffer, end);
}

// A converter of Python's extensions of JSON to JSON.
class LenientRewriter {
public:
    explicit LenientRewriter(std::string_view text) : text_(text) { out_.reserve(text.size()); }

    std::string rewrite() {
        while (at_ < text_.size()) {
            const char c = text_[at_];
            if (c == '"') {
                rewrite_string();
            } else if (take("NaN") || take("Infinity") || take("-Infinity")) {
                out_ += "null";
            } else if (c == '-' || (c >= '0' && c <= '9')) {
                rewrite_number();
            } else {
                out_ += c;
                ++at_;
            }
        }
        return std::move(out_);
    }

private:
    bool take(std::string_view word) {
        if (text_.substr(at_, word.size()) != word) return false;
        at_ += word.size();
        return true;
    }

    void rewrite_number() {
        const auto end = text_.find_first_not_of("+-.0123456789eE", at_);
        const auto token = text_.substr(at_, end - at_);
        at_ += token.size();
        const double value = std::strtod(std::string(token).c_str(), nullptr);
        if (std::isfinite(value)) {
            out_ += token;
        } else {
            out_ += "null";
        }
    }

    void rewrite_string() {
        out_ += text_[at_++];
        while (at_ < text_.size()) {
            const char c = text_[at_];
            if (c == '\\') {
                rewrite_escape();
                continue;
            }
            if (static_cast<unsigned char>(c) >= 0x80U) {
                const auto character = detail::utf8_char(text_, at_);
                out_ += character.valid ? text_.substr(at_, character.length) : "\\ufffd";
                at_ += character.length;
                continue;
            }
            out_ += c;
            ++at_;
            if (c == '"') return;
        }
    }

    void rewrite_escape() {
        const bool unicode = at_ + 1 < text_.size() && text_[at_ + 1] == 'u';
        const int code = unicode ? detail::hex4(text_, at_ + 2) : -1;
        if (detail::is_high_surrogate(code) && text_.substr(at_ + 6, 2) == "\\u" &&
            detail::is_low_surrogate(detail::hex4(text_, at_ + 8))) {
            out_ += text_.substr(at_, 12);
            at_ += 12;
        } else if (detail::is_high_surrogate(code) || detail::is_low_surrogate(code)) {
            out_ += "\\ufffd";
            at_ += 6;
        } else {
            out_ += text_.substr(at_, 2);
            at_ += std::min<std::size_t>(2, text_.size() - at_);
        }
    }

    std::string_view text_;
    std::size_t at_ = 0;
    std::string out_;
};

}  // namespace

void append_python_string(std::string& out, std::string_view text) {
    out += '"';
    std::size_t at = 0;
    while (at < text.size()) {
        std::size_t end = at;
        while (end < text.size() && plain_characters[static_cast<unsigned char>(text[end])]) ++end;
        out.append(text.data() + at, end - at);
        if (end == text.size()) break;
        const auto character = detail::utf8_char(text, end);
        append_escaped(out, character.code);
        at = end + character.length;
    }
    out += '"';
}

void append_python_number(std::string& out, double number) {
    if (std::isnan(number)) {
        out += "NaN";
        return;
    }
    if (std::isinf(number)) {
        out += number < 0 ? "-Infinity" : "Infinity";
        return;
    }
    // The shortest digits that read back as the same number; Python chooses the notation by the exponent.
    char buffer[40];
    const auto end =
        std::to_chars(buffer, buffer + sizeof buffer, number, std::chars_format::scientific).ptr;
    const std::string_view scientific(buffer, static_cast<std::size_t>(end - buffer));
    const auto e = scientific.find('e');
    const int exponent = std::atoi(std::string(scientific.substr(e + 1)).c_str());
    if (exponent >= -4 && exponent < 16) {
        char fixed[48];
        const auto fixed_end =
            std::to_chars(fixed, fixed + sizeof fixed, number, std::chars_format::fixed).ptr;
        const std::string_view text(fixed, static_cast<std::size_t>(fixed_end - fixed));
        out += text;
        if (text.find('.') == std::string_view::npos) out += ".0";
        return;
    }
    out += scientific;
}

void append_python_json(std::string& out, const Json& value) {
    switch (value.kind()) {
        case boost::json::kind::null: out += "null"; return;
        case boost::json::kind::bool_: out += value.get_bool() ? "true" : "false"; return;
        case boost::json::kind::int64: append_integer(out, value.get_int64()); return;
        case boost::json::kind::uint64: append_integer(out, value.get_uint64()); return;
        case boost::json::kind::double_: append_python_number(out, value.get_double()); return;
        case boost::json::kind::string:
            append_python_string(
                out, std::string_view(value.get_string().data(), value.get_string().size()));
            return;
        case boost::json::kind::array: append_python_json(out, value.get_array()); return;
        case boost::json::kind::object: append_python_json(out, value.get_object()); return;
    }
}

void append_python_json(std::string& out, const JsonObject& value) {
    out += '{';
    bool first = true;
    for (const auto& member : value) {
        if (!first) out += ", ";
        first = false;
        append_python_string(out, std::string_view(member.key().data(), member.key().size()));
        out += ": ";
        append_python_json(out, member.value());
    }
    out += '}';
}

void append_python_json(std::string& out, const JsonArray& value) {
    out += '[';
    bool first = true;
    for (const auto& item : value) {
        if (!first) out += ", ";
        first = false;
        append_python_json(out, item);
    }
    out += ']';
}

std::string to_python_json(const Json& value) {
    std::string out;
    append_python_json(out, value);
    return out;
}

std::string to_python_json(const JsonObject& value) {
    std::string out;
    out.reserve(256);
    append_python_json(out, value);
    return out;
}

Json parse_lenient(std::string_view text) {
    JsonTextError error;
    Json value = parse_json(text, error, max_read_json_depth);
    if (!error) return value;
    JsonTextError second_error;
    value = parse_json(LenientRewriter(text).rewrite(), second_error, max_read_json_depth);
    if (!second_error) return value;
    throw Error(ErrorCode::parse, "not JSON: " + error.reason + " at byte " +
                                      std::to_string(error.offset) + " of " +
                                      std::to_string(text.size()));
}

}  // namespace cubepi
