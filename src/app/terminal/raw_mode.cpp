#include "raw_mode.hpp"

#include <string_view>

#include <poll.h>
#include <termios.h>
#include <unistd.h>

#include "job_control.hpp"

namespace cubepi::app {

namespace {

termios before{};
int input_fd = STDIN_FILENO;
int output_fd = STDOUT_FILENO;
bool known = false;
bool raw = false;

void send(std::string_view text) {
    // A full terminal buffer would block even the end of the process.
    pollfd ready{output_fd, POLLOUT, 0};
    if (poll(&ready, 1, 1000) != 1) return;
    // A failed write to the terminal has no remedy.
    [[maybe_unused]] const ssize_t sent = write(output_fd, text.data(), text.size());
}

}  // namespace

RawMode::RawMode(int input, int output) {
    input_fd = input;
    output_fd = output;
    known = tcgetattr(input_fd, &before) == 0;
    enter();
}

RawMode::~RawMode() { leave(); }

void RawMode::enter() noexcept {
    if (!known || raw || !in_foreground(input_fd)) return;
    termios keys = before;
    // Output processing is unchanged: a line feed moves to the beginning of the next line.
    keys.c_iflag &= ~static_cast<tcflag_t>(ICRNL | INLCR | IXON | ISTRIP | BRKINT);
    keys.c_lflag &= ~static_cast<tcflag_t>(ECHO | ICANON | IEXTEN | ISIG);
    keys.c_cc[VMIN] = 1;
    keys.c_cc[VTIME] = 0;
    raw = tcsetattr(input_fd, TCSANOW, &keys) == 0;
    if (raw) send("\x1b[?2004h");
}

void RawMode::leave() noexcept {
    if (!raw || !in_foreground(input_fd)) return;
    send("\x1b[?2004l\x1b[?25h");
    tcsetattr(input_fd, TCSANOW, &before);
    raw = false;
}

}  // namespace cubepi::app
