#pragma once

#include "terminal_text.hpp"

namespace cubepi::app {

/// The use of colors on a stream: none if it is not a terminal, NO_COLOR is set, or TERM is dumb.
struct Style {
    bool terminal = false;
    bool color = false;
    int columns = 80;
    int rows = 24;

    /// Returns the current style for an open file descriptor.
    static Style of(int fd);

    TerminalView bold() const noexcept { return sequence("\x1b[1m"); }
    TerminalView dim() const noexcept { return sequence("\x1b[2m"); }
    TerminalView italic() const noexcept { return sequence("\x1b[3m"); }
    TerminalView cyan() const noexcept { return sequence("\x1b[36m"); }
    TerminalView green() const noexcept { return sequence("\x1b[32m"); }
    TerminalView red() const noexcept { return sequence("\x1b[31m"); }
    TerminalView yellow() const noexcept { return sequence("\x1b[33m"); }
    TerminalView off() const noexcept { return sequence("\x1b[0m"); }

private:
    TerminalView sequence(TerminalView code) const noexcept {
        return color ? code : TerminalView();
    }
};

}  // namespace cubepi::app
