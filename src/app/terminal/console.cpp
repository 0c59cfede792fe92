#include "console.hpp"

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <exception>
#include <string_view>
#include <utility>

#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/outcome.hpp>

#include "console_question.hpp"
#include "job_control.hpp"
#include "keys.hpp"
#include "list_picker.hpp"
#include "live_area.hpp"
#include "raw_mode.hpp"
#include "text_layout.hpp"

namespace cubepi::app {

namespace {

// The end of a paste or a report that does not arrive in this time was lost (D95).
constexpr std::chrono::milliseconds unfinished_timeout(1000);
// A user who types that long did not intend to answer the question that appeared meanwhile.
constexpr std::chrono::milliseconds typing_pause(600);
/// Two presses of Esc within this time belong together.
constexpr std::chrono::milliseconds double_press(1000);
// Limits the number of frames per second.
constexpr std::chrono::milliseconds frame_time(12);
constexpr std::chrono::seconds time_to_end(5);

/// Most terminals rewrap their lines when their width changes; these are known not to.
bool terminal_reflows() {
    const char* term = std::getenv("TERM");
    const std::string_view name = term ? term : "";
    if (name.starts_with("tmux") || std::getenv("TMUX")) return true;
    return !std::getenv("XTERM_VERSION") && !name.starts_with("screen") &&
           !name.starts_with("rxvt") && name != "linux";
}

}  // namespace

/// The terminal, its prompt and what waits: the implementation of Console. Its handlers keep it alive until close().
struct Console::State : std::enable_shared_from_this<Console::State> {
    State(Executor executor_, Clock& clock_, std::filesystem::path history,
          ConsoleTerminal terminal_, ConsoleUse use_);

    void begin();
    void close();
    /// The first signal ends the chat like the user; the second one ends it at once.
    void wait_for_end();

    // Output.

    /// Draws soon; combines several changes in one frame.
    void schedule();
    void draw();
    void draw_now();
    void draw_cursor_shape();
    TerminalText status_begin() const;
    LiveArea::Content content() const;
    FieldRows field_of(std::size_t max_rows, bool asking) const;
    /// Waits for a new size, or until the stopped process is continued.
    void wait_for_change();
    void take_size();

    // Input.

    bool input_waits() const;
    void wait_for_keys();
    void read_keys();
    /// Ends a sequence or a paste that has begun if nothing follows.
    void watch_pending();
    void take(const std::vector<Key>& keys);
    void push(ConsoleInput made);
    void push(ConsoleInput::Kind kind) {
        ConsoleInput made;
        made.kind = kind;
        if (question_shows()) made.question = questions.front()->serial;
        push(std::move(made));
    }
    /// Handles a report of the terminal, which is not a key.
    void take_report(const Key& report);
    void press(const Key& key, bool more_follows);
    void press_in_question(const Key& key);
    void escape();
    /// Puts pasted text into the prompt, for which no key of a question is.
    void set_aside(const Key& pasted);
    Task<> wait_for_answer(std::shared_ptr<ConsoleQuestion> question);
    /// Prints the first question with its answer, and removes it.
    void end_question();

    /// The reason why the first question is not shown yet.
    enum class Hold : std::uint8_t {
        none,
        for_a_pause,   ///< the user types; the keys belong to that text
        new_question,  ///< keys are discarded: they were pressed before the question could be read
    };
    bool question_shows() const { return !questions.empty() && hold == Hold::none && !screen; }
    void draw_screen();
    void close_screen();

    /// Starts the hold of the first question.
    void hold_question();
    void end_hold();
    /// Reads keys that the terminal has already sent while the program was busy. Ctrl-C and Esc count.
    void discard_keys();
    void interrupt();
    /// In cooked mode the terminal translates the Enter key to a line feed.
    void count_typed_ahead();
    void suspend();
    void lend();
    void take_back();
    /// Takes control of the terminal again. A job that was continued in the background stops again until it is the
    /// foreground job.
    void resume();

    Executor executor;
    Clock& clock;
    ConsoleTerminal terminal;
    ConsoleUse use;
    boost::asio::posix::stream_descriptor input;
    TerminalOutput output;
    boost::asio::signal_set changed;
    boost::asio::signal_set ended;
    std::unique_ptr<ClockTimer> escape_timer;
    std::unique_ptr<ClockTimer> frame_timer;
    std::unique_ptr<ClockTimer> question_timer;
    std::unique_ptr<ClockTimer> end_timer;
    std::unique_ptr<ClockTimer> resume_timer;
    std::optional<RawMode> raw;
    KeyDecoder decoder;
    Style style;
    Prompt prompt;
    LiveArea area;
    Attention attention;
    std::shared_ptr<FullScreen> screen;  // on the alternate screen
    std::vector<TerminalText> live;
    TerminalText status;
    std::deque<std::shared_ptr<ConsoleQuestion>> questions;
    std::function<TerminalText(ScreenSize)> next_question;
    std::deque<ConsoleInput> inputs;
    AsyncEvent arrived;
    std::chrono::steady_clock::time_point last_frame = {};
    std::chrono::steady_clock::time_point typed_last = {};
    std::optional<std::chrono::steady_clock::time_point> escaped_at = {};
    std::chrono::steady_clock::time_point discarded_last = {};
    AnswerTail answer_tail;
    std::uint64_t asked = 0;  // questions up to now
    int ended_by = 0;
    int typed_ahead = 0;
    Hold hold = Hold::none;
    char cursor_shape = 0;  // 0: that of the terminal
    bool suspended = false;
    bool was_in_background = false;
    bool busy = false;
    bool scheduled = false;
    bool closed = false;
};

Console::State::State(Executor executor_, Clock& clock_, std::filesystem::path history,
                      ConsoleTerminal terminal_, ConsoleUse use_)
    : executor(executor_),
      clock(clock_),
      terminal(terminal_),
      use(use_),
      input(executor_, dup(terminal_.input)),
      output(executor_, terminal_.output, terminal_is_ascii()),
      changed(executor_, SIGWINCH, SIGCONT),
      ended(executor_),
      escape_timer(clock_.timer(executor_)),
      frame_timer(clock_.timer(executor_)),
      question_timer(clock_.timer(executor_)),
      end_timer(clock_.timer(executor_)),
      resume_timer(clock_.timer(executor_)),
      style(Style::of(terminal_.output)),
      prompt(style, History(std::move(history))),
      area([this](TerminalView text) { output.write(text); },
           static_cast<std::size_t>(style.columns), static_cast<std::size_t>(style.rows)),
      attention([this](TerminalView sequence) { output.write(sequence); }) {}

void Console::State::begin() {
    output.on_idle([this] { schedule(); });
    wait_for_keys();
    wait_for_change();
    if (use == ConsoleUse::question) return;  // the caller handles signals
    ended.add(SIGTERM);
    ended.add(SIGHUP);
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
    (void)changed.cancel(ignored);
    (void)ended.cancel(ignored);
    close_screen();
    area.hide();
    attention.end();
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
    if (screen) return draw_screen();
    area.show(content());
    area.draw();
    draw_cursor_shape();
    if (area.more() && output.idle()) schedule();
}

/// A block in the mode normal of vi, a bar where text is inserted.
void Console::State::draw_cursor_shape() {
    const TerminalView mode = prompt.vi_mode();
    if (mode.empty()) return;
    const bool is_normal = mode.str() == "NORMAL" && !question_shows();
    const char shape = is_normal ? 'b' : '|';
    if (std::exchange(cursor_shape, shape) == shape) return;
    output.write(is_normal ? TerminalView("\x1b[2 q") : TerminalView("\x1b[6 q"));
}

TerminalText Console::State::status_begin() const {
    const TerminalView mode = prompt.vi_mode();
    return mode.empty() ? TerminalText() : mode + TerminalView(" · ");
}

void Console::State::draw_screen() {
    TerminalView note;
    if (!questions.empty()) note = "a question waits";
    const std::vector<TerminalText> rows = screen->screen(area.columns(), area.rows(), note);
    TerminalText text("\x1b[?2026h\x1b[?25l\x1b[H");
    for (std::size_t i = 0; i < rows.size(); ++i)
        text += (i == 0 ? TerminalView() : TerminalView("\n")) + rows[i] + "\x1b[0m\x1b[K";
    output.write(text + "\x1b[?2026l");
}

void Console::State::close_screen() {
    if (!screen) return;
    const std::shared_ptr<FullScreen> left = std::exchange(screen, nullptr);
    RawMode::set_alternate_screen(false);
    output.write("\x1b[?1049l\x1b[?25h");
    // The user has not read a question that came meanwhile.
    if (!questions.empty()) hold_question();
    schedule();
    left->closed();
}

void Console::State::draw_now() {
    frame_timer->cancel();
    draw();
}

LiveArea::Content Console::State::content() const {
    LiveArea::Content content;
    if (use == ConsoleUse::question && !question_shows()) return content;
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
    if (asking && !prompt.text().empty() && rows > 4) {
        content.lines.push_back(
            style.dim() +
            line_for_terminal("(for the prompt: " + prompt.text() + ")", area.columns() - 1) +
            style.off());
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
    if (!status.empty() && rows > 3)
        content.lines.push_back(style.dim() + status_begin() + status + style.off());
    return content;
}

FieldRows Console::State::field_of(std::size_t max_rows, bool asking) const {
    if (asking) {
        const ConsoleQuestion& question = *questions.front();
        return field_rows(question.row(), question.buffer, area.columns(), max_rows);
    }
    // No prompt while keys are discarded.
    if (hold == Hold::new_question && prompt.text().empty())
        return field_rows(style.dim() + "  …" + style.off(), EditBuffer(), area.columns(),
                          max_rows);
    return prompt.field(area.columns(), max_rows);
}

void Console::State::wait_for_change() {
    changed.async_wait(
        [self = shared_from_this()](const boost::system::error_code& failed, int signal) {
            if (failed || self->closed) return;
            // After a stop that was not requested by a key, the settings and the screen are those of the shell.
            if (signal == SIGCONT && !self->suspended && RawMode::lost()) self->resume();
            if (signal == SIGWINCH) self->take_size();
            self->schedule();
            self->wait_for_change();
        });
}

void Console::State::take_size() {
    const Style now = Style::of(terminal.output);
    const bool narrower = now.columns < style.columns;
    style.columns = now.columns;
    style.rows = now.rows;
    area.resize(static_cast<std::size_t>(now.columns), static_cast<std::size_t>(now.rows),
                terminal_reflows());
    if (!narrower || !question_shows() || !questions.front()->text) return;
    area.print("\n" + questions.front()->text({area.columns(), area.rows()}));
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
    if (count > 0) {
        std::vector<Key> keys =
            decoder.feed(std::string_view(bytes, static_cast<std::size_t>(count)));
        std::erase_if(keys, [this](const Key& key) {
            if (is_report(key.code)) take_report(key);
            return is_report(key.code);
        });
        take(keys);
    }
    if (closed) return;
    watch_pending();
    wait_for_keys();
}

void Console::State::watch_pending() {
    if (decoder.pending() == KeyDecoder::Pending::none) return;
    const bool escape = decoder.pending() == KeyDecoder::Pending::escape;
    escape_timer->expires_after(escape ? escape_timeout_ : unfinished_timeout, [this] {
        // Bytes that have arrived meanwhile belong to it.
        if (!input_waits()) take(decoder.flush());
    });
}

void Console::State::take(const std::vector<Key>& keys) {
    const bool chooses = question_shows() && questions.front()->choices;
    const bool has_text = std::any_of(keys.begin(), keys.end(), [](const Key& key) {
        return key.code == KeyCode::text || key.code == KeyCode::paste;
    });
    if (chooses && has_text && keys.size() > 1 && !questions.front()->are_answer(keys)) {
        bool stops = false;
        for (const Key& key : keys) {
            if (key.code != KeyCode::interrupt && key.code != KeyCode::escape) continue;
            press(key, false);
            stops = true;
        }
        Key typed;
        typed.code = KeyCode::paste;
        for (const Key& key : keys) {
            const bool is_end = key.code == KeyCode::enter || key.code == KeyCode::new_line;
            typed.text += is_end ? "\n" : key.text;
        }
        if (keys.back().code == KeyCode::enter) typed.text.pop_back();
        set_aside(typed);
        // The key that stops is for this question, which must be there when it is handled.
        if (!stops && question_shows()) {
            questions.front()->choose(0);
            end_question();
        }
        return draw_now();
    }
    for (std::size_t i = 0; i < keys.size() && !closed; ++i) {
        const bool more = i + 1 < keys.size() || input_waits();
        press(keys[i], more);
    }
    draw_now();
}

void Console::State::push(ConsoleInput made) {
    if (use == ConsoleUse::question) {
        if (made.kind == ConsoleInput::Kind::interrupt) kill(0, SIGINT);
        if (made.kind == ConsoleInput::Kind::end && !questions.empty()) end_question();
        return;
    }
    if (made.kind == ConsoleInput::Kind::end) close_screen();
    inputs.push_back(std::move(made));
    arrived.pulse();
}

void Console::State::take_report(const Key& report) {
    if (report.code == KeyCode::report) return attention.take_report(report.text);
    attention.set_focus(report.code == KeyCode::focus_in);
}

void Console::State::press(const Key& key, bool more_follows) {
    if (screen) {
        if (!screen->press(key)) close_screen();
        return;
    }
    switch (key.code) {
        case KeyCode::interrupt: return interrupt();
        case KeyCode::unfold: return push(ConsoleInput::Kind::pager);
        case KeyCode::back_tab: return push(ConsoleInput::Kind::mode);
        case KeyCode::suspend: return suspend();
        case KeyCode::clear_screen: area.forget(); return output.write("\x1b[H\x1b[2J");
        default: break;
    }
    if (question_shows()) return press_in_question(key);
    if (use == ConsoleUse::question) return;
    if (hold == Hold::new_question && key.code != KeyCode::escape) {
        discarded_last = clock.now();
        return set_aside(key);
    }
    // Nothing else is to be stopped by it.
    if (hold == Hold::new_question && questions.front()->ends_at_escape) return end_question();
    if (answer_tail.takes(key, clock.now())) return;
    typed_last = clock.now();
    if (key.code != KeyCode::escape) escaped_at.reset();
    switch (prompt.press(key, more_follows)) {
        case Prompt::Outcome::none: return;
        case Prompt::Outcome::entered: {
            ConsoleInput line;
            line.pasted = prompt.taken_was_pasted();
            line.has_paste = prompt.taken_has_paste();
            line.text = prompt.take();
            return push(std::move(line));
        }
        case Prompt::Outcome::end: return push(ConsoleInput::Kind::end);
        case Prompt::Outcome::editor: return push(ConsoleInput::Kind::editor);
        case Prompt::Outcome::escape: return escape();
    }
}

/// An Esc at the prompt. A second one soon after the first one does not interrupt again, which would end the program.
void Console::State::escape() {
    const auto now = clock.now();
    const bool is_second = escaped_at && now - *escaped_at < double_press;
    escaped_at.reset();
    if (!is_second) {
        escaped_at = now;
        if (busy) push(ConsoleInput::Kind::interrupt);
    } else if (!busy && prompt.text().empty()) {
        push(ConsoleInput::Kind::rewind);
    }
}

void Console::State::press_in_question(const Key& key) {
    ConsoleQuestion& question = *questions.front();
    if (question.choices && key.code == KeyCode::paste && use == ConsoleUse::chat)
        return set_aside(key);
    switch (question.press(key)) {
        case ConsoleQuestion::Outcome::open: return;
        case ConsoleQuestion::Outcome::ended:
            if (key.code == KeyCode::text) answer_tail.begin(question, clock.now());
            return end_question();
        case ConsoleQuestion::Outcome::interrupted:
            if (use == ConsoleUse::chat) push(ConsoleInput::Kind::interrupt);
            return;
    }
}

void Console::State::set_aside(const Key& pasted) {
    if (use == ConsoleUse::chat && pasted.code == KeyCode::paste) (void)prompt.press(pasted, false);
}

void Console::State::end_question() {
    const std::shared_ptr<ConsoleQuestion> question = questions.front();
    const bool is_left = question->ends_at_escape && !question->answer;
    if (question_shows() && !is_left)
        area.print(question->row() + spelled_out(question->buffer.text()) + "\n");
    question->over.set();
    questions.pop_front();
    hold_question();
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
    if (closed || screen) return;  // close_screen() begins the hold again
    if (hold == Hold::for_a_pause) {
        const auto pause = clock.now() - typed_last;
        // Text that is being typed does not lose a key.
        if (pause < typing_pause) return hold_question();
    }
    discard_keys();
    // The keys of a user who still types are not for the question.
    const auto pause = clock.now() - discarded_last;
    if (hold == Hold::new_question && pause < question_hold) {
        question_timer->expires_after(question_hold - pause, [this] { end_hold(); });
        return;
    }
    hold = Hold::none;
    schedule();
}

void Console::State::discard_keys() {
    while (!closed && !suspended && input_waits()) {
        char bytes[4096];
        const ssize_t count = ::read(terminal.input, bytes, sizeof bytes);
        if (count <= 0) return;
        discarded_last = clock.now();
        for (const Key& key :
             decoder.feed(std::string_view(bytes, static_cast<std::size_t>(count)))) {
            if (is_report(key.code)) take_report(key);
            set_aside(key);
            if (key.code == KeyCode::interrupt || key.code == KeyCode::escape)
                push(ConsoleInput::Kind::interrupt);
        }
    }
    if (!closed && !suspended) watch_pending();
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

void Console::State::lend() {
    area.hide();
    output.drain();
    RawMode::leave();
    suspended = true;
    boost::system::error_code ignored;
    (void)input.cancel(ignored);
}

void Console::State::take_back() {
    if (closed) return;
    // resume() then reads keys again.
    was_in_background = true;
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
    cursor_shape = 0;
    RawMode::enter();
    close_screen();
    // A question that arrived meanwhile was not seen yet.
    if (!questions.empty()) hold_question();
    count_typed_ahead();
    area.forget();
    take_size();
    schedule();
    // Reading continues in the caller of suspend(), or here after a time in the background.
    if (std::exchange(was_in_background, false)) wait_for_keys();
}

Console::Console(Executor executor, Clock& clock, std::filesystem::path history,
                 ConsoleTerminal terminal, ConsoleUse use)
    : state_(
          std::make_shared<State>(std::move(executor), clock, std::move(history), terminal, use)) {
    state_->raw.emplace(terminal.input, terminal.output);
    state_->count_typed_ahead();
    state_->begin();
}

Console::~Console() { state_->close(); }

void Console::set_escape_timeout(std::chrono::milliseconds timeout) { escape_timeout_ = timeout; }

bool Console::possible() {
    if (isatty(STDIN_FILENO) != 1 || isatty(STDOUT_FILENO) != 1) return false;
    const char* term = std::getenv("TERM");
    termios settings = {};
    return term && *term && std::string_view(term) != "dumb" &&
           tcgetattr(STDIN_FILENO, &settings) == 0;
}

void Console::print(TerminalView text, Flow flow) {
    if (text.empty()) return;
    if (state_->closed) {
        state_->output.write(text);
        return state_->output.drain();
    }
    state_->area.print(text, flow);
    state_->schedule();
}

void Console::end_line() {
    if (state_->area.in_line()) print("\n");
}

void Console::set_live(std::vector<TerminalText> lines) {
    if (lines == state_->live) return;
    state_->live = std::move(lines);
    state_->schedule();
}

void Console::set_status(TerminalText status) {
    if (status == state_->status) return;
    state_->status = std::move(status);
    state_->schedule();
}

bool Console::asking() const noexcept { return !state_->questions.empty(); }

std::uint64_t Console::shown_question() const noexcept {
    return state_->question_shows() ? state_->questions.front()->serial : 0;
}

void Console::set_busy(bool busy) { state_->busy = busy; }

void Console::open_screen(std::shared_ptr<FullScreen> screen) {
    if (state_->closed || state_->screen || has_end()) return screen->closed();
    state_->screen = std::move(screen);
    RawMode::set_alternate_screen(true);
    state_->output.write("\x1b[?1049h");
    state_->schedule();
}

void Console::redraw() { state_->schedule(); }

Attention& Console::attention() noexcept { return state_->attention; }

void Console::use_vi_keys() {
    state_->prompt.use_vi_keys();
    state_->decoder.set_alt_letters(false);
    RawMode::set_cursor_shapes(true);
    state_->schedule();
}

std::size_t Console::status_columns() const {
    const std::size_t used = display_width(state_->status_begin()) + 1;
    return columns() > used ? columns() - used : 1;
}

void Console::set_sources(PopupSources sources) { state_->prompt.set_sources(std::move(sources)); }

void Console::set_commands(std::vector<Command> commands) {
    state_->prompt.set_commands(std::move(commands));
}

void Console::set_skills(std::vector<Command> skills) {
    state_->prompt.set_skills(std::move(skills));
}

void Console::set_files(std::shared_ptr<const std::vector<std::string>> files) {
    state_->prompt.set_files(std::move(files));
    state_->schedule();
}

void Console::set_picture_test(std::function<std::string(const std::string& pasted)> picture) {
    state_->prompt.set_picture_test(std::move(picture));
}

std::string Console::prompt_text() const { return state_->prompt.whole_text(); }

void Console::replace_prompt_text(const std::string& text) {
    state_->prompt.replace_text(text);
    state_->schedule();
}

Task<> Console::lend(Task<> work) {
    const std::shared_ptr<State> state = state_;
    if (state->closed) co_return;
    state->lend();
    const Outcome<> done = co_await outcome_of(std::move(work));
    state->take_back();
    done.rethrow();
}

void Console::hand_back(const std::string& text, bool pasted, bool has_paste) {
    state_->prompt.hand_back(text, pasted, has_paste);
    state_->schedule();
}

void Console::write_control(TerminalView sequence) { state_->output.write(sequence); }

void Console::remember(const std::string& line) { state_->prompt.remember(line); }

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
            // An end remains for next(): the work may be complete before it is stopped.
            if (found->kind == ConsoleInput::Kind::interrupt) state->inputs.erase(found);
            co_return;
        }
        co_await state->arrived.wait();
    }
}

Task<std::optional<std::string>> Console::read(TerminalText prompt, std::string prefill) {
    const std::shared_ptr<State> state = state_;
    const auto question = std::make_shared<ConsoleQuestion>();
    question->prompt = std::move(prompt);
    question->buffer.set(std::move(prefill));
    co_await state->wait_for_answer(question);
    co_return question->answer;
}

Task<std::optional<std::string>> Console::edit(TerminalText prompt, std::string text) {
    const std::shared_ptr<State> state = state_;
    const auto question = std::make_shared<ConsoleQuestion>();
    question->prompt = std::move(prompt);
    question->buffer.set(std::move(text));
    question->ends_at_escape = true;
    co_await state->wait_for_answer(question);
    co_return question->answer;
}

Task<std::optional<Chosen>> Console::choose(Choices choices) {
    const std::shared_ptr<State> state = state_;
    const auto question = std::make_shared<ConsoleQuestion>();
    question->marked = choices.number_of(choices.on_enter);
    question->choices = std::move(choices);
    co_await state->wait_for_answer(question);
    co_return question->chosen;
}

Task<std::optional<std::size_t>> Console::pick(PickList list) {
    const std::shared_ptr<State> state = state_;
    const auto picker = std::make_shared<ListPicker>(std::move(list), state->style);
    open_screen(picker);
    const Outcome<> over = co_await outcome_of(picker->over());
    if (!over && state->screen == picker) state->close_screen();
    over.rethrow();
    co_return picker->picked();
}

/// Shows the question when those before it are answered, and returns when it has ended.
Task<> Console::State::wait_for_answer(std::shared_ptr<ConsoleQuestion> question) {
    const std::shared_ptr<State> state = shared_from_this();
    question->serial = ++state->asked;
    question->text = std::exchange(state->next_question, nullptr);
    state->questions.push_back(question);
    state->attention.notify("cubepi has a question");
    if (state->questions.size() == 1) state->hold_question();
    state->schedule();
    std::exception_ptr failure;
    try {
        co_await question->over.wait();
    } catch (...) {
        failure = std::current_exception();
    }
    if (failure) {
        const bool first = !state->questions.empty() && state->questions.front() == question;
        if (first && state->use == ConsoleUse::question) {
            state->end_question();
        } else {
            std::erase(state->questions, question);
            if (first) state->hold_question();
        }
        state->schedule();
        std::rethrow_exception(failure);
    }
}

void Console::set_question(std::function<TerminalText(ScreenSize)> text) {
    state_->next_question = std::move(text);
}

void Console::withdraw() {
    if (state_->use == ConsoleUse::chat) return;
    if (asking()) state_->end_question();
    close();
}

const Style& Console::style() const noexcept { return state_->style; }
std::size_t Console::columns() const noexcept { return state_->area.columns(); }
std::size_t Console::rows() const noexcept { return state_->area.rows(); }

bool Console::has_end() const noexcept {
    return std::any_of(state_->inputs.begin(), state_->inputs.end(), [](const ConsoleInput& input) {
        return input.kind == ConsoleInput::Kind::end;
    });
}

int Console::ended_by() const noexcept { return state_->ended_by; }

void Console::flush() { state_->draw(); }

bool Console::shown() const noexcept {
    return !state_->scheduled && !state_->area.more() && state_->output.idle();
}

void Console::close() { state_->close(); }

}  // namespace cubepi::app
