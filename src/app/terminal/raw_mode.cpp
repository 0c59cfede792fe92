#include "raw_mode.hpp"

#include <poll.h>
#include <unistd.h>

#include "job_control.hpp"

namespace cubepi::app {

RawMode::RawMode(int input, int output) {
    input_ = input;
    output_ = output;
    known_ = tcgetattr(input, &before_) == 0;
    enter();
}

void RawMode::leave() noexcept {
    if (!raw_ || !in_foreground(input_)) return;
    if (alternate_) send("\x1b[?1049l");
    if (focus_reports_) send("\x1b[?1004l");
    if (cursor_shapes_) send("\x1b[0 q");
    send("\x1b[?2004l\x1b[?25h");
    tcsetattr(input_, TCSANOW, &before_);
    raw_ = false;
}

bool RawMode::lost() noexcept {
    termios now = {};
    if (!raw_ || !in_foreground(input_) || tcgetattr(input_, &now) != 0) return false;
    raw_ = (now.c_lflag & ICANON) == 0;
    return !raw_;
}

void RawMode::enter() noexcept {
    if (!known_ || raw_ || !in_foreground(input_)) return;
    termios keys = before_;
    // Output processing is unchanged: a line feed moves to the beginning of the next line.
    keys.c_iflag &= ~static_cast<tcflag_t>(ICRNL | INLCR | IXON | ISTRIP | BRKINT);
    keys.c_lflag &= ~static_cast<tcflag_t>(ECHO | ICANON | IEXTEN | ISIG);
    keys.c_cc[VMIN] = 1;
    keys.c_cc[VTIME] = 0;
    raw_ = tcsetattr(input_, TCSANOW, &keys) == 0;
    if (!raw_) return;
    send("\x1b[?2004h");
    if (focus_reports_) send("\x1b[?1004h");
}

void RawMode::set_focus_reports(bool used) noexcept {
    if (used == focus_reports_) return;
    focus_reports_ = used;
    if (raw_ && in_foreground(input_)) send(used ? "\x1b[?1004h" : "\x1b[?1004l");
}

void RawMode::send(std::string_view text) noexcept {
    // A full terminal buffer would block even the end of the process.
    pollfd ready{output_, POLLOUT, 0};
    if (poll(&ready, 1, 1000) != 1) return;
    // A failed write to the terminal has no remedy.
    [[maybe_unused]] const ssize_t sent = write(output_, text.data(), text.size());
}

}  // namespace cubepi::app
