#pragma once

#include <functional>
#include <memory>

#include <cubepi/core/task.hpp>

#include "terminal_text.hpp"

namespace cubepi::app {

/// What is written to a terminal, without waiting for it: a slow one must not hold up the keys. Used on one executor.
class TerminalOutput {
public:
    /// `fd` stays the caller's. `ascii`: the terminal knows no UTF-8, and gets plain signs for our own.
    TerminalOutput(Executor executor, int fd, bool ascii);
    ~TerminalOutput();
    TerminalOutput(const TerminalOutput&) = delete;
    TerminalOutput& operator=(const TerminalOutput&) = delete;

    void write(TerminalView text);
    /// Everything has been taken.
    bool idle() const noexcept;
    /// Called each time when it becomes idle after it was not.
    void on_idle(std::function<void()> then);
    /// Waits until everything has been taken, or the terminal has taken nothing for a while.
    void drain();

private:
    struct State;
    std::shared_ptr<State> state_;
};

/// True where the locale says that a terminal knows no UTF-8.
bool terminal_is_ascii();

}  // namespace cubepi::app
