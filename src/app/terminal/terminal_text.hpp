#pragma once

#include <concepts>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace cubepi::app {

class TerminalText;

// The gate to the terminal. Whatever is written to a terminal has one of these two types, and neither can be made from a
// string that only exists at run time: such text passes for_terminal() or spelled_out(), which leave no character in it that
// a terminal would obey.

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

/// Text that is safe to write to a terminal, made of literals and of escaped text.
class TerminalText {
public:
    TerminalText() = default;
    // NOLINTNEXTLINE(google-explicit-constructor)
    TerminalText(TerminalView text) : text_(text.str()) {}

    /// For code that cuts and joins safe text (line breaking, styles): the caller guarantees that `text` has no character of
    /// others that was not escaped. tools/check-terminal lists the files that may call it.
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

/// Text of others (a model, a tool, a file, a user) for reading. Line feeds and tabs stay, other control characters are left
/// out, characters that turn the direction of text around and bytes that are not UTF-8 become U+FFFD, and other invisible
/// characters are left out unless scripts and emoji need them (joiners, variation selectors).
TerminalText for_terminal(std::string_view text);

/// The same text where it must be seen what it is, on one line: whatever is invisible or could be taken for something else is
/// spelled out (^[, ^J, <U+202E>, <9B>). Tabs stay.
TerminalText spelled_out(std::string_view text);

/// for_terminal() as a plain string, which must pass it again to be printed (and does not change then).
std::string printable(std::string_view text);

/// spelled_out() as a plain string.
std::string visible(std::string_view text);

/// The first line of `text`, cut to `width` columns.
std::string one_line(std::string_view text, std::size_t width);
TerminalText line_for_terminal(std::string_view text, std::size_t width);

/// True for a character that shows nothing, looks like a blank or changes how its neighbours are arranged: Unicode's classes
/// Default_Ignorable_Code_Point and Bidi_Control, blanks other than U+0020, and the controls U+0080 to U+009F.
bool is_deceptive(char32_t character) noexcept;

}  // namespace cubepi::app
