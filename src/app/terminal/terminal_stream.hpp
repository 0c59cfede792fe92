#pragma once

#include <concepts>
#include <cstddef>
#include <iosfwd>
#include <string_view>
#include <type_traits>

#include "terminal_text.hpp"

namespace cubepi::app {

/// Ends a statement whose text must be shown at once.
struct FlushNow {};
inline constexpr FlushNow flush_now;

/// A stream for text for the user, such as standard output or standard error. Accepts only safe text and numbers; a
/// pipe gets the same text. For data that programs read see data_output(). The stream must outlive the object.
class TerminalStream {
public:
    explicit TerminalStream(std::ostream& to) : to_(to) {}

    TerminalStream& operator<<(TerminalView text) {
        write(text.str());
        return *this;
    }
    TerminalStream& operator<<(std::integral auto value) {
        using Value = decltype(value);
        static_assert(!std::is_same_v<Value, char> && !std::is_same_v<Value, bool>,
                      "a TerminalStream takes text and numbers");
        return *this << TerminalText::number(value);
    }
    template <class Text>
        requires std::convertible_to<const Text&, std::string_view> && (!std::is_array_v<Text>)
    TerminalStream& operator<<(const Text&) {
        static_assert(std::is_void_v<Text>,
                      "text for a terminal must be a literal or have passed for_terminal()");
        return *this;
    }
    TerminalStream& operator<<(FlushNow) {
        flush();
        return *this;
    }
    void flush();

private:
    void write(std::string_view text);

    std::ostream& to_;
};

/// Standard output, for text for the user.
TerminalStream& out();
/// Standard error.
TerminalStream& err();

/// Standard error, for what removes control characters itself: the lines of a log and of console exporters.
std::ostream& log_output();

/// Writes data for programs to standard output: JSON, the answer of `run` on a pipe, completion scripts. If standard
/// output is a terminal, the text passes for_terminal() first.
void data_output(std::string_view data);
/// The same for a stream that may be standard output.
void data_output(std::ostream& to, std::string_view data);

}  // namespace cubepi::app
