#pragma once

#include <functional>
#include <memory>

#include <cubepi/core/task.hpp>

#include "terminal_text.hpp"

namespace cubepi::app {

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
