#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>

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

/// The interface to the user: shows text and asks questions. Used on one executor.
class Prompter {
public:
    virtual ~Prompter() = default;
    /// False while questions cannot be answered, e.g. in a background job. A caller that does not need the answer
    /// then does not ask.
    virtual bool can_ask() const { return true; }
    /// Called before the text of a question: waits until all earlier output is shown.
    virtual Task<> prepare() { co_return; }
    virtual void say(TerminalView text) = 0;
    virtual ScreenSize size() const { return {}; }
    /// Returns the answer without its line end; empty at the end of the input. `prefill` can be edited. Keys that
    /// were typed before the prompt appears are discarded, and it appears after question_hold, so that no key
    /// intended for other input answers the question.
    virtual Task<std::optional<std::string>> read(TerminalText prompt,
                                                  std::string prefill = {}) = 0;
    /// Called before a read() is cancelled because its question is withdrawn: ends the line of its prompt, so that other
    /// output can follow.
    virtual void withdraw() {}
};

}  // namespace cubepi::app
