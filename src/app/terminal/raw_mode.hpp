#pragma once

#include <string_view>

#include <termios.h>

namespace cubepi::app {

/// Switches a terminal from lines to single keys during its lifetime. One at a time.
class RawMode {
public:
    RawMode(int input, int output);
    ~RawMode() { leave(); }
    RawMode(const RawMode&) = delete;
    RawMode& operator=(const RawMode&) = delete;

    /// Restores the terminal's settings. Called before the process stops or exits without destructors. Does nothing in a
    /// background job, as enter() does.
    static void leave() noexcept;
    /// Changes the settings again.
    static void enter() noexcept;
    /// True if this is the foreground job and another program has changed the settings, so that enter() is needed.
    static bool lost() noexcept;

    /// A program on the alternate screen must leave it with leave().
    static void set_alternate_screen(bool used) noexcept { alternate_ = used; }
    /// The terminal reports whether its window is in front, until leave().
    static void set_focus_reports(bool used) noexcept;
    /// The program sets the shape of the cursor, which leave() resets.
    static void set_cursor_shapes(bool used) noexcept { cursor_shapes_ = used; }

private:
    static void send(std::string_view text) noexcept;

    static inline termios before_ = {};
    static inline int input_ = 0;
    static inline int output_ = 1;
    static inline bool known_ = false;
    static inline bool raw_ = false;
    static inline bool alternate_ = false;
    static inline bool focus_reports_ = false;
    static inline bool cursor_shapes_ = false;
};

}  // namespace cubepi::app
