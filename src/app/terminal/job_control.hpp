#pragma once

#include <chrono>
#include <stop_token>
#include <string>
#include <string_view>

#include <termios.h>

#include <cubepi/core/task.hpp>

namespace cubepi::app {

/// How long the end of the input is held back when the terminal is gone. The kernel sends SIGHUP just after it; the signal,
/// unless it is ignored, decides how the program ends.
constexpr std::chrono::milliseconds hangup_grace(200);
/// Between two stops of a background job.
constexpr std::chrono::milliseconds pause_between_stops(50);

/// True unless `terminal` is the controlling terminal and another process group is its foreground job. A process in the
/// background must not read the terminal or change its settings: the kernel stops it (SIGTTIN, SIGTTOU).
bool in_foreground(int terminal) noexcept;

/// Stops the process group as the kernel does when a background job reads its terminal, until the shell continues it. Returns
/// false without stopping if no shell could continue it (an orphaned process group) or SIGTTIN is ignored.
bool stop_in_background() noexcept;

/// Stops the process group until it is the foreground job of `terminal`. Returns false if that cannot happen; see
/// stop_in_background(). Signals are handled between two stops, so a termination signal can cancel the wait.
Task<bool> wait_for_foreground(int terminal);

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

/// Lets the user edit a text in $VISUAL, $EDITOR or vi, in a temporary file that only this user can read. `terminal`: of this process,
/// which the editor controls until it ends. Returns the text without a line feed at its end. Blocks; when `stopping` is requested, the
/// editor is asked to end. Throws Error: io, invalid_argument (too large, or not UTF-8), unsupported (the editor failed).
std::string edit_in_editor(const std::string& text, int terminal, std::stop_token stopping);

}  // namespace cubepi::app
