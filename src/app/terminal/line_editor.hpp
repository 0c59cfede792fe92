#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include <cubepi/core/task.hpp>

#include "prompter.hpp"

namespace cubepi::app {

/// Reads what a person types, with editing and history (libedit). One per process, at a terminal or not. A block of
/// lines that is pasted is one input.
class LineEditor final : public Prompter {
public:
    /// History is kept in `history`; empty: not at all.
    LineEditor(Executor executor, std::filesystem::path history);
    ~LineEditor() override;
    LineEditor(const LineEditor&) = delete;
    LineEditor& operator=(const LineEditor&) = delete;

    /// The answer to a question. An input that is not a terminal is read at once, and nothing of it is discarded.
    Task<std::optional<std::string>> read(TerminalText prompt, std::string prefill = {}) override;
    /// The next input without its line end; empty when the input has ended. `prefill` can be edited; what was typed before is
    /// part of the input. Cancelling it gives the terminal back as it was.
    ///
    /// The input has ended when the terminal is gone, too. In the background the process stops until it is the foreground job.
    Task<std::optional<std::string>> next_line(TerminalText prompt, std::string prefill = {});
    /// False while another job has the terminal.
    bool can_ask() const override;
    void say(TerminalView text) override;
    void withdraw() override;
    ScreenSize size() const override;
    /// Whether the last input was a pasted block of lines; a single line cannot be recognized without bracketed paste.
    bool last_was_block() const noexcept;
    /// Keeps a line in the history.
    void remember(const std::string& line);
    /// Drops what was typed so far and shows the prompt again; false when nothing was typed.
    bool clear_line();

    struct State;

private:
    std::shared_ptr<State> state_;
};

}  // namespace cubepi::app
