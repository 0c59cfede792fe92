#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <functional>
#include <iosfwd>
#include <memory>
#include <string_view>
#include <type_traits>

#include <cubepi/core/task.hpp>

#include "terminal_text.hpp"

namespace cubepi::app {

/// The use of colors on a stream: none if it is not a terminal, NO_COLOR is set, or TERM is dumb.
struct Style {
    bool terminal = false;
    bool color = false;
    bool many_colors = false;  ///< 256 or more
    bool has_width = false;    ///< the terminal tells it
    int columns = 80;
    int rows = 24;

    /// Returns the current style for an open file descriptor.
    static Style of(int fd);

    TerminalView bold() const noexcept { return sequence("\x1b[1m"); }
    TerminalView dim() const noexcept { return sequence("\x1b[2m"); }
    TerminalView italic() const noexcept { return sequence("\x1b[3m"); }
    TerminalView struck() const noexcept { return sequence("\x1b[9m"); }
    TerminalView cyan() const noexcept {
        return light_ ? sequence("\x1b[34m") : sequence("\x1b[36m");
    }
    TerminalView green() const noexcept { return sequence("\x1b[32m"); }
    TerminalView red() const noexcept { return sequence("\x1b[31m"); }
    TerminalView yellow() const noexcept {
        return light_ ? sequence("\x1b[35m") : sequence("\x1b[33m");
    }
    TerminalView magenta() const noexcept { return sequence("\x1b[35m"); }
    /// Of names and of strings in code.
    TerminalView name_color() const noexcept {
        return light_ ? sequence("\x1b[1m") : sequence("\x1b[94m");
    }
    TerminalView string_color() const noexcept {
        return light_ ? sequence("\x1b[34m") : sequence("\x1b[33m");
    }
    /// Of lines of a diff. A background leaves the foreground to the code, but there is none of the 16 colors on which it could be read.
    TerminalView added() const noexcept {
        if (!many_colors) return green();
        return light_ ? sequence("\x1b[48;5;194m") : sequence("\x1b[48;5;22m");
    }
    TerminalView removed() const noexcept {
        if (!many_colors) return red();
        return light_ ? sequence("\x1b[48;5;224m") : sequence("\x1b[48;5;52m");
    }
    TerminalView off() const noexcept { return sequence("\x1b[0m"); }

    /// The terminal has a light background, on which yellow and cyan cannot be read; for all styles of the process. Called on the
    /// executor that writes to the terminal.
    static void set_light(bool light) noexcept { light_ = light; }

private:
    static inline bool light_ = false;
    TerminalView sequence(TerminalView code) const noexcept {
        return color ? code : TerminalView();
    }
};

/// The frames of the sign that shows progress.
inline constexpr std::array<TerminalView, 10> progress_frames{"⠋", "⠙", "⠹", "⠸", "⠼",
                                                              "⠴", "⠦", "⠧", "⠇", "⠏"};

/// Ends a statement whose text must be shown at once.
struct FlushNow {};
inline constexpr FlushNow flush_now;

/// A stream for text for the user, such as standard output or standard error. Accepts only safe text and numbers; a
/// pipe gets the same text. At a terminal, lines that are too long are broken between words; an indented line with a command to copy is
/// left whole. For data that programs read see data_output(). The stream must outlive
/// the object.
class TerminalStream {
public:
    explicit TerminalStream(std::ostream& to);

    TerminalStream& operator<<(TerminalView text) {
        write(text.str());
        return *this;
    }
    /// Writes rows whose breaks are decided, e.g. those of code.
    void write_laid_out(TerminalView text);
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

    void end_row(std::string& written, char by);
    void add_word(std::string& written, std::string_view word);

    std::ostream& to_;
    const int fd_;             // -1: not standard output or standard error
    std::size_t columns_ = 0;  // of the terminal; 0: it is none
    std::size_t column_ = 0;   // of the cursor
    std::size_t blanks_ = 0;   // that are written before the next word
    std::size_t indent_ = 0;   // of the next rows of this line
    bool has_words_ = false;   // on this line
    bool is_whole_ = false;    // this line is not broken
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

/// Writes to a terminal without waiting, so that a slow one does not delay the handling of keys. Used on one
/// executor.
class TerminalOutput {
public:
    /// The caller keeps the ownership of `fd`. `ascii`: the terminal does not support UTF-8; symbols of the program
    /// are replaced.
    TerminalOutput(Executor executor, int fd, bool ascii);
    ~TerminalOutput();
    TerminalOutput(const TerminalOutput&) = delete;
    TerminalOutput& operator=(const TerminalOutput&) = delete;

    void write(TerminalView text);
    /// True if the terminal has accepted all output.
    bool idle() const noexcept;
    /// Called whenever the output becomes idle.
    void on_idle(std::function<void()> then);
    /// Waits until the terminal has accepted all output, or has accepted nothing for a while.
    void drain();

private:
    struct State;
    std::shared_ptr<State> state_;
};

/// True if the locale declares a terminal without UTF-8.
bool terminal_is_ascii();

}  // namespace cubepi::app
