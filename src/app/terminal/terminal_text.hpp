#pragma once

#include <concepts>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include <cubepi/core/json.hpp>
#include <cubepi/schema/json/visible_text.hpp>

namespace cubepi::app {

class TerminalText;

// Types for terminal output. All text for a terminal has one of these two types, and neither can be created from a
// run-time string: such text passes for_terminal() or spelled_out(), which remove all characters that a terminal
// would interpret.

/// A view of text that is safe to write to a terminal: a literal of the program, or a TerminalText that outlives it.
class TerminalView {
public:
    constexpr TerminalView() noexcept = default;
    /// Only from a literal, which may have escape sequences: the program's own are written as literals.
    template <std::size_t N>
    // NOLINTNEXTLINE(google-explicit-constructor,modernize-avoid-c-arrays)
    consteval TerminalView(const char (&literal)[N]) : text_(literal, N - 1) {}
    // NOLINTNEXTLINE(google-explicit-constructor)
    TerminalView(const TerminalText& text) noexcept;

    constexpr std::string_view str() const noexcept { return text_; }
    constexpr bool empty() const noexcept { return text_.empty(); }
    constexpr std::size_t size() const noexcept { return text_.size(); }

private:
    std::string_view text_;
};

/// Text that is safe to write to a terminal, composed of literals and escaped text.
class TerminalText {
public:
    TerminalText() = default;
    // NOLINTNEXTLINE(google-explicit-constructor)
    TerminalText(TerminalView text) : text_(text.str()) {}

    /// For code that cuts and joins safe text (line breaking, styles): the caller guarantees that all untrusted
    /// characters of `text` are escaped. tools/check-terminal lists the files that may call it.
    static TerminalText assembled(std::string text) {
        TerminalText made;
        made.text_ = std::move(text);
        return made;
    }
    static TerminalText number(std::integral auto value) {
        return assembled(std::to_string(value));
    }
    static TerminalText blanks(std::size_t count) { return assembled(std::string(count, ' ')); }

    const std::string& str() const noexcept { return text_; }
    bool empty() const noexcept { return text_.empty(); }
    std::size_t size() const noexcept { return text_.size(); }

    TerminalText& operator+=(TerminalView more) {
        text_ += more.str();
        return *this;
    }
    friend bool operator==(const TerminalText&, const TerminalText&) = default;

private:
    std::string text_;
};

inline TerminalView::TerminalView(const TerminalText& text) noexcept : text_(text.str()) {}

inline TerminalText operator+(TerminalView left, TerminalView right) {
    TerminalText joined(left);
    joined += right;
    return joined;
}

/// Escapes untrusted text (of a model, a tool, a file, a user) for reading. Line feeds and tabs stay, other control
/// characters are removed, bidirectional control characters and invalid UTF-8 become U+FFFD, and other invisible
/// characters are removed unless scripts and emoji need them (joiners, variation selectors).
TerminalText for_terminal(std::string_view text);

/// Escapes untrusted text for inspection, on one line: invisible and deceptive characters are spelled out (^[, ^J,
/// <U+202E>, <9B>). Tabs stay.
TerminalText spelled_out(std::string_view text);

/// for_terminal() as a plain string, which must be escaped again to be printed (without further changes).
std::string printable(std::string_view text);

using detail::is_deceptive;
/// spelled_out() as a plain string.
using detail::visible;

/// The first line of `text`, cut to `width` columns.
std::string one_line(std::string_view text, std::size_t width);
TerminalText line_for_terminal(std::string_view text, std::size_t width);

/// The first character of a text.
struct FirstCharacter {
    char32_t code = U'\uFFFD';
    std::size_t bytes = 1;
    bool valid = false;  ///< false: a byte that is not part of a character, which counts as one
};

/// Decodes the front of `text`, which is not empty (Unicode 15, table 3-7).
FirstCharacter first_character(std::string_view text) noexcept;

/// The number of bytes of the character that begins with `first`; 1 for a byte that begins none.
std::size_t character_length(unsigned char first) noexcept;

/// Writes `value` as JSON on one line, in which no byte has a special meaning for a terminal or an editor: characters
/// that is_deceptive() names and DEL are written as \u escapes, and bytes that are not UTF-8 as U+FFFD. Parsing it
/// yields the same value.
std::string safe_json(const Json& value);

/// The same for JSON that is written already, of one line or several.
std::string safe_json_text(std::string text);

/// As safe_json(), on several lines, indented for reading; each line has a part of the JSON, without a line feed at the end.
std::string safe_json_lines(const Json& value);

}  // namespace cubepi::app
