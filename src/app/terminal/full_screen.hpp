#pragma once

#include <cstddef>
#include <vector>

#include "keys.hpp"
#include "terminal_text.hpp"

namespace cubepi::app {

/// A view that takes the whole screen of a console, in place of the chat, until it closes: the pager, the list of sessions.
/// Without I/O: the console passes keys and draws the rows. Used on the executor of the console.
class FullScreen {
public:
    FullScreen() = default;
    FullScreen(const FullScreen&) = delete;
    FullScreen& operator=(const FullScreen&) = delete;
    virtual ~FullScreen() = default;

    /// Returns false if the key closes the view.
    virtual bool press(const Key& key) = 0;
    /// Returns the `rows` rows of the screen. `note`: what the user should know about the chat; may be empty.
    virtual std::vector<TerminalText> screen(std::size_t columns, std::size_t rows,
                                             TerminalView note) = 0;
    /// Called once when the view is no longer shown: a key has closed it, or the console has ended.
    virtual void closed() {}
};

}  // namespace cubepi::app
