#include "line_editor.hpp"

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <utility>

#include <editline/readline.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cubepi/core/cancellation.hpp>

namespace cubepi::app {

namespace {

// libedit's callback takes no argument: the one editor that reads is found here.
LineEditor::State* reading = nullptr;

bool input_waits() {
    pollfd waiting{STDIN_FILENO, POLLIN, 0};
    return poll(&waiting, 1, 0) == 1 && (waiting.revents & POLLIN) != 0;
}

}  // namespace

struct LineEditor::State {
    State(Executor executor, std::filesystem::path history_file)
        : input(executor, dup(STDIN_FILENO)),
          history(std::move(history_file)),
          terminal(isatty(STDIN_FILENO) == 1) {}

    boost::asio::posix::stream_descriptor input;
    std::filesystem::path history;
    bool terminal;
    bool handler_installed = false;
    bool ended = false;
    bool touched = false;  // since the prompt was shown; libedit's buffer keeps the line before
    std::string prompt;
    std::string pasted;               // complete lines of a block that goes on
    std::optional<std::string> line;  // what Enter gave
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
    void install(const char* shown) {
        reading = this;
        rl_callback_handler_install(shown, &State::on_line);
        handler_installed = true;
        touched = false;
    }
    void remove() {
        if (!handler_installed) return;
        rl_callback_handler_remove();
        handler_installed = false;
        reading = nullptr;
    }
};

LineEditor::LineEditor(Executor executor, std::filesystem::path history)
    : state_(std::make_unique<State>(std::move(executor), std::move(history))) {
    if (!state_->terminal) return;
    // libedit's state is the process's: a second initialisation would lose the first one's memory.
    static bool initialized = false;
    if (!std::exchange(initialized, true)) {
        rl_initialize();
        using_history();
    }
    clear_history();
    stifle_history(1000);
    if (!state_->history.empty()) read_history(state_->history.c_str());
}

LineEditor::~LineEditor() { state_->remove(); }

void LineEditor::say(std::string_view text) { std::cout << text << std::flush; }

void LineEditor::remember(const std::string& line) {
    if (!state_->terminal || line.empty()) return;
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
    std::cout << '\n' << std::flush;
    state.install(state.prompt.c_str());
    return typed;
}

namespace {

/// A file or a device without an end to wait for is always ready, and cannot be waited for.
bool always_ready() {
    struct stat status = {};
    return fstat(STDIN_FILENO, &status) != 0 || S_ISREG(status.st_mode) ||
           S_ISBLK(status.st_mode) || S_ISCHR(status.st_mode);
}

/// A line of an input that is no terminal.
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

Task<std::optional<std::string>> LineEditor::read(std::string prompt, std::string prefill) {
    State& state = *state_;
    if (!state.terminal) {
        std::cout << prompt << std::flush;
        co_return co_await read_plain(state.input, state.buffered);
    }
    state.prompt = std::move(prompt);
    state.ended = false;
    state.line.reset();
    state.install(state.prompt.c_str());
    if (!prefill.empty()) {
        rl_insert_text(prefill.c_str());
        state.touched = true;
        rl_redisplay();
    }
    std::exception_ptr failure;
    std::optional<std::string> result;
    try {
        while (!state.ended && !result) {
            co_await state.input.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                                            boost::asio::use_awaitable);
            // libedit reads a character at a time; a pasted block is all there.
            do {
                state.touched = true;
                rl_callback_read_char();
                if (!state.line) continue;
                if (input_waits()) {
                    state.pasted += *state.line + "\n";
                    state.line.reset();
                    state.install("");
                } else {
                    result = std::exchange(state.pasted, {}) + *state.line;
                }
            } while (!state.ended && !result && input_waits());
        }
    } catch (...) {
        failure = std::current_exception();
    }
    state.remove();
    if (failure) std::rethrow_exception(failure);
    if (state.ended && !state.pasted.empty()) result = std::exchange(state.pasted, {});
    co_return result;
}

}  // namespace cubepi::app
