#include "terminal_text.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <string_view>
#include <utility>

#include <cubepi/net/utf8.hpp>
#include <cubepi/schema/json/utf8.hpp>
#include <cubepi/schema/json/write_json.hpp>
#include <cubepi/schema/json_text.hpp>

#include "text_layout.hpp"

namespace cubepi::app {

namespace {

struct Range {
    char32_t first;
    char32_t last;
};

// Unicode 15: Bidi_Control.
constexpr std::array bidi_controls{Range{0x61C, 0x61C}, Range{0x200E, 0x200F},
                                   Range{0x202A, 0x202E}, Range{0x2066, 0x2069}};

// Unicode 15: Default_Ignorable_Code_Point, less the ones above; and the interlinear annotations (U+FFF9), which hide text.
constexpr std::array ignorable{
    Range{0xAD, 0xAD},      Range{0x34F, 0x34F},     Range{0x115F, 0x1160},
    Range{0x17B4, 0x17B5},  Range{0x180B, 0x180F},   Range{0x200B, 0x200D},
    Range{0x2060, 0x2065},  Range{0x206A, 0x206F},   Range{0x3164, 0x3164},
    Range{0xFE00, 0xFE0F},  Range{0xFEFF, 0xFEFF},   Range{0xFFA0, 0xFFA0},
    Range{0xFFF0, 0xFFFB},  Range{0x1BCA0, 0x1BCA3}, Range{0x1D173, 0x1D17A},
    Range{0xE0000, 0xE0FFF}};

// Spaces other than U+0020, and characters that look like one.
constexpr std::array blanks{Range{0xA0, 0xA0},     Range{0x1680, 0x1680}, Range{0x2000, 0x200A},
                            Range{0x2028, 0x2029}, Range{0x202F, 0x202F}, Range{0x205F, 0x205F},
                            Range{0x2800, 0x2800}, Range{0x3000, 0x3000}};

template <std::size_t size>
bool has(const std::array<Range, size>& ranges, char32_t character) {
    const auto found =
        std::lower_bound(ranges.begin(), ranges.end(), character,
                         [](const Range& range, char32_t wanted) { return range.last < wanted; });
    return found != ranges.end() && found->first <= character;
}

/// Joiners and variation selectors, which scripts and emoji need.
bool shapes_neighbours(char32_t character) {
    return character == 0x200C || character == 0x200D ||
           (character >= 0xFE00 && character <= 0xFE0F);
}

std::string hexadecimal(std::uint32_t value, std::size_t digits) {
    constexpr std::string_view characters = "0123456789ABCDEF";
    std::string text;
    for (; value > 0 || text.size() < digits; value >>= 4) text += characters[value & 0xF];
    std::reverse(text.begin(), text.end());
    return text;
}

void add_readable(std::string& out, const FirstCharacter& character, std::string_view rest) {
    const char32_t code = character.code;
    if (!character.valid || has(bidi_controls, code)) {
        out += "\uFFFD";
    } else if (code == '\r') {
        // A progress bar overwrites its line; here each state becomes a line.
        if (rest.size() > 1 && rest[1] != '\n') out += '\n';
    } else if (code == 0x2028 || code == 0x2029) {
        out += '\n';
    } else if (code < 0x20 ? code == '\n' || code == '\t'
                           : code != 0x7F && (code < 0x80 || code > 0x9F) &&
                                 (!has(ignorable, code) || shapes_neighbours(code))) {
        out += rest.substr(0, character.bytes);
    }
}

void add_spelled(std::string& out, const FirstCharacter& character, std::string_view rest) {
    const char32_t code = character.code;
    if (!character.valid) {
        out += "<" + hexadecimal(static_cast<unsigned char>(rest.front()), 2) + ">";
    } else if ((code < 0x20 && code != '\t') || code == 0x7F) {
        out += '^';
        out += static_cast<char>(code ^ 0x40U);
    } else if (is_deceptive(code)) {
        out += "<U+" + hexadecimal(code, 4) + ">";
    } else {
        out += rest.substr(0, character.bytes);
    }
}

/// The length of the visible ASCII characters and spaces at the front of `text`, which need no escape.
std::size_t plain_length(std::string_view text) {
    const auto end =
        std::find_if(text.begin(), text.end(), [](char c) { return c < ' ' || c > '~'; });
    return static_cast<std::size_t>(end - text.begin());
}

template <class Add>
std::string escaped(std::string_view text, Add add) {
    std::string out;
    out.reserve(text.size());
    while (true) {
        const std::size_t plain = plain_length(text);
        out += text.substr(0, plain);
        text.remove_prefix(plain);
        if (text.empty()) return out;
        const FirstCharacter character = first_character(text);
        add(out, character, text);
        text.remove_prefix(character.bytes);
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

bool is_deceptive(char32_t character) noexcept {
    return (character >= 0x80 && character <= 0x9F) || has(bidi_controls, character) ||
           has(ignorable, character) || has(blanks, character);
}

std::string printable(std::string_view text) { return escaped(text, add_readable); }

std::string visible(std::string_view text) { return escaped(text, add_spelled); }

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
