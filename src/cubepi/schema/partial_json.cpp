#include <cubepi/schema/partial_json.hpp>

#include <cctype>
#include <optional>
#include <utility>

#include <cubepi/schema/json/utf8.hpp>
#include <cubepi/schema/json/write_json.hpp>
#include <cubepi/schema/parse_json.hpp>

namespace cubepi {
namespace {

constexpr std::string_view blanks = " \t\r\n";

bool is_delimiter(char c) {
    return blanks.find(c) != std::string_view::npos || c == ',' || c == ':' || c == '}' ||
           c == ']' || c == '{' || c == '[' || c == '"';
}

// Writes a valid form of the escape at `at`; returns the number of bytes read.
std::size_t repair_escape(std::string& out, std::string_view text, std::size_t at) {
    const char next = at + 1 < text.size() ? text[at + 1] : '\0';
    if (next == 'u') {
        const int code = detail::hex4(text, at + 2);
        if (code < 0) {
            out += "\\\\u";
            return 2;
        }
        const bool pair = detail::is_high_surrogate(code) && text.substr(at + 6, 2) == "\\u" &&
                          detail::is_low_surrogate(detail::hex4(text, at + 8));
        if (pair) {
            out += text.substr(at, 12);
            return 12;
        }
        if (detail::is_high_surrogate(code) || detail::is_low_surrogate(code)) {
            out += "\\ufffd";
        } else {
            out += text.substr(at, 6);
        }
        return 6;
    }
    if (next != '\0' && std::string_view("\"\\/bfnrt").find(next) != std::string_view::npos) {
        out += text.substr(at, 2);
        return 2;
    }
    out += "\\\\";
    return 1;
}

std::string repair(std::string_view text, bool replace_bad_bytes) {
    std::string out;
    out.reserve(text.size() + 16);
    bool in_string = false;
    std::size_t at = 0;
    while (at < text.size()) {
        const char c = text[at];
        if (in_string && c == '\\') {
            at += repair_escape(out, text, at);
            continue;
        }
        if (c == '"') in_string = !in_string;
        if (in_string && static_cast<unsigned char>(c) < 0x20U) {
            detail::append_json_escape(out, c);
        } else if (in_string && replace_bad_bytes && static_cast<unsigned char>(c) >= 0x80U) {
            const auto character = detail::utf8_char(text, at);
            out += character.valid ? text.substr(at, character.length)
                                   : std::string_view("\xEF\xBF\xBD");
            at += character.length;
            continue;
        } else {
            out += c;
        }
        ++at;
    }
    return out;
}

// A scanner that finds the complete part of an object's text. The structure is checked strictly; the contents of
// strings and numbers are checked by the parser afterwards.
class PrefixScanner {
public:
    explicit PrefixScanner(std::string_view text) : text_(text) {}

    /// Returns the text without its last, incomplete part and with all brackets closed; nothing if it is not the
    /// beginning of one object.
    std::optional<std::string> close() {
        at_ = std::min(text_.find_first_not_of(blanks), text_.size());
        if (at_ == text_.size() || text_[at_] != '{') return std::nullopt;
        while (at_ < text_.size()) {
            if (!step()) return std::nullopt;
        }
        std::string closed = repair(text_.substr(0, safe_length_), true);
        if (open_string_) closed += '"';
        for (std::size_t depth = safe_depth_; depth > 0; --depth) {
            closed += stack_[depth - 1] == '{' ? '}' : ']';
        }
        return closed;
    }

private:
    enum class Expect { value, value_or_end, key, key_or_end, colon, comma_or_end, nothing };

    bool step() {
        const char c = text_[at_];
        if (blanks.find(c) != std::string_view::npos) {
            ++at_;
            return true;
        }
        switch (expect_) {
            case Expect::value: return value(c);
            case Expect::value_or_end: return c == ']' ? end(c) : value(c);
            case Expect::key: return key(c);
            case Expect::key_or_end: return c == '}' ? end(c) : key(c);
            case Expect::colon:
                expect_ = Expect::value;
                ++at_;
                return c == ':';
            case Expect::comma_or_end:
                if (c != ',') return end(c);
                expect_ = stack_.back() == '{' ? Expect::key : Expect::value;
                ++at_;
                return true;
            case Expect::nothing: return false;
        }
        return false;
    }

    bool value(char c) {
        if (c == '{' || c == '[') {
            if (stack_.size() >= max_json_depth) return false;
            stack_ += c;
            ++at_;
            expect_ = c == '{' ? Expect::key_or_end : Expect::value_or_end;
            mark_safe(at_);
            return true;
        }
        if (c == '"') {
            if (!skip_string()) {
                mark_safe(string_end_);
                open_string_ = true;
                return true;
            }
            complete_value();
            return true;
        }
        const auto start = at_;
        while (at_ < text_.size() && !is_delimiter(text_[at_])) ++at_;
        const auto token = text_.substr(start, at_ - start);
        if (at_ < text_.size()) {
            complete_value();
            return is_number_or_literal(token);
        }
        if (is_number_or_literal(token)) {
            complete_value();
            return true;
        }
        return could_become_value(token);
    }

    bool key(char c) {
        if (c != '"') return false;
        if (skip_string()) expect_ = Expect::colon;
        return true;
    }

    bool end(char c) {
        if ((c == '}') != (stack_.back() == '{') || (c != '}' && c != ']')) return false;
        stack_.pop_back();
        ++at_;
        complete_value();
        return true;
    }

    void complete_value() {
        expect_ = stack_.empty() ? Expect::nothing : Expect::comma_or_end;
        mark_safe(at_);
    }

    void mark_safe(std::size_t length) {
        safe_length_ = length;
        safe_depth_ = stack_.size();
    }

    // Moves past the closing quote. If there is none, moves to the end of the text, and string_end_ is the end of the
    // last complete character.
    bool skip_string() {
        ++at_;
        while (at_ < text_.size()) {
            string_end_ = at_;
            const char c = text_[at_];
            if (c == '"') {
                ++at_;
                return true;
            }
            if (c == '\\') {
                const auto length = escape_length();
                if (length == 0) {
                    at_ = text_.size();
                    return false;
                }
                at_ += length;
            } else if (static_cast<unsigned char>(c) >= 0xC0U) {
                const auto character = detail::utf8_char(text_, at_);
                if (!character.valid && text_.size() - at_ < 4 && only_continuations(at_ + 1)) {
                    at_ = text_.size();
                    return false;
                }
                at_ += character.length;
            } else {
                ++at_;
            }
        }
        string_end_ = text_.size();
        return false;
    }

    bool only_continuations(std::size_t from) const {
        for (; from < text_.size(); ++from) {
            if ((static_cast<unsigned char>(text_[from]) & 0xC0U) != 0x80U) return false;
        }
        return true;
    }

    // Returns the size of the escape at at_, including the second half of a surrogate pair; 0 if the text ends before
    // the escape is complete.
    std::size_t escape_length() const {
        const auto rest = text_.substr(at_);
        if (rest.size() < 2) return 0;
        if (rest[1] != 'u') return 2;
        const int code = detail::hex4(rest, 2);
        if (code < 0) return rest.size() < 6 && all_hex(rest.substr(2)) ? 0 : 2;
        if (!detail::is_high_surrogate(code)) return 6;
        const auto second = rest.substr(6);
        const bool may_follow =
            second.empty() || second == "\\" ||
            (second.substr(0, 2) == "\\u" && second.size() < 6 && all_hex(second.substr(2)));
        if (may_follow) return 0;
        return second.substr(0, 2) == "\\u" && detail::is_low_surrogate(detail::hex4(second, 2))
                   ? 12
                   : 6;
    }

    static bool all_hex(std::string_view text) {
        return text.find_first_not_of("0123456789abcdefABCDEF") == std::string_view::npos;
    }

    static bool is_number_or_literal(std::string_view token) {
        JsonTextError error;
        parse_json(token, error);
        return !error;
    }

    static bool could_become_value(std::string_view token) {
        for (const std::string_view literal : {"true", "false", "null"}) {
            if (literal.substr(0, token.size()) == token) return true;
        }
        return token.find_first_not_of("+-.0123456789eE") == std::string_view::npos;
    }

    std::string_view text_;
    std::size_t at_ = 0;
    Expect expect_ = Expect::value;
    std::string stack_;
    std::size_t safe_length_ = 0;
    std::size_t safe_depth_ = 0;
    std::size_t string_end_ = 0;
    bool open_string_ = false;
};

std::string describe_problem(const JsonTextError& error, std::size_t size) {
    return "not JSON: " + error.reason + " at byte " + std::to_string(error.offset) + " of " +
           std::to_string(size);
}

}  // namespace

ParsedArguments parse_arguments(std::string_view text) {
    if (text.empty()) return ParsedArguments{};

    JsonTextError error;
    Json value = parse_json(text, error);
    if (!error) {
        if (auto* object = value.if_object()) {
            return ParsedArguments{std::move(*object), ArgumentsState::exact, {}};
        }
        return ParsedArguments{{}, ArgumentsState::invalid, "not a JSON object"};
    }
    JsonTextError second_error;
    value = parse_json(repair(text, false), second_error);
    if (!second_error && value.is_object()) {
        return ParsedArguments{std::move(value.get_object()), ArgumentsState::repaired, {}};
    }
    if (const auto closed = PrefixScanner(text).close()) {
        value = parse_json(*closed, second_error);
        if (!second_error && value.is_object()) {
            return ParsedArguments{std::move(value.get_object()), ArgumentsState::closed,
                                   describe_problem(error, text.size())};
        }
    }
    return ParsedArguments{{}, ArgumentsState::invalid, describe_problem(error, text.size())};
}

std::string repair_json(std::string_view text) { return repair(text, false); }

}  // namespace cubepi
