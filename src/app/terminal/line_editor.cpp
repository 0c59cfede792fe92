#include "line_editor.hpp"

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cwchar>
#include <utility>

#include <editline/readline.h>
#include <poll.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/runtime.hpp>

#include "job_control.hpp"
#include "terminal_stream.hpp"

namespace cubepi::app {

namespace {

// libedit's callback takes no argument: the one editor that reads is found here.
LineEditor::State* reading = nullptr;

/// False once the terminal has hung up. libedit then returns at once, without reading and without an error.
bool terminal_answers() {
    termios settings = {};
    while (tcgetattr(STDIN_FILENO, &settings) != 0) {
        if (errno != EINTR) return false;
    }
    return true;
}

bool input_waits() {
    pollfd waiting{STDIN_FILENO, POLLIN, 0};
    return poll(&waiting, 1, 0) == 1 && (waiting.revents & POLLIN) != 0;
}

}  // namespace

struct LineEditor::State : std::enable_shared_from_this<State> {
    State(Executor executor, std::filesystem::path history_file)
        : input(executor, dup(STDIN_FILENO)),
          continued(executor),
          history(std::move(history_file)),
          terminal(isatty(STDIN_FILENO) == 1) {}

    boost::asio::posix::stream_descriptor input;
    boost::asio::signal_set continued;
    std::filesystem::path history;
    bool terminal;
    bool prepared = false;
    bool handler_installed = false;
    bool handler_left =
        false;  // libedit still has it: the terminal was another job's when the read ended
    bool ended = false;
    bool gone = false;     // the terminal
    bool touched = false;  // since the prompt was shown; libedit's buffer keeps the line before
    std::string prompt;
    bool block = false;               // the last input had several lines
    std::string pasted;               // complete lines of an unfinished block
    std::optional<std::string> line;  // the result of Enter
    std::string buffered;             // read from a pipe and not used yet

    static void on_line(char* text) {
        State& self = *reading;
        if (!text) {
            self.ended = true;
        } else {
            self.line = std::string(text);
            std::free(text);
        }
        rl_callback_handler_remove();
        self.handler_installed = false;
    }

    /// Reads a character for libedit, which does not report that the terminal is gone.
    static int read_character(std::FILE*) {
        State& self = *reading;
        std::mbstate_t shift = {};
        std::string bytes;
        for (;;) {
            char byte = 0;
            const ssize_t count = ::read(STDIN_FILENO, &byte, 1);
            if (count < 0 && errno == EINTR && in_foreground(STDIN_FILENO)) continue;
            if (count <= 0) {
                const bool later = count < 0 && (errno == EINTR || errno == EAGAIN);
                if (!later) self.ended = self.gone = true;
                return EOF;
            }
            bytes += byte;
            wchar_t wide = 0;
            const std::size_t used = std::mbrtowc(&wide, &byte, 1, &shift);
            if (used == static_cast<std::size_t>(-2)) continue;
            if (used != static_cast<std::size_t>(-1)) {
                // libedit would show bidirectional control characters unchanged.
                const bool key = bytes.size() == 1 || printable(bytes) == bytes;
                return key ? static_cast<int>(wide) : 0xFFFD;
            }
            shift = {};  // an invalid byte is dropped
            bytes.clear();
        }
    }

    /// Initializes libedit. Only in the foreground, since it changes the terminal.
    void prepare() {
        if (std::exchange(prepared, true)) return;
        // libedit's state is global: a second initialization would leak the memory of the first.
        static bool initialized = false;
        if (!std::exchange(initialized, true)) {
            rl_getc_function = &State::read_character;
            // libedit's handlers set up the terminal at SIGCONT, also in the background, where that stops the process again,
            // before it can handle another signal. This editor handles SIGCONT itself, and others handle the rest.
            rl_catch_signals = 0;
            rl_initialize();
            using_history();
        }
        clear_history();
        stifle_history(1000);
        if (!history.empty()) read_history(history.c_str());
    }

    void install(const char* shown) {
        if (std::exchange(handler_left, false)) rl_callback_handler_remove();
        reading = this;
        rl_callback_handler_install(shown, &State::on_line);
        handler_installed = true;
        touched = false;
    }

    void remove() {
        if (!std::exchange(handler_installed, false)) return;
        if (in_foreground(STDIN_FILENO)) {
            rl_callback_handler_remove();
        } else {
            handler_left = true;
        }
        reading = nullptr;
    }

    void insert(const std::string& text) {
        if (text.empty()) return;
        rl_insert_text(text.c_str());
        touched = true;
        rl_redisplay();
    }

    /// The shell has changed the terminal's settings while this job was stopped.
    void watch_continued() {
        continued.async_wait(
            [self = shared_from_this()](const boost::system::error_code& failed, int) {
                if (failed || !self->handler_installed) return;
                if (in_foreground(STDIN_FILENO)) self->show_again();
                self->watch_continued();
            });
    }

    std::optional<std::string> take_keys();
    Task<std::optional<std::string>> read_line();

    void show_again() {
        const std::string typed = touched && rl_line_buffer ? rl_line_buffer : "";
        remove();
        install(prompt.c_str());
        insert(typed);
    }
};

LineEditor::LineEditor(Executor executor, std::filesystem::path history)
    : state_(std::make_shared<State>(std::move(executor), std::move(history))) {}

LineEditor::~LineEditor() { state_->remove(); }

bool LineEditor::can_ask() const { return !state_->terminal || in_foreground(STDIN_FILENO); }

bool LineEditor::last_was_block() const noexcept { return state_->block; }

void LineEditor::say(TerminalView text) { out() << text << flush_now; }

void LineEditor::withdraw() {
    if (state_->handler_installed) out() << "\n" << flush_now;
}

ScreenSize LineEditor::size() const {
    const Style style = Style::of(STDOUT_FILENO);
    return {static_cast<std::size_t>(style.columns), static_cast<std::size_t>(style.rows)};
}

void LineEditor::remember(const std::string& line) {
    if (!state_->prepared || line.empty()) return;
    add_history(line.c_str());
    if (state_->history.empty()) return;
    write_history(state_->history.c_str());
    chmod(state_->history.c_str(), S_IRUSR | S_IWUSR);
}

bool LineEditor::clear_line() {
    State& state = *state_;
    if (!state.handler_installed) return false;
    const bool on_line = state.touched && rl_line_buffer && *rl_line_buffer;
    const bool typed = on_line || !state.pasted.empty();
    state.pasted.clear();
    state.remove();
    out() << "\n" << flush_now;
    state.install(state.prompt.c_str());
    return typed;
}

namespace {

/// A file or device that is always ready cannot be waited for.
bool always_ready() {
    struct stat status = {};
    return fstat(STDIN_FILENO, &status) != 0 || S_ISREG(status.st_mode) ||
           S_ISBLK(status.st_mode) || S_ISCHR(status.st_mode);
}

/// Reads a line of an input that is not a terminal.
Task<std::optional<std::string>> read_plain(boost::asio::posix::stream_descriptor& input,
                                            std::string& buffered) {
    for (;;) {
        const std::size_t end = buffered.find('\n');
        if (end != std::string::npos) {
            std::optional<std::string> line(buffered.substr(0, end));
            buffered.erase(0, end + 1);
            co_return line;
        }
        if (!always_ready()) {
            co_await input.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                                      boost::asio::use_awaitable);
        }
        char bytes[4096];
        const ssize_t count = ::read(STDIN_FILENO, bytes, sizeof bytes);
        if (count < 0 && (errno == EINTR || (errno == EAGAIN && !always_ready()))) continue;
        if (count > 0) {
            buffered.append(bytes, static_cast<std::size_t>(count));
            continue;
        }
        std::optional<std::string> rest;
        if (!buffered.empty()) rest = std::exchange(buffered, {});
        co_return rest;
    }
}

}  // namespace

/// Handles what can be read; returns the input once it is complete.
std::optional<std::string> LineEditor::State::take_keys() {
    // libedit reads one character at a time; a pasted block is complete.
    do {
        if (!terminal_answers()) {
            ended = gone = true;
            break;
        }
        touched = true;
        rl_callback_read_char();
        if (!line) continue;
        if (!input_waits()) return std::exchange(pasted, {}) + *line;
        block = true;
        pasted += *line + "\n";
        line.reset();
        install("");
    } while (!ended && input_waits());
    return std::nullopt;
}

Task<std::optional<std::string>> LineEditor::State::read_line() {
    std::optional<std::string> result;
    while (!ended && !result) {
        co_await input.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                                  boost::asio::use_awaitable);
        const bool foreground = co_await wait_for_foreground(STDIN_FILENO);
        if (!foreground) ended = true;
        if (foreground) result = take_keys();
    }
    if (gone) co_await Runtime::standard()->clock->sleep_for(hangup_grace);
    if (ended && !pasted.empty()) result = std::exchange(pasted, {});
    co_return result;
}

Task<std::optional<std::string>> LineEditor::read(TerminalText prompt, std::string prefill) {
    if (state_->terminal) {
        co_await Runtime::standard()->clock->sleep_for(question_hold);
        if (in_foreground(STDIN_FILENO)) tcflush(STDIN_FILENO, TCIFLUSH);
        state_->pasted.clear();
    }
    co_return co_await next_line(std::move(prompt), std::move(prefill));
}

Task<std::optional<std::string>> LineEditor::next_line(TerminalText prompt, std::string prefill) {
    State& state = *state_;
    if (!state.terminal) {
        say(prompt);
        co_return co_await read_plain(state.input, state.buffered);
    }
    state.prompt = prompt.str();
    state.ended = state.gone = false;
    state.block = false;
    state.line.reset();
    const bool foreground = co_await wait_for_foreground(STDIN_FILENO);
    if (!foreground) co_return std::nullopt;
    state.prepare();
    state.continued.add(SIGCONT);
    state.watch_continued();
    state.install(state.prompt.c_str());
    // libedit shows its input unchanged.
    if (visible(prefill) == prefill) state.insert(prefill);
    std::exception_ptr failure;
    std::optional<std::string> result;
    try {
        result = co_await state.read_line();
    } catch (...) {
        failure = std::current_exception();
    }
    boost::system::error_code ignored;
    (void)state.continued.clear(ignored);
    (void)state.continued.cancel(ignored);
    state.remove();
    if (failure) std::rethrow_exception(failure);
    co_return result;
}

}  // namespace cubepi::app
