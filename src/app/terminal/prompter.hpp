#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cubepi/core/task.hpp>

#include "terminal_text.hpp"

namespace cubepi::app {

/// The time for which a new question is on the screen before it accepts an answer.
inline constexpr std::chrono::milliseconds question_hold{300};

/// A place where text is shown.
struct ScreenSize {
    std::size_t columns = 80;
    std::size_t rows = 24;
};

/// One of several answers to a question.
struct Choice {
    char key = 0;             ///< selects it: a lower-case letter
    TerminalText label = {};  ///< a word with the key in brackets: "[y]es"
    /// At a terminal that edits lines itself, the answer may continue with a text: "n not this file".
    bool takes_text = false;

    /// The label without brackets.
    std::string word() const;
};

/// "[y]es" and "[n]o".
std::vector<Choice> yes_and_no();

/// The answer to Choices.
struct Chosen {
    char key = 0;           ///< that of a choice; 0: none of them
    std::string text = {};  ///< of a choice that takes one
};

/// A question with several answers.
struct Choices {
    TerminalText text = {};  ///< before the answers; may be empty
    std::vector<Choice> all = {};
    char on_enter = 0;   ///< the key of the answer that Enter alone stands for; 0: none
    char on_escape = 0;  ///< the same for Esc; 0: Esc interrupts

    /// Returns the number, from 1, of the choice with this key; 0: none.
    std::size_t number_of(char key) const noexcept;
    /// Returns the row with the answers, of which the one with the number `marked` is marked; 0: none.
    TerminalText prompt(std::size_t marked) const;
    /// Returns which answers are accepted, for the user: "Answer y, o or n."
    TerminalText hint() const;
    /// Reads a typed line: the key or the word of a choice, in lower or upper case.
    Chosen read(std::string_view line) const;
};

/// A list from which the user picks one row. All texts are untrusted.
struct PickList {
    struct Row {
        std::string text = {};
        std::string note = {};    ///< shown after it
        bool is_current = false;  ///< marked as what is in use
    };
    std::string heading = {};
    std::vector<Row> rows = {};
};

/// The interface to the user: shows text and asks questions. Used on one executor.
class Prompter {
public:
    virtual ~Prompter() = default;
    /// False while questions cannot be answered, e.g. in a background job. A caller that does not need the answer
    /// then does not ask.
    virtual bool can_ask() const { return true; }
    /// Called before the text of a question: waits until all earlier output is shown.
    virtual Task<> prepare() { co_return; }
    virtual void print(TerminalView text) = 0;
    virtual ScreenSize size() const { return {}; }
    /// Returns the answer without its line end; empty at the end of the input. `prefill` can be edited. Keys that
    /// were typed before the prompt appears are discarded, and it appears after question_hold, so that no key
    /// intended for other input answers the question.
    virtual Task<std::optional<std::string>> read(TerminalText prompt,
                                                  std::string prefill = {}) = 0;
    /// As read(), for a text that the user may leave as it is: Esc returns nothing, too.
    virtual Task<std::optional<std::string>> edit(TerminalText prompt, std::string text) {
        return read(std::move(prompt), std::move(text));
    }
    /// Asks for one of several answers; empty at the end of the input. Where single keys can be read, the key of a choice is
    /// an answer, or an arrow key that marks a choice and Enter; elsewhere a line is. As in read(), keys that were typed
    /// before are discarded; an answer is accepted only after a pause of question_hold.
    virtual Task<std::optional<Chosen>> choose(Choices choices);
    /// Lets the user pick a row of a list, and returns its index: by its number, or where the whole screen can be used, in a
    /// ListPicker. Nothing if the user picks none, or at the end of the input.
    virtual Task<std::optional<std::size_t>> pick(PickList list);
    /// Sets the text of the question of the next read() or choose(). It is shown for the size of the screen when the terminal becomes
    /// smaller while it waits, which breaks or moves the rows of the text, and when the screen was cleared.
    virtual void set_question(std::function<TerminalText(ScreenSize)> text) { (void)text; }
    /// Called when the user has accepted a change of a file whose diff was shown.
    virtual void note_accepted(std::string_view path, std::string_view diff) {
        (void)path;
        (void)diff;
    }
    /// Called before a read() is cancelled because its question is withdrawn: ends the line of its prompt, so that other
    /// output can follow.
    virtual void withdraw() {}
};

/// Asks until one of the choices is the answer, and returns its key; 0 at the end of the input. Another answer is followed by
/// Choices::hint().
Task<char> choose_key(std::shared_ptr<Prompter> prompter, Choices choices);

/// The lines of standard input: of a terminal, which edits them itself, of a pipe or of a file. Used on one executor.
class LineInput {
public:
    explicit LineInput(Executor executor);
    ~LineInput();
    LineInput(const LineInput&) = delete;
    LineInput& operator=(const LineInput&) = delete;

    bool is_terminal() const noexcept;
    /// True if the terminal has another complete line.
    bool line_waits() const;
    /// Returns the next line without its line end; empty at the end of the input. The loss of the terminal is also an end,
    /// after hangup_grace. In the background the process stops until it is the foreground job. Throws Error(invalid_argument) for a
    /// line of more than `limit` bytes.
    Task<std::optional<std::string>> next(std::size_t limit = std::string::npos);

private:
    struct State;
    std::unique_ptr<State> state_;
};

/// Asks questions on standard output, one after another. At a terminal with cursor movements a question is the only content
/// of a Console, with its keys; another terminal edits the lines itself.
class LinePrompter final : public Prompter {
public:
    /// Inputs are stored in the file `history`; empty: not stored.
    LinePrompter(Executor executor, std::filesystem::path history);
    ~LinePrompter() override;
    LinePrompter(const LinePrompter&) = delete;
    LinePrompter& operator=(const LinePrompter&) = delete;

    /// An input that is not a terminal is read at once, without discarding anything. A terminal that edits the line itself
    /// shows `prefill` above the prompt; an empty line then stands for it.
    Task<std::optional<std::string>> read(TerminalText prompt, std::string prefill = {}) override;
    Task<std::optional<std::string>> edit(TerminalText prompt, std::string text) override;
    Task<std::optional<Chosen>> choose(Choices choices) override;
    /// Reads the next input of a chat, without its line end; empty at the end of the input. At a terminal, lines that arrive
    /// together are one input.
    Task<std::optional<std::string>> next_input(TerminalText prompt);
    /// False while another job has the terminal.
    bool can_ask() const override;
    void print(TerminalView text) override;
    void withdraw() override;
    ScreenSize size() const override;
    /// Returns whether the last input was a pasted block of lines.
    bool last_was_block() const noexcept;
    /// Adds an input to the history.
    void remember(const std::string& input);
    /// Shows the prompt of next_input() on a new line: the terminal has dropped the typed text at Ctrl-C.
    void show_again();

private:
    struct State;
    std::shared_ptr<State> state_;
};

}  // namespace cubepi::app
