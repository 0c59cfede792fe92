#include <cubepi/schema/python_json.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>

#include <cubepi/core/error.hpp>
#include <cubepi/schema/json/utf8.hpp>
#include <cubepi/schema/json/write_json.hpp>
#include <cubepi/schema/parse_json.hpp>

namespace cubepi {
namespace {

// True for characters that need no escape in a Python JSON string.
constexpr auto plain_characters = [] {
    std::array<bool, 256> plain{};
    for (std::size_t c = 0x20; c < 0x7F; ++c) plain[c] = c != '"' && c != '\\';
    return plain;
}();

struct PythonJson {
    static constexpr std::string_view comma = ", ";
    static constexpr std::string_view colon = ": ";
    static void string(std::string& out, std::string_view text) { append_python_string(out, text); }
    static void number(std::string& out, double number) { append_python_number(out, number); }
};

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
        if (character.code < 0x80U) {
            detail::append_json_escape(out, static_cast<char>(character.code));
        } else {
            detail::append_unicode_escape(out, character.code);
        }
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
    detail::write_json<PythonJson>(out, value);
}

void append_python_json(std::string& out, const JsonObject& value) {
    detail::write_json<PythonJson>(out, value);
}

void append_python_json(std::string& out, const JsonArray& value) {
    detail::write_json<PythonJson>(out, value);
}

std::string to_python_json(const Json& value) {
    std::string out;
    append_python_json(out, value);
    return out;
}

std::string to_python_json(const JsonObject& value) {
    std::string out;
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
