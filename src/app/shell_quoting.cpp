#include "shell_quoting.hpp"

#include <algorithm>
#include <cctype>
#include <utility>

#include <cubepi/net/utf8.hpp>

#include "terminal/terminal_stream.hpp"
#include "terminal/text_layout.hpp"

namespace cubepi::app {

namespace {

constexpr std::string_view hexadecimal = "0123456789abcdef";

/// Returns whether a terminal only shows the character.
bool is_visible(std::string_view character) {
    if (character == "\n" || character == "\t" || !is_utf8(character)) return false;
    return printable(character) == character;
}

bool is_plain(std::string_view character) {
    constexpr std::string_view signs = "_-./:@%+,=^";
    if (character.size() > 1) return true;
    return std::isalnum(static_cast<unsigned char>(character.front())) != 0 ||
           signs.find(character) != std::string_view::npos;
}

std::string escaped_bytes(std::string_view character) {
    if (character == "\n") return "\\n";
    if (character == "\t") return "\\t";
    std::string text;
    for (const char c : character) {
        const auto byte = static_cast<unsigned char>(c);
        text += "\\x";
        text += hexadecimal[byte >> 4];
        text += hexadecimal[byte & 15];
    }
    return text;
}

/// A visible character inside of the style's quotes.
std::string escaped(std::string_view character, ShellQuote style) {
    std::string text(character);
    switch (style) {
        case ShellQuote::backslash: return is_plain(character) ? text : "\\" + text;
        case ShellQuote::single: return text == "'" ? "'\\''" : text;
        case ShellQuote::dual:
            // History expansion acts inside of double quotes, and no backslash stops it there.
            if (text == "!") return "\"\\!\"";
            return std::string_view("\"\\$`").find(character) != std::string_view::npos
                       ? "\\" + text
                       : text;
        case ShellQuote::ansi_c: return text == "'" || text == "\\" ? "\\" + text : text;
    }
    return text;
}

std::string_view quote_sign(ShellQuote style) {
    if (style == ShellQuote::backslash) return "";
    return style == ShellQuote::dual ? "\"" : "'";
}

/// Splits a line by its quotes only; nothing is expanded.
class LineSplitter {
public:
    explicit LineSplitter(std::string_view line) : rest_(line) {}

    ShellLine split() {
        while (!rest_.empty()) {
            const char c = take();
            if (c == ' ' || c == '\t' || c == '\n') {
                end_word();
            } else if (c == '<' || c == '>') {
                begin_redirection();
            } else {
                in_word_ = true;
                line_.raw += c;
                take_part(c);
            }
        }
        line_.redirection = redirected_;
        return std::move(line_);
    }

private:
    char take() {
        const char c = rest_.front();
        rest_.remove_prefix(1);
        return c;
    }
    char take_raw() {
        line_.raw += rest_.front();
        return take();
    }

    void end_word() {
        if (in_word_ && !std::exchange(redirected_, false)) line_.words.push_back(line_.word);
        forget_word();
    }
    void forget_word() {
        line_.word.clear();
        line_.raw.clear();
        in_word_ = false;
    }
    void begin_redirection() {
        const bool is_number = std::all_of(line_.raw.begin(), line_.raw.end(), [](char c) {
            return std::isdigit(static_cast<unsigned char>(c)) != 0;
        });
        if (is_number) forget_word();
        end_word();
        redirected_ = true;
    }

    void take_part(char c) {
        const bool dollar = c == '$' && !rest_.empty();
        if (c == '\\') {
            if (!rest_.empty()) line_.word += take_raw();
        } else if (c == '\'') {
            take_quoted('\'', ShellQuote::single);
        } else if (c == '"') {
            take_quoted('"', ShellQuote::dual);
        } else if (dollar && rest_.front() == '\'') {
            (void)take_raw();
            take_quoted('\'', ShellQuote::ansi_c);
        } else {
            line_.word += c;
        }
    }

    void take_quoted(char end, ShellQuote style) {
        line_.quote = style;
        while (!rest_.empty()) {
            const char c = take_raw();
            if (c == end) {
                line_.quote = ShellQuote::backslash;
                return;
            }
            if (c == '\\' && style != ShellQuote::single) {
                take_escape(style);
            } else {
                line_.word += c;
            }
        }
    }

    void take_escape(ShellQuote style) {
        if (rest_.empty()) return;
        const char c = take_raw();
        if (style == ShellQuote::ansi_c) return take_ansi_escape(c);
        if (std::string_view("\"\\$`").find(c) == std::string_view::npos) line_.word += '\\';
        line_.word += c;
    }

    void take_ansi_escape(char c) {
        constexpr std::string_view letters = "abefnrtv";
        constexpr std::string_view meanings = "\a\b\x1b\f\n\r\t\v";
        const std::size_t letter = letters.find(c);
        if (letter != std::string_view::npos) {
            line_.word += meanings[letter];
        } else if (c == 'x') {
            int value = 0;
            for (int digits = 0; digits < 2 && !rest_.empty(); ++digits) {
                const auto digit = hexadecimal.find(
                    static_cast<char>(std::tolower(static_cast<unsigned char>(rest_.front()))));
                if (digit == std::string_view::npos) break;
                value = value * 16 + static_cast<int>(digit);
                (void)take_raw();
            }
            line_.word += static_cast<char>(value);
        } else {
            line_.word += c;
        }
    }

    std::string_view rest_;
    ShellLine line_;
    bool in_word_ = false;
    bool redirected_ = false;
};

}  // namespace

std::string quoted_for_shell(std::string_view text, ShellQuote style) {
    const std::string_view sign = quote_sign(style);
    std::string word(sign);
    while (!text.empty()) {
        const std::string_view character = text.substr(0, first_character(text).bytes);
        text.remove_prefix(character.size());
        if (is_visible(character)) {
            // Home directories and comments begin with these.
            const bool starts = word.empty() && (character == "~" || character == "#");
            word += starts ? "\\" + std::string(character) : escaped(character, style);
        } else if (style == ShellQuote::ansi_c) {
            word += escaped_bytes(character);
        } else {
            word += std::string(sign) + "$'" + escaped_bytes(character) + "'" + std::string(sign);
        }
    }
    word += sign;
    return word;
}

std::string shell_word(std::string_view text) {
    const std::string word = quoted_for_shell(text, ShellQuote::backslash);
    return word == text && !text.empty() ? word : quoted_for_shell(text, ShellQuote::single);
}

ShellLine split_shell_line(std::string_view line) { return LineSplitter(line).split(); }

}  // namespace cubepi::app
