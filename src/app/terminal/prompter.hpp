#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>

#include <cubepi/core/task.hpp>

#include "terminal_text.hpp"

namespace cubepi::app {

/// How long a new question is on the screen before it takes an answer.
inline constexpr std::chrono::milliseconds question_hold{300};

/// A place where text is shown.
struct ScreenSize {
    std::size_t columns = 80;
    std::size_t rows = 24;
};

/// A person who can be told and asked something. Used on one executor.
class Prompter {
public:
    virtual ~Prompter() = default;
    /// False while questions cannot be answered, e.g. in a background job. A caller that can do without the answer then does
    /// not ask.
    virtual bool can_ask() const { return true; }
    /// Called before the text of a question: waits until all earlier output is shown.
    virtual Task<> prepare() { co_return; }
    virtual void say(TerminalView text) = 0;
    virtual ScreenSize size() const { return {}; }
    /// The answer without its line end; empty when the input has ended. `prefill` can be edited. What was typed before the
    /// prompt shows is discarded, and the prompt shows after question_hold: a key that was meant for something else
    /// answers no question.
    virtual Task<std::optional<std::string>> read(TerminalText prompt,
                                                  std::string prefill = {}) = 0;
    /// Called before a read() is cancelled because its question is withdrawn: ends the line of its prompt, so that other
    /// output can follow.
    virtual void withdraw() {}
};

}  // namespace cubepi::app
