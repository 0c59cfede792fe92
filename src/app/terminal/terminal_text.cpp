#include "terminal_text.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include <cubepi/net/utf8.hpp>
#include <cubepi/schema/json/utf8.hpp>
#include <cubepi/schema/json/write_json.hpp>
#include <cubepi/schema/json_text.hpp>

#include "text_layout.hpp"

namespace cubepi::app {

namespace {

/// Joiners and variation selectors, which scripts and emoji need.
bool shapes_neighbours(char32_t character) {
    return character == 0x200C || character == 0x200D ||
           (character >= 0xFE00 && character <= 0xFE0F);
}

void add_readable(std::string& out, const detail::Utf8Char& character, std::string_view rest) {
    const char32_t code = character.code;
    if (!character.valid || detail::is_bidi_control(code)) {
        out += "\uFFFD";
    } else if (code == '\r') {
        // A progress bar overwrites its line; here each state becomes a line.
        if (rest.size() > 1 && rest[1] != '\n') out += '\n';
    } else if (code == 0x2028 || code == 0x2029) {
        out += '\n';
    } else if (code < 0x20 ? code == '\n' || code == '\t'
                           : code != 0x7F && (code < 0x80 || code > 0x9F) &&
                                 (!detail::is_ignorable(code) || shapes_neighbours(code))) {
        out += rest.substr(0, character.length);
    }
}

/// Adds line breaks to JSON without blanks. Not recursive: the nesting of recorded JSON is that of its writer.
class LineBreaker {
public:
    std::string broken(std::string_view json) {
        for (std::size_t i = 0; i < json.size(); ++i) {
            const char c = json[i];
            if (in_string_) {
                pass_string(c);
            } else if (c == '"') {
                in_string_ = true;
                out_ += c;
            } else if ((c == '{' || c == '[') && (json[i + 1] == '}' || json[i + 1] == ']')) {
                out_ += c;
                out_ += json[++i];
            } else {
                pass_sign(c);
            }
        }
        return std::move(out_);
    }

private:
    void pass_string(char c) {
        out_ += c;
        in_string_ = escaped_ || c != '"';
        escaped_ = !escaped_ && c == '\\';
    }
    void pass_sign(char c) {
        if (c == '}' || c == ']') {
            --depth_;
            begin_line();
        }
        out_ += c;
        if (c == '{' || c == '[') {
            ++depth_;
            begin_line();
        } else if (c == ',') {
            begin_line();
        } else if (c == ':') {
            out_ += ' ';
        }
    }
    void begin_line() {
        out_ += '\n';
        out_.append(2 * depth_, ' ');
    }

    std::string out_;
    std::size_t depth_ = 0;
    bool in_string_ = false;
    bool escaped_ = false;
};

}  // namespace

std::size_t character_length(unsigned char first) noexcept {
    if (first < 0xC0) return 1;
    return first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
}

FirstCharacter first_character(std::string_view text) noexcept {
    const detail::Utf8Char character = detail::utf8_char(text, 0);
    if (!character.valid) return {};
    return {character.code, character.length, true};
}

std::string printable(std::string_view text) { return detail::with_characters(text, add_readable); }

TerminalText for_terminal(std::string_view text) {
    return TerminalText::assembled(printable(text));
}

TerminalText spelled_out(std::string_view text) { return TerminalText::assembled(visible(text)); }

std::string one_line(std::string_view text, std::size_t width) {
    const std::string line = printable(text.substr(0, text.find_first_of("\r\n")));
    return shortened(std::string_view(line).substr(0, line.find('\n')), width);
}

TerminalText line_for_terminal(std::string_view text, std::size_t width) {
    return TerminalText::assembled(one_line(text, width));
}

std::string safe_json_lines(const Json& value) { return LineBreaker().broken(safe_json(value)); }

std::string safe_json(const Json& value) { return safe_json_text(json_text(value)); }

std::string safe_json_text(std::string text) {
    if (!is_utf8(text)) text = replace_broken_utf8(text);
    std::string out;
    out.reserve(text.size());
    // Escaped characters occur only in strings: all other parts of JSON are ASCII.
    for (std::string_view rest = text; !rest.empty();) {
        const FirstCharacter character = first_character(rest);
        if (character.code == 0x7F || is_deceptive(character.code)) {
            detail::append_unicode_escape(out, character.code);
        } else {
            out += rest.substr(0, character.bytes);
        }
        rest.remove_prefix(character.bytes);
    }
    return out;
}

}  // namespace cubepi::app
