#include "console_state.hpp"

#include <boost/asio/post.hpp>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <string_view>
#include <utility>

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "job_control.hpp"

namespace cubepi::app {

namespace {

constexpr std::chrono::milliseconds escape_silence(40);
// A user who types that long did not intend to answer the question that appeared meanwhile.
constexpr std::chrono::milliseconds typing_pause(600);
// Limits the number of frames per second.
constexpr std::chrono::milliseconds frame_time(12);
constexpr std::chrono::seconds time_to_end(5);

winsize size_of(int terminal) {
    winsize size{};
    if (ioctl(terminal, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) size.ws_col = 80;
    if (size.ws_row == 0) size.ws_row = 24;
    return size;
}

/// Most terminals rewrap their lines when their width changes; these are known not to.
bool terminal_reflows() {
    const char* term = std::getenv("TERM");
    const std::string_view name = term ? term : "";
    if (name.starts_with("tmux") || std::getenv("TMUX")) return true;
    return !std::getenv("XTERM_VERSION") && !name.starts_with("screen") &&
           !name.starts_with("rxvt") && name != "linux";
}

}  // namespace

Console::State::State(Executor executor_, Clock& clock_, std::filesystem::path history,
                      ConsoleTerminal terminal_)
    : executor(executor_),
      clock(clock_),
      terminal(terminal_),
      input(executor_, dup(terminal_.input)),
      output(executor_, terminal_.output, terminal_is_ascii()),
      resized(executor_, SIGWINCH),
      ended(executor_, SIGTERM, SIGHUP),
      escape_timer(clock_.timer(executor_)),
      frame_timer(clock_.timer(executor_)),
      question_timer(clock_.timer(executor_)),
      end_timer(clock_.timer(executor_)),
      resume_timer(clock_.timer(executor_)),
      style(Style::of(terminal_.output)),
      prompt(style, History(std::move(history))),
      area([this](TerminalView text) { output.write(text); }, size_of(terminal_.output).ws_col,
           size_of(terminal_.output).ws_row) {}

void Console::State::begin() {
    output.on_idle([this] { schedule(); });
    wait_for_keys();
    wait_for_resize();
    wait_for_end();
    schedule();
}

void Console::State::close() {
    if (closed) return;
    closed = true;
    for (ClockTimer* timer :
         {escape_timer.get(), frame_timer.get(), question_timer.get(), resume_timer.get()})
        timer->cancel();
    end_timer->cancel();
    boost::system::error_code ignored;
    (void)input.cancel(ignored);
    (void)resized.cancel(ignored);
    (void)ended.cancel(ignored);
    area.hide();
    output.drain();
    raw.reset();
}

void Console::State::wait_for_end() {
    ended.async_wait(
        [self = shared_from_this()](const boost::system::error_code& failed, int signal) {
            if (failed || self->closed) return;
            const auto leave = [signal] {
                RawMode::leave();
                std::_Exit(128 + signal);
            };
            if (self->ended_by != 0) leave();
            self->ended_by = signal;
            self->end_timer->expires_after(time_to_end, leave);
            self->push(ConsoleInput::Kind::end);
            self->wait_for_end();
        });
}

void Console::State::schedule() {
    if (closed || std::exchange(scheduled, true)) return;
    const auto due = last_frame + frame_time - clock.now();
    if (last_frame == std::chrono::steady_clock::time_point() || due.count() <= 0) {
        boost::asio::post(executor, [self = shared_from_this()] { self->draw(); });
    } else {
        frame_timer->expires_after(due, [this] { draw(); });
    }
}

void Console::State::draw() {
    scheduled = false;
    // At a slow terminal the pending output would only grow.
    if (closed || suspended || !output.idle()) return;
    last_frame = clock.now();
    area.show(content());
    area.draw();
    if (area.more() && output.idle()) schedule();
}

void Console::State::draw_now() {
    frame_timer->cancel();
    draw();
}

LiveArea::Content Console::State::content() const {
    LiveArea::Content content;
    const std::size_t rows = area.rows();
    // On a small screen the prompt has priority.
    const std::size_t max_rows = rows > 8 ? rows / 2 : rows;
    const std::size_t live_rows = rows > 6 ? rows / 3 : 0;
    const std::size_t skipped = live.size() > live_rows ? live.size() - live_rows : 0;
    for (std::size_t i = skipped; i < live.size(); ++i) content.lines.push_back(live[i]);
    const bool asking = question_shows();
    if (hold == Hold::for_a_pause && rows > 4) {
        content.lines.push_back(style.dim() + "(a question waits for a pause)" + style.off());
    }
    const FieldRows field = field_of(max_rows, asking);
    content.cursor_line = content.lines.size() + field.cursor_row;
    content.cursor_column = field.cursor_column;
    content.lines.insert(content.lines.end(), field.rows.begin(), field.rows.end());
    if (!asking) {
        const std::size_t used = content.lines.size() + 2;
        const std::size_t menu_rows = std::min(rows > used ? rows - used : 0, rows / 3);
        for (TerminalText& row : prompt.menu(area.columns(), menu_rows))
            content.lines.push_back(std::move(row));
    }
    if (!status.empty() && rows > 3) content.lines.push_back(style.dim() + status + style.off());
    return content;
}

FieldRows Console::State::field_of(std::size_t max_rows, bool asking) const {
    if (asking) {
        return field_rows(questions.front()->prompt, questions.front()->buffer, area.columns(),
                          max_rows);
    }
    // No prompt while keys are discarded.
    if (hold == Hold::new_question && prompt.text().empty())
        return field_rows(style.dim() + "  …" + style.off(), EditBuffer(), area.columns(),
                          max_rows);
    return prompt.field(area.columns(), max_rows);
}

void Console::State::wait_for_resize() {
    resized.async_wait([self = shared_from_this()](const boost::system::error_code& failed, int) {
        if (failed || self->closed) return;
        self->take_size();
        self->schedule();
        self->wait_for_resize();
    });
}

void Console::State::take_size() {
    const winsize size = size_of(terminal.output);
    area.resize(size.ws_col, size.ws_row, terminal_reflows());
    style.columns = size.ws_col;
}

bool Console::State::input_waits() const {
    pollfd waiting{terminal.input, POLLIN, 0};
    return poll(&waiting, 1, 0) == 1 && (waiting.revents & POLLIN) != 0;
}

void Console::State::wait_for_keys() {
    if (suspended) return;
    input.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                     [self = shared_from_this()](const boost::system::error_code& failed) {
                         if (failed || self->closed) return;
                         self->read_keys();
                     });
}

void Console::State::read_keys() {
    char bytes[4096];
    const ssize_t count = ::read(terminal.input, bytes, sizeof bytes);
    const bool gone = count == 0 || (count < 0 && errno != EINTR && errno != EAGAIN);
    if (gone) {
        resume_timer->expires_after(hangup_grace, [this] { push(ConsoleInput::Kind::end); });
        return;
    }
    escape_timer->cancel();
    for (ssize_t i = 0; i < count && typed_ahead > 0; ++i, --typed_ahead) {
        if (bytes[i] == '\n') bytes[i] = '\r';
    }
    if (count > 0) take(decoder.feed(std::string_view(bytes, static_cast<std::size_t>(count))));
    if (closed) return;
    if (decoder.waiting())
        escape_timer->expires_after(escape_silence, [this] { take(decoder.flush()); });
    wait_for_keys();
}

void Console::State::take(const std::vector<Key>& keys) {
    for (std::size_t i = 0; i < keys.size() && !closed; ++i) {
        const bool more = i + 1 < keys.size() || input_waits();
        press(keys[i], more);
    }
    draw_now();
}

void Console::State::push(ConsoleInput::Kind kind, std::string text, bool pasted) {
    ConsoleInput made;
    made.kind = kind;
    made.text = std::move(text);
    made.pasted = pasted;
    inputs.push_back(std::move(made));
    arrived.pulse();
}

void Console::State::press(const Key& key, bool more_follows) {
    switch (key.code) {
        case KeyCode::interrupt: return interrupt();
        case KeyCode::unfold: return push(ConsoleInput::Kind::unfold);
        case KeyCode::suspend: return suspend();
        case KeyCode::clear_screen: area.forget(); return output.write("\x1b[H\x1b[2J");
        default: break;
    }
    if (question_shows()) return press_in_question(key);
    if (hold == Hold::new_question && key.code != KeyCode::escape) return;
    typed_last = clock.now();
    switch (prompt.press(key, more_follows)) {
        case Prompt::Outcome::none: return;
        case Prompt::Outcome::entered: {
            const bool pasted = prompt.taken_was_pasted();
            return push(ConsoleInput::Kind::line, prompt.take(), pasted);
        }
        case Prompt::Outcome::end: return push(ConsoleInput::Kind::end);
        case Prompt::Outcome::escape:
            if (busy) push(ConsoleInput::Kind::interrupt);
            return;
    }
}

void Console::State::press_in_question(const Key& key) {
    ConsoleQuestion& question = *questions.front();
    if (key.code == KeyCode::enter || key.code == KeyCode::end_of_input) {
        if (key.code == KeyCode::enter) question.answer = question.buffer.text();
        area.print(question.prompt + spelled_out(question.buffer.text()) + "\n");
        question.over.set();
        questions.pop_front();
        return hold_question();
    }
    if (key.code == KeyCode::escape) return push(ConsoleInput::Kind::interrupt);
    (void)question.buffer.apply(key);
}

void Console::State::hold_question() {
    question_timer->cancel();
    hold = Hold::none;
    if (questions.empty()) return;
    const auto pause = clock.now() - typed_last;
    const bool typing = !prompt.text().empty() && pause < typing_pause;
    hold = typing ? Hold::for_a_pause : Hold::new_question;
    question_timer->expires_after(typing ? typing_pause - pause : question_hold,
                                  [this] { end_hold(); });
}

void Console::State::end_hold() {
    if (closed) return;
    if (hold == Hold::for_a_pause) {
        const auto pause = clock.now() - typed_last;
        // Text that is being typed does not lose a key.
        if (pause < typing_pause) return hold_question();
    }
    discard_keys();
    hold = Hold::none;
    schedule();
}

void Console::State::discard_keys() {
    while (!closed && !suspended && input_waits()) {
        char bytes[4096];
        const ssize_t count = ::read(terminal.input, bytes, sizeof bytes);
        if (count <= 0) return;
        for (const Key& key :
             decoder.feed(std::string_view(bytes, static_cast<std::size_t>(count)))) {
            if (key.code == KeyCode::interrupt || key.code == KeyCode::escape)
                push(ConsoleInput::Kind::interrupt);
        }
    }
}

void Console::State::interrupt() {
    if (!question_shows() && !busy && prompt.clear()) return;
    push(ConsoleInput::Kind::interrupt);
}

void Console::State::count_typed_ahead() {
    int count = 0;
    typed_ahead = ioctl(terminal.input, FIONREAD, &count) == 0 ? count : 0;
}

void Console::State::suspend() {
    area.hide();
    output.drain();
    RawMode::leave();
    // The whole process group, like the terminal itself; this process last.
    std::signal(SIGTSTP, SIG_IGN);
    kill(0, SIGTSTP);
    std::signal(SIGTSTP, SIG_DFL);
    std::raise(SIGTSTP);
    suspended = true;
    resume();
}

void Console::State::resume() {
    if (!in_foreground(terminal.input)) {
        was_in_background = true;
        resume_timer->expires_after(pause_between_stops, [this] {
            if (in_foreground(terminal.input) || stop_in_background()) return resume();
            push(ConsoleInput::Kind::end);
        });
        return;
    }
    suspended = false;
    RawMode::enter();
    count_typed_ahead();
    area.forget();
    take_size();
    schedule();
    // Reading continues in the caller of suspend(), or here after a time in the background.
    if (std::exchange(was_in_background, false)) wait_for_keys();
}

}  // namespace cubepi::app
