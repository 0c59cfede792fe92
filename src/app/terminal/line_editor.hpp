#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include <cubepi/core/task.hpp>

#include "prompter.hpp"

namespace cubepi::app {

/// Reads input lines with editing and history (libedit). One per process, at a terminal or not. A pasted block of
/// lines is one input.
class LineEditor final : public Prompter {
public:
    /// History is stored in `history`; empty: not stored.
    LineEditor(Executor executor, std::filesystem::path history);
    ~LineEditor() override;
    LineEditor(const LineEditor&) = delete;
    LineEditor& operator=(const LineEditor&) = delete;

    /// Reads the answer to a question. An input that is not a terminal is read at once, without discarding anything.
    Task<std::optional<std::string>> read(TerminalText prompt, std::string prefill = {}) override;
    /// Reads the next input without its line end; empty at the end of the input. `prefill` can be edited; text that
    /// was typed before is part of the input. Cancelling restores the terminal. The loss of the terminal is also an
    /// end of the input. In the background the process stops until it is the foreground job.
    Task<std::optional<std::string>> next_line(TerminalText prompt, std::string prefill = {});
    /// False while another job has the terminal.
    bool can_ask() const override;
    void say(TerminalView text) override;
    void withdraw() override;
    ScreenSize size() const override;
    /// Returns whether the last input was a pasted block of lines; a single line cannot be recognized without
    /// bracketed paste.
    bool last_was_block() const noexcept;
    /// Adds a line to the history.
    void remember(const std::string& line);
    /// Drops the typed text and shows the prompt again; returns false if nothing was typed.
    bool clear_line();

    struct State;

private:
    std::shared_ptr<State> state_;
};

}  // namespace cubepi::app
