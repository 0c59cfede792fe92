#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <cubepi/core/clock.hpp>
#include <cubepi/core/task.hpp>

#include "completer.hpp"
#include "live_area.hpp"
#include "prompter.hpp"
#include "style.hpp"

namespace cubepi::app {

/// What a person did at the console.
struct ConsoleInput {
    enum class Kind : std::uint8_t {
        line,       ///< entered `text`
        interrupt,  ///< Ctrl-C, or Esc while busy
        unfold,     ///< Ctrl-O
        end,        ///< Ctrl-D, the terminal is gone, or the process was told to end
    };
    Kind kind = Kind::line;
    std::string text = {};
    bool pasted = false;  ///< the beginning of `text`
};

/// The terminal of a console.
struct ConsoleTerminal {
    int input = 0;
    int output = 1;
};

/// A terminal with a prompt at its bottom that can be used all the time, while text appears above it. Questions take the
/// prompt's place until they are answered; while somebody types they wait for a pause, and keys that come in the first
/// moment (question_hold) are discarded, so that no key meant for something else answers them. A slow terminal holds up nothing but what it shows. One per process, and only at a terminal that knows cursor
/// movements. Used on one executor.
class Console final : public Prompter {
public:
    /// History is kept in `history`; empty: in memory alone. `clock` outlives it.
    Console(Executor executor, Clock& clock, std::filesystem::path history,
            ConsoleTerminal terminal = {});
    ~Console() override;
    Console(const Console&) = delete;
    Console& operator=(const Console&) = delete;

    /// True where standard input and output make a console.
    static bool possible();

    /// Text that stays, above the prompt. It may end in the middle of a line and go on later.
    void print(TerminalView text, Flow flow = Flow::prose);
    void say(TerminalView text) override { print(text); }
    ScreenSize size() const override { return {columns(), rows()}; }
    /// Ends a line that was printed in part.
    void end_line();
    /// Lines that change in place, between the text and the prompt.
    void set_live(std::vector<TerminalText> lines);
    /// The line below the prompt.
    void set_status(TerminalText status);
    /// A question waits for its answer.
    bool asking() const noexcept;
    /// While it is busy Esc and Ctrl-C interrupt, whatever was typed.
    void set_busy(bool busy);
    /// What Tab completes at the beginning of a line.
    void set_commands(std::vector<Command> commands);
    /// Puts a text in front of what is being typed.
    void hand_back(const std::string& text, bool pasted = false);
    /// Writes an escape sequence that changes nothing on the screen.
    void write_control(TerminalView sequence);
    void remember(const std::string& line);

    /// The next thing that the person does.
    Task<ConsoleInput> next();
    /// Returns when the person wants to stop or to leave; what else is entered stays for next().
    Task<> interrupted();
    Task<std::optional<std::string>> read(TerminalText prompt, std::string prefill = {}) override;

    /// The signal that told the process to end, which came as ConsoleInput::end; 0: none.
    int ended_by() const noexcept;
    const Style& style() const noexcept;
    std::size_t columns() const noexcept;
    std::size_t rows() const noexcept;
    /// Shows what waits to be shown, now.
    void flush();
    /// All that was printed has been shown.
    bool shown() const noexcept;
    /// Takes the prompt away for good; what is printed then goes on below.
    void close();

private:
    struct State;
    std::shared_ptr<State> state_;
};

}  // namespace cubepi::app
