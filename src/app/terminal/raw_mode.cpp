#include "raw_mode.hpp"

#include <string_view>

#include <termios.h>
#include <unistd.h>

namespace cubepi::app {

namespace {

termios before{};
bool known = false;
bool raw = false;

void send(std::string_view text) {
    // Nothing can be done about a terminal that takes no more.
    [[maybe_unused]] const ssize_t sent = write(STDOUT_FILENO, text.data(), text.size());
}

}  // namespace

RawMode::RawMode() {
    known = tcgetattr(STDIN_FILENO, &before) == 0;
    enter();
}

RawMode::~RawMode() { leave(); }

void RawMode::enter() noexcept {
    if (!known || raw) return;
    termios keys = before;
    // Output stays as it is: a line feed goes to the beginning of the next line.
    keys.c_iflag &= ~static_cast<tcflag_t>(ICRNL | INLCR | IXON | ISTRIP | BRKINT);
    keys.c_lflag &= ~static_cast<tcflag_t>(ECHO | ICANON | IEXTEN | ISIG);
    keys.c_cc[VMIN] = 1;
    keys.c_cc[VTIME] = 0;
    raw = tcsetattr(STDIN_FILENO, TCSADRAIN, &keys) == 0;
    if (raw) send("\x1b[?2004h");
}

void RawMode::leave() noexcept {
    if (!raw) return;
    send("\x1b[?2004l");
    tcsetattr(STDIN_FILENO, TCSADRAIN, &before);
    raw = false;
}

}  // namespace cubepi::app
