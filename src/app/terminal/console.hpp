#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/clock.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/task.hpp>
#include <cubepi/core/task_scope.hpp>

#include "attention.hpp"
#include "full_screen.hpp"
#include "live_area.hpp"
#include "prompt.hpp"
#include "prompter.hpp"
#include "terminal_stream.hpp"

namespace cubepi::app {

/// An action of the user at the console.
struct ConsoleInput {
    enum class Kind : std::uint8_t {
        line,       ///< entered `text`
        interrupt,  ///< Ctrl-C, or Esc while busy or while interrupted() waits
        pager,      ///< Ctrl-O
        mode,       ///< Shift-Tab
        rewind,     ///< Esc twice at the empty prompt
        editor,     ///< Ctrl-G
        end,        ///< Ctrl-D, the terminal is gone, or a termination signal
    };
    Kind kind = Kind::line;
    std::string text = {};
    bool pasted = false;         ///< the beginning of `text` was pasted
    bool has_paste = false;      ///< a part of it was (Prompt::taken_has_paste())
    std::uint64_t question = 0;  ///< the number of the question that was on the screen; 0: none was
};

/// The use of a console.
enum class ConsoleUse : std::uint8_t {
    chat,
    question,  ///< one question and nothing else: no prompt, and Ctrl-C signals the process group as at any other time
};

/// The terminal of a console.
struct ConsoleTerminal {
    int input = 0;
    int output = 1;
};

/// A terminal with a prompt at its bottom that is always usable while text appears above it. Questions replace the
/// prompt until they are answered; while the user types they wait for a pause, and keys in the first moment
/// (question_hold) are discarded, so that no key intended for other input answers them. A slow terminal delays only
/// the output. One per process, and only at a terminal with cursor movements. Used on one executor.
class Console final : public Prompter {
public:
    /// History is stored in `history`; empty: only in memory. `clock` must outlive the console.
    Console(Executor executor, Clock& clock, std::filesystem::path history,
            ConsoleTerminal terminal = {}, ConsoleUse use = ConsoleUse::chat);
    ~Console() override;
    Console(const Console&) = delete;
    Console& operator=(const Console&) = delete;

    /// True if standard input and output are suitable for a console.
    static bool possible();

    /// Sets the time after which an Esc is the key and not the beginning of another one; for all consoles.
    static void set_escape_timeout(std::chrono::milliseconds timeout);

    /// Prints text above the prompt. It may end in the middle of a line, which a later call continues.
    void print(TerminalView text) override { print(text, Flow::prose); }
    void print(TerminalView text, Flow flow);
    ScreenSize size() const override { return {columns(), rows()}; }
    /// Ends an incomplete line.
    void end_line();
    /// Sets the lines that change in place, between the text and the prompt.
    void set_live(std::vector<TerminalText> lines);
    /// Sets the line below the prompt.
    void set_status(TerminalText status);
    /// True while a question waits for its answer.
    bool asking() const noexcept;
    /// The number of the question on the screen, unique in this console; 0: none.
    std::uint64_t shown_question() const noexcept;
    /// While busy, Esc and Ctrl-C interrupt even if text was typed.
    void set_busy(bool busy);
    /// Shows a view on the whole screen until the user closes it. Text that is printed meanwhile appears afterwards, and a
    /// question waits. While another view is open, and after the end of the input, the view is closed at once.
    void open_screen(std::shared_ptr<FullScreen> screen);
    /// Draws again soon: the content of a view has changed.
    void redraw();
    /// The window: its title and the notifications of the user.
    Attention& attention() noexcept;
    /// Edits the prompt with the keys of vi.
    void use_vi_keys();
    /// Sets the keys that the user has changed, for all consoles.
    void set_key_bindings(KeyBindings bindings);
    /// The columns of the status line, without what the console puts at its beginning.
    std::size_t status_columns() const;
    /// Sets what the popup of the prompt offers.
    void set_sources(PopupSources sources);
    void set_commands(std::vector<Command> commands);
    void set_skills(std::vector<Command> skills);
    void set_files(std::shared_ptr<const std::vector<std::string>> files);
    void set_resources(std::vector<Command> resources);
    /// As Prompt::set_picture_test().
    void set_picture_test(std::function<std::string(const std::string& pasted)> picture);
    /// The text of the prompt, with its pastes.
    std::string prompt_text() const;
    void replace_prompt_text(const std::string& text);
    /// Lets another program use the terminal while `work` runs: no key is read, and output appears afterwards. Rethrows what `work`
    /// throws.
    Task<> lend(Task<> work);
    /// As Prompt::hand_back().
    void hand_back(const std::string& text, bool pasted = false, bool has_paste = false);
    /// Writes an escape sequence that does not change the screen.
    void write_control(TerminalView sequence);
    void remember(const std::string& line);

    /// Returns the next action of the user.
    Task<ConsoleInput> next();
    /// Returns when the user interrupts or leaves; other input stays for next().
    Task<> interrupted();
    Task<std::optional<std::string>> read(TerminalText prompt, std::string prefill = {}) override;
    Task<std::optional<std::string>> edit(TerminalText prompt, std::string text) override;
    /// One key is an answer only if it arrives alone, or before Enter: pasted or typed-ahead text is none. In a chat that text goes
    /// to the prompt.
    Task<std::optional<Chosen>> choose(Choices choices) override;
    Task<std::optional<std::size_t>> pick(PickList list) override;
    void set_question(std::function<TerminalText(ScreenSize)> text) override;
    /// In a chat, a question that is cancelled disappears. The only one of a console stays on the screen, and the console is
    /// closed.
    void withdraw() override;

    /// Returns true if the user has left, or a signal has ended the console, and next() has not reported it yet.
    bool has_end() const noexcept;
    /// The termination signal that was reported as ConsoleInput::end; 0: none.
    int ended_by() const noexcept;
    const Style& style() const noexcept;
    std::size_t columns() const noexcept;
    std::size_t rows() const noexcept;
    /// True if all printed text has been shown.
    bool shown() const noexcept;
    /// Removes the prompt permanently; later output continues below.
    void close();

private:
    struct State;
    /// Long enough for the bytes of one key over a slow connection.
    static inline std::chrono::milliseconds escape_timeout_{100};
    std::shared_ptr<State> state_;
};

/// Requests a stop when the user interrupts or leaves.
inline Task<> stop_on_interrupt(std::shared_ptr<Console> console, std::stop_source stop) {
    co_await console->interrupted();
    stop.request_stop();
}

/// Runs `work` until the user interrupts it or leaves, which cancels it: then returns nothing. Rethrows its failure. For work that
/// reads no keys and may wait for a database or a network.
template <class T>
Task<std::optional<T>> unless_interrupted(std::shared_ptr<Console> console, Task<T> work) {
    const Executor executor = co_await this_executor;
    std::stop_source stop;
    BackgroundScope keys(executor);
    keys.spawn(stop_on_interrupt(console, stop));
    Task<T> cancellable = cancel_on(stop.get_token(), std::move(work));
    Outcome<T> done = co_await outcome_of(std::move(cancellable));
    co_await shield();
    co_await keys.close();
    co_await unshield();
    std::optional<T> result;
    if (!done && done.cancelled() && stop.stop_requested()) co_return result;
    result.emplace(std::move(done).value());
    co_return result;
}

}  // namespace cubepi::app
