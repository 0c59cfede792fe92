#include "console.hpp"

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <deque>
#include <utility>

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cubepi/core/event_signal.hpp>

#include "completer.hpp"
#include "edit_buffer.hpp"
#include "history.hpp"
#include "input_field.hpp"
#include "keys.hpp"
#include "live_area.hpp"
#include "raw_mode.hpp"
#include "text_width.hpp"

namespace cubepi::app {

namespace {

constexpr std::chrono::milliseconds escape_silence(40);

void write_all(std::string_view text) {
    while (!text.empty()) {
        const ssize_t count = write(STDOUT_FILENO, text.data(), text.size());
        if (count > 0) {
            text.remove_prefix(static_cast<std::size_t>(count));
            continue;
        }
        if (errno == EINTR) continue;
        if (errno != EAGAIN) return;
        pollfd ready{STDOUT_FILENO, POLLOUT, 0};
        poll(&ready, 1, 1000);
    }
}

winsize terminal_size() {
    winsize size{};
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) size.ws_col = 80;
    if (size.ws_row == 0) size.ws_row = 24;
    return size;
}

bool input_waits() {
    pollfd waiting{STDIN_FILENO, POLLIN, 0};
    return poll(&waiting, 1, 0) == 1 && (waiting.revents & POLLIN) != 0;
}

struct Question {
    std::string prompt = {};
    EditBuffer buffer = {};
    std::optional<std::string> answer = {};
    AsyncEvent over = AsyncEvent();
};

}  // namespace

struct Console::State : std::enable_shared_from_this<Console::State> {
    State(Executor executor_, Clock& clock, std::filesystem::path history_file)
        : executor(executor_),
          input(executor_, dup(STDIN_FILENO)),
          resized(executor_, SIGWINCH),
          ended(executor_, SIGTERM, SIGHUP),
          escape_timer(clock.timer(executor_)),
          history(std::move(history_file)),
          style(Style::of(STDOUT_FILENO)),
          area([](std::string_view text) { write_all(text); }, terminal_size().ws_col,
               terminal_size().ws_row) {}

    void begin() {
        wait_for_keys();
        wait_for_resize();
        ended.async_wait([](const boost::system::error_code& failed, int signal) {
            if (failed) return;
            RawMode::leave();
            std::_Exit(128 + signal);
        });
        schedule();
    }

    void close() {
        if (closed) return;
        closed = true;
        escape_timer->cancel();
        boost::system::error_code ignored;
        input.cancel(ignored);
        resized.cancel(ignored);
        ended.cancel(ignored);
        area.hide();
        raw.reset();
    }

    // What is shown.

    void schedule() {
        if (closed || std::exchange(scheduled, true)) return;
        boost::asio::post(executor, [self = shared_from_this()] { self->draw(); });
    }

    void draw() {
        scheduled = false;
        if (closed) return;
        area.show(content());
        area.draw();
    }

    LiveArea::Content content() const {
        LiveArea::Content content;
        const std::size_t rows = area.rows();
        // The prompt comes first where there is little room.
        const std::size_t room = rows > 8 ? rows / 2 : rows;
        const std::size_t live_room = rows > 6 ? rows / 3 : 0;
        const std::size_t skipped = live.size() > live_room ? live.size() - live_room : 0;
        for (std::size_t i = skipped; i < live.size(); ++i) content.lines.push_back(live[i]);
        if (!hint.empty() && rows > 4) content.lines.push_back(hint);
        const FieldRows field = shown_field(room);
        content.cursor_line = content.lines.size() + field.cursor_row;
        content.cursor_column = field.cursor_column;
        content.lines.insert(content.lines.end(), field.rows.begin(), field.rows.end());
        if (!status.empty() && rows > 3)
            content.lines.push_back(std::string(style.dim()) + status + std::string(style.off()));
        return content;
    }

    FieldRows shown_field(std::size_t max_rows) const {
        if (!questions.empty()) {
            const Question& question = *questions.front();
            return field_rows(question.prompt, question.buffer, area.columns(), max_rows);
        }
        if (searching) {
            EditBuffer found;
            found.set(buffer.text());
            return field_rows("search '" + pattern + "' > ", found, area.columns(), max_rows);
        }
        return field_rows(std::string(style.bold()) + "> " + std::string(style.off()), buffer,
                          area.columns(), max_rows);
    }

    void wait_for_resize() {
        resized.async_wait(
            [self = shared_from_this()](const boost::system::error_code& failed, int) {
                if (failed || self->closed) return;
                const winsize size = terminal_size();
                self->area.resize(size.ws_col, size.ws_row);
                self->style.columns = size.ws_col;
                self->schedule();
                self->wait_for_resize();
            });
    }

    // What is typed.

    void wait_for_keys() {
        input.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                         [self = shared_from_this()](const boost::system::error_code& failed) {
                             if (failed || self->closed) return;
                             char bytes[4096];
                             const ssize_t count = ::read(STDIN_FILENO, bytes, sizeof bytes);
                             if (count <= 0 && errno != EINTR && errno != EAGAIN)
                                 return self->push(ConsoleInput::Kind::end);
                             self->escape_timer->cancel();
                             if (count > 0)
                                 self->take(self->decoder.feed(
                                     std::string_view(bytes, static_cast<std::size_t>(count))));
                             if (self->closed) return;
                             if (self->decoder.waiting()) {
                                 self->escape_timer->expires_after(
                                     escape_silence, [self] { self->take(self->decoder.flush()); });
                             }
                             self->wait_for_keys();
                         });
    }

    void take(const std::vector<Key>& keys) {
        for (std::size_t i = 0; i < keys.size() && !closed; ++i) {
            const bool more = i + 1 < keys.size() || input_waits();
            press(keys[i], more);
        }
        schedule();
    }

    void push(ConsoleInput::Kind kind, std::string text = {}) {
        ConsoleInput made;
        made.kind = kind;
        made.text = std::move(text);
        inputs.push_back(std::move(made));
        arrived.pulse();
    }

    void press(const Key& key, bool more_follows) {
        hint.clear();
        switch (key.code) {
            case KeyCode::interrupt: return interrupt();
            case KeyCode::unfold: return push(ConsoleInput::Kind::unfold);
            case KeyCode::suspend: return suspend();
            case KeyCode::clear_screen: write_all("\x1b[H\x1b[2J"); return area.forget();
            default: break;
        }
        if (!questions.empty()) return press_in_question(key);
        if (searching && press_in_search(key)) return;
        switch (key.code) {
            case KeyCode::enter:
                // A line end in the middle of a block is part of what was pasted.
                if (more_follows) return buffer.insert("\n");
                return submit();
            case KeyCode::escape:
                if (busy) return push(ConsoleInput::Kind::interrupt);
                return;
            case KeyCode::end_of_input:
                if (buffer.empty()) return push(ConsoleInput::Kind::end);
                (void)buffer.apply(Key{KeyCode::erase, {}});
                return;
            case KeyCode::tab: return complete();
            case KeyCode::search:
                searching = true;
                pattern.clear();
                history.rewind();
                return;
            default: break;
        }
        if (buffer.apply(key)) return;
        const std::string* entry = nullptr;
        if (key.code == KeyCode::up) entry = history.older(buffer.text());
        if (key.code == KeyCode::down) entry = history.newer();
        if (entry) buffer.set(*entry);
    }

    void press_in_question(const Key& key) {
        Question& question = *questions.front();
        if (key.code == KeyCode::enter || key.code == KeyCode::end_of_input) {
            if (key.code == KeyCode::enter) question.answer = question.buffer.text();
            area.print(question.prompt + printable(question.buffer.text()) + "\n");
            question.over.set();
            questions.pop_front();
            return;
        }
        if (key.code == KeyCode::escape) return push(ConsoleInput::Kind::interrupt);
        (void)question.buffer.apply(key);
    }

    /// False when the key means what it always means.
    bool press_in_search(const Key& key) {
        const std::string* found = nullptr;
        if (key.code == KeyCode::text) {
            pattern += key.text;
            history.rewind();
            found = history.find_older(pattern);
        } else if (key.code == KeyCode::search) {
            found = history.find_older(pattern);
        } else if (key.code == KeyCode::backspace && !pattern.empty()) {
            do pattern.pop_back();
            while (!pattern.empty() && (static_cast<unsigned char>(pattern.back()) & 0xC0) == 0x80);
            history.rewind();
            found = history.find_older(pattern);
        } else {
            searching = false;
            return key.code == KeyCode::enter || key.code == KeyCode::escape;
        }
        if (found) buffer.set(*found);
        return true;
    }

    void interrupt() {
        searching = false;
        if (questions.empty() && !busy && !buffer.empty()) {
            buffer.set({});
            history.rewind();
            return;
        }
        push(ConsoleInput::Kind::interrupt);
    }

    void submit() {
        std::string text = buffer.text();
        if (text.find_first_not_of(" \t\n") == std::string::npos) return buffer.set({});
        buffer.set({});
        history.rewind();
        push(ConsoleInput::Kind::line, std::move(text));
    }

    void complete() {
        const Completion found = complete_line(buffer.text(), buffer.cursor(), commands);
        const std::string text = buffer.text().substr(0, found.from) + found.word;
        const std::string rest = buffer.text().substr(buffer.cursor());
        buffer.set(text + rest, text.size());
        for (const std::string& choice : found.choices) hint += "  " + printable(choice);
        if (!hint.empty()) hint = std::string(style.dim()) + hint + std::string(style.off());
    }

    void suspend() {
        area.hide();
        RawMode::leave();
        std::raise(SIGTSTP);
        RawMode::enter();
        area.forget();
        const winsize size = terminal_size();
        area.resize(size.ws_col, size.ws_row);
    }

    Executor executor;
    boost::asio::posix::stream_descriptor input;
    boost::asio::signal_set resized;
    boost::asio::signal_set ended;
    std::unique_ptr<ClockTimer> escape_timer;
    std::optional<RawMode> raw;
    KeyDecoder decoder;
    History history;
    Style style;
    LiveArea area;
    EditBuffer buffer;
    std::string pattern;
    std::vector<std::string> live;
    std::string hint;
    std::string status;
    std::vector<std::string> commands;
    std::deque<std::shared_ptr<Question>> questions;
    std::deque<ConsoleInput> inputs;
    AsyncEvent arrived;
    bool searching = false;
    bool busy = false;
    bool scheduled = false;
    bool closed = false;
};

Console::Console(Executor executor, Clock& clock, std::filesystem::path history)
    : state_(std::make_shared<State>(std::move(executor), clock, std::move(history))) {
    state_->raw.emplace();
    state_->begin();
}

Console::~Console() { state_->close(); }

bool Console::possible() {
    if (isatty(STDIN_FILENO) != 1 || isatty(STDOUT_FILENO) != 1) return false;
    const char* term = std::getenv("TERM");
    return term && *term && std::string_view(term) != "dumb";
}

void Console::print(std::string_view text) {
    if (text.empty()) return;
    if (state_->closed) return write_all(text);
    state_->area.print(text);
    state_->schedule();
}

void Console::end_line() {
    if (state_->area.in_line()) print("\n");
}

void Console::set_live(std::vector<std::string> lines) {
    if (lines == state_->live) return;
    state_->live = std::move(lines);
    state_->schedule();
}

void Console::set_status(std::string status) {
    if (status == state_->status) return;
    state_->status = std::move(status);
    state_->schedule();
}

void Console::set_busy(bool busy) { state_->busy = busy; }

void Console::set_commands(std::vector<std::string> commands) {
    state_->commands = std::move(commands);
}

void Console::give_back(const std::string& text) {
    const std::string typed = state_->buffer.text();
    state_->buffer.set(typed.empty() ? text : text + "\n" + typed);
    state_->schedule();
}

void Console::remember(const std::string& line) { state_->history.add(line); }

Task<ConsoleInput> Console::next() {
    const std::shared_ptr<State> state = state_;
    while (state->inputs.empty()) co_await state->arrived.wait();
    ConsoleInput input = std::move(state->inputs.front());
    state->inputs.pop_front();
    co_return input;
}

Task<> Console::interrupted() {
    const std::shared_ptr<State> state = state_;
    const auto stops = [](const ConsoleInput& input) {
        return input.kind == ConsoleInput::Kind::interrupt || input.kind == ConsoleInput::Kind::end;
    };
    for (;;) {
        const auto found = std::find_if(state->inputs.begin(), state->inputs.end(), stops);
        if (found != state->inputs.end()) {
            state->inputs.erase(found);
            co_return;
        }
        co_await state->arrived.wait();
    }
}

Task<std::optional<std::string>> Console::read(std::string prompt, std::string prefill) {
    const std::shared_ptr<State> state = state_;
    const auto question = std::make_shared<Question>();
    question->prompt = std::move(prompt);
    question->buffer.set(std::move(prefill));
    state->questions.push_back(question);
    state->schedule();
    std::exception_ptr failure;
    try {
        co_await question->over.wait();
    } catch (...) {
        failure = std::current_exception();
    }
    if (failure) {
        std::erase(state->questions, question);
        state->schedule();
        std::rethrow_exception(failure);
    }
    co_return question->answer;
}

const Style& Console::style() const noexcept { return state_->style; }
std::size_t Console::columns() const noexcept { return state_->area.columns(); }
std::size_t Console::rows() const noexcept { return state_->area.rows(); }

void Console::flush() { state_->draw(); }

void Console::close() { state_->close(); }

}  // namespace cubepi::app
