#include "terminal_stream.hpp"

#include <boost/asio/posix/stream_descriptor.hpp>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <iostream>
#include <string>
#include <utility>

#include <langinfo.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cubepi/core/support/posix_file.hpp>

#include "text_layout.hpp"

namespace cubepi::app {

namespace {

constexpr int patience_in_milliseconds = 2000;

/// Opens the terminal again, so that it can be non-blocking without affecting other processes (the shell).
int own_descriptor(int fd) {
    std::array<char, 256> name{};
    if (ttyname_r(fd, name.data(), name.size()) != 0) return -1;
    return detail::open_file(name.data(), O_WRONLY | O_NONBLOCK).release();
}

struct Sign {
    std::string_view sign;
    char plain;
};
// The symbols and their replacements take one column each.
constexpr std::array signs{
    Sign{"●", '*'}, Sign{"•", '*'}, Sign{"✓", '+'},  Sign{"✗", 'x'},  Sign{"↳", '>'},
    Sign{"…", '~'}, Sign{"·", '-'}, Sign{"│", '|'},  Sign{"─", '-'},  Sign{"—", '-'},
    Sign{"⠋", '|'}, Sign{"⠙", '/'}, Sign{"⠹", '-'},  Sign{"⠸", '\\'}, Sign{"⠼", '|'},
    Sign{"⠴", '/'}, Sign{"⠦", '-'}, Sign{"⠧", '\\'}, Sign{"⠇", '|'},  Sign{"⠏", '/'},
    Sign{"›", '>'}, Sign{"←", '<'}, Sign{"→", '>'},  Sign{"☐", 'o'},  Sign{"☑", 'x'}};

std::string with_plain_signs(std::string_view text) {
    std::string plain;
    while (!text.empty()) {
        std::size_t taken = 1;
        char byte = text.front();
        for (const Sign& one : signs) {
            if (!text.starts_with(one.sign)) continue;
            byte = one.plain;
            taken = one.sign.size();
            break;
        }
        plain += byte;
        text.remove_prefix(taken);
    }
    return plain;
}

}  // namespace

Style Style::of(int fd) {
    Style style;
    style.terminal = isatty(fd) == 1;
    const char* no_color = std::getenv("NO_COLOR");
    const char* term = std::getenv("TERM");
    const bool dumb = !term || std::string_view(term) == "dumb";
    style.color = style.terminal && !dumb && !(no_color && *no_color);
    const char* depth = std::getenv("COLORTERM");
    const std::string_view kind = term ? term : "";
    style.many_colors =
        style.color &&
        (kind.find("256color") != kind.npos || kind.find("direct") != kind.npos ||
         (depth && (std::string_view(depth) == "truecolor" || std::string_view(depth) == "24bit")));
    winsize size = {};
    if (ioctl(fd, TIOCGWINSZ, &size) == 0) {
        style.has_width = size.ws_col > 0;
        if (style.has_width) style.columns = size.ws_col;
        if (size.ws_row > 0) style.rows = size.ws_row;
    }
    return style;
}

/// The programs of the commands that are printed for copying.
constexpr std::array<std::string_view, 6> commands{"cubepi",     "export",   "systemctl",
                                                   "journalctl", "loginctl", "sudo"};

TerminalStream::TerminalStream(std::ostream& to)
    : to_(to),
      fd_(&to == &std::cout   ? STDOUT_FILENO
          : &to == &std::cerr ? STDERR_FILENO
                              : -1) {}

void TerminalStream::end_row(std::string& written, char by) {
    written.append(std::exchange(blanks_, 0), ' ');
    written += by;
    column_ = indent_ = 0;
    has_words_ = is_whole_ = false;
}

void TerminalStream::add_word(std::string& written, std::string_view word) {
    const std::size_t width = display_width(word);
    if (!has_words_ && width > 0) {
        has_words_ = true;
        const bool is_text = std::isalnum(static_cast<unsigned char>(word.front())) != 0;
        const bool is_command =
            std::find(commands.begin(), commands.end(), word) != commands.end() ||
            word.find('=') != std::string_view::npos;
        is_whole_ = is_command && column_ + blanks_ > 0;
        indent_ = column_ + blanks_ + (width == 1 && !is_text ? 2 : 0);
    }
    const bool fits = column_ + blanks_ + width <= columns_;
    if (!fits && !is_whole_ && blanks_ > 0 && column_ > indent_ && indent_ < columns_ / 2) {
        written += '\n';
        written.append(indent_, ' ');
        column_ = indent_;
    } else {
        written.append(blanks_, ' ');
        column_ += blanks_;
    }
    blanks_ = 0;
    written += word;
    column_ += width;
}

void TerminalStream::write(std::string_view text) {
    const Style style = Style::of(fd_);
    if (!style.terminal || !style.has_width) {
        to_ << text;
        return;
    }
    columns_ = static_cast<std::size_t>(style.columns);
    std::string written;
    while (!text.empty()) {
        const char first = text.front();
        if (first == '\n' || first == '\r') {
            end_row(written, first);
            text.remove_prefix(1);
        } else if (first == ' ') {
            ++blanks_;
            text.remove_prefix(1);
        } else {
            const std::size_t end = std::min(text.find_first_of(" \n\r"), text.size());
            add_word(written, text.substr(0, end));
            text.remove_prefix(end);
        }
    }
    to_ << written;
}

void TerminalStream::write_laid_out(TerminalView text) {
    to_ << std::string(std::exchange(blanks_, 0), ' ') << text.str();
    const std::size_t feed = text.str().rfind('\n');
    if (feed == std::string_view::npos) return;
    column_ = indent_ = 0;
    has_words_ = is_whole_ = false;
}

void TerminalStream::flush() {
    to_ << std::string(std::exchange(blanks_, 0), ' ');
    to_.flush();
    // The line may be a prompt, which ends with the user's input.
    column_ = indent_ = 0;
    has_words_ = is_whole_ = false;
}

TerminalStream& out() {
    static TerminalStream stream(std::cout);
    return stream;
}

TerminalStream& err() {
    static TerminalStream stream(std::cerr);
    return stream;
}

std::ostream& log_output() { return std::cerr; }

void data_output(std::string_view data) { data_output(std::cout, data); }

void data_output(std::ostream& to, std::string_view data) {
    static const bool terminal = isatty(STDOUT_FILENO) == 1;
    if (terminal && &to == &std::cout) {
        to << printable(data);
    } else {
        to << data;
    }
}

bool terminal_is_ascii() { return std::string_view(nl_langinfo(CODESET)) != "UTF-8"; }

struct TerminalOutput::State : std::enable_shared_from_this<TerminalOutput::State> {
    State(Executor executor, int fd_, bool ascii_) : fd(fd_), ascii(ascii_), own(executor) {
        const int opened = own_descriptor(fd_);
        if (opened >= 0) own.assign(opened);
    }

    int target() { return own.is_open() ? own.native_handle() : fd; }

    /// Writes the output that the terminal accepts now; discards all output if it is gone.
    void push() {
        while (written < pending.size()) {
            const ssize_t count =
                ::write(target(), pending.data() + written, pending.size() - written);
            if (count >= 0) {
                written += static_cast<std::size_t>(count);
            } else if (errno == EAGAIN) {
                return;
            } else if (errno != EINTR) {
                written = pending.size();
            }
        }
        pending.clear();
        written = 0;
    }

    void wait() {
        if (waiting || pending.empty()) return;
        waiting = true;
        own.async_wait(boost::asio::posix::stream_descriptor::wait_write,
                       [self = shared_from_this()](const boost::system::error_code& failed) {
                           self->waiting = false;
                           if (failed) return;
                           self->push();
                           if (!self->pending.empty()) return self->wait();
                           if (self->then) self->then();
                       });
    }

    int fd;
    bool ascii;
    boost::asio::posix::stream_descriptor own;
    std::string pending;
    std::size_t written = 0;
    bool waiting = false;
    std::function<void()> then;
};

TerminalOutput::TerminalOutput(Executor executor, int fd, bool ascii)
    : state_(std::make_shared<State>(std::move(executor), fd, ascii)) {}

TerminalOutput::~TerminalOutput() {
    state_->then = nullptr;
    boost::system::error_code ignored;
    (void)state_->own.close(ignored);
}

void TerminalOutput::write(TerminalView text) {
    const std::string_view bytes = text.str();
    state_->pending += state_->ascii ? with_plain_signs(bytes) : std::string(bytes);
    state_->push();
    state_->wait();
}

bool TerminalOutput::idle() const noexcept { return state_->pending.empty(); }

void TerminalOutput::on_idle(std::function<void()> then) { state_->then = std::move(then); }

void TerminalOutput::drain() {
    State& state = *state_;
    state.push();
    while (!state.pending.empty()) {
        pollfd ready{state.target(), POLLOUT, 0};
        const int count = poll(&ready, 1, patience_in_milliseconds);
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) {
            state.pending.clear();
            state.written = 0;
            return;
        }
        state.push();
    }
}

}  // namespace cubepi::app
