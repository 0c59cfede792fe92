#include "console.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <string_view>
#include <utility>

#include <boost/asio/post.hpp>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <cubepi/core/outcome.hpp>

#include "console_state.hpp"
#include "full_screen.hpp"
#include "job_control.hpp"
#include "text_layout.hpp"

namespace cubepi::app {

namespace {

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
    if (questions.size() > (list_shows() ? 1U : 0U)) note = "a question waits";
    const std::vector<TerminalText> rows = screen->screen(area.columns(), area.rows(), note);
    TerminalText text("\x1b[?2026h\x1b[?25l\x1b[H");
    for (std::size_t i = 0; i < rows.size(); ++i)
        text += (i == 0 ? TerminalView() : TerminalView("\n")) + rows[i] + "\x1b[0m\x1b[K";
    output.write(text + "\x1b[?2026l");
}

void Console::State::show_screen(std::shared_ptr<FullScreen> shown) {
    screen = std::move(shown);
    RawMode::set_alternate_screen(true);
    output.write("\x1b[?1049h");
    schedule();
}

void Console::State::close_screen() {
    if (!screen) return;
    const bool is_list = list_shows();
    const std::shared_ptr<FullScreen> left = std::exchange(screen, nullptr);
    RawMode::set_alternate_screen(false);
    output.write("\x1b[?1049l\x1b[?25h");
    if (is_list) {
        end_question();
    } else if (!questions.empty()) {
        hold_question();  // the user has not read a question that came meanwhile
    }
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
    const bool asking = question_shows();
    // A question stands directly below its text.
    const std::size_t live_rows = rows > 6 && !asking ? rows / 3 : 0;
    const std::size_t skipped = live.size() > live_rows ? live.size() - live_rows : 0;
    for (std::size_t i = skipped; i < live.size(); ++i) content.lines.push_back(live[i]);
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
    const bool smaller = now.columns < style.columns || now.rows < style.rows;
    style.columns = now.columns;
    style.rows = now.rows;
    area.resize(static_cast<std::size_t>(now.columns), static_cast<std::size_t>(now.rows),
                terminal_reflows());
    if (smaller && question_shows()) show_question_again();
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

bool Console::State::has_end() const noexcept {
    return std::any_of(inputs.begin(), inputs.end(), [](const ConsoleInput& input) {
        return input.kind == ConsoleInput::Kind::end;
    });
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
    area.forget();
    take_size();
    // The shell or another program may have cleared the screen. A question that arrived meanwhile was not seen yet.
    show_question_again();
    if (!questions.empty()) hold_question();
    count_typed_ahead();
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
    state_->show_screen(std::move(screen));
}

void Console::redraw() { state_->schedule(); }

Attention& Console::attention() noexcept { return state_->attention; }

void Console::set_key_bindings(KeyBindings bindings) {
    KeyBindings::set_current(std::move(bindings));
    state_->decoder.set_bindings(&KeyBindings::current());
}

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

void Console::set_resources(std::vector<Command> resources) {
    state_->prompt.set_resources(std::move(resources));
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
    ++state->interruptible;
    const std::shared_ptr<void> until_end(nullptr, [state](void*) { --state->interruptible; });
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
    const auto question = std::make_shared<ConsoleQuestion>();
    question->list = picker;
    question->ends_at_escape = true;
    const Outcome<> over = co_await outcome_of(state->wait_for_answer(question));
    if (!over && state->screen == picker) state->close_screen();
    over.rethrow();
    co_return picker->picked();
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

bool Console::has_end() const noexcept { return state_->has_end(); }

int Console::ended_by() const noexcept { return state_->ended_by; }

bool Console::shown() const noexcept {
    return !state_->scheduled && !state_->area.more() && state_->output.idle();
}

void Console::close() { state_->close(); }

namespace {

constexpr std::chrono::milliseconds word_timeout(1500);

}  // namespace

TerminalText ConsoleQuestion::row() const { return choices ? choices->prompt(marked) : prompt; }

ConsoleQuestion::Outcome ConsoleQuestion::press(const Key& key) {
    if (choices) return press_choice(key);
    switch (key.code) {
        case KeyCode::enter: answer = folds.unfold(buffer.text()); return Outcome::ended;
        case KeyCode::end_of_input:
            if (buffer.empty()) return Outcome::ended;
            (void)buffer.apply(Key{KeyCode::erase, {}});
            return Outcome::open;
        case KeyCode::escape: return ends_at_escape ? Outcome::ended : Outcome::interrupted;
        case KeyCode::paste: {
            Key shown = key;
            shown.text = folds.fold(key.text);
            (void)buffer.apply(shown);
            return Outcome::open;
        }
        default: (void)buffer.apply(key); return Outcome::open;
    }
}

ConsoleQuestion::Outcome ConsoleQuestion::press_choice(const Key& key) {
    const std::size_t count = choices->all.size();
    switch (key.code) {
        case KeyCode::left:
        case KeyCode::up: marked = marked <= 1 ? count : marked - 1; return Outcome::open;
        case KeyCode::right:
        case KeyCode::down:
        case KeyCode::tab: marked = marked % count + 1; return Outcome::open;
        case KeyCode::enter:
            choose(marked == 0 ? '\0' : choices->all[marked - 1].key);
            return Outcome::ended;
        case KeyCode::escape:
            if (choices->on_escape == 0) return Outcome::interrupted;
            choose(choices->on_escape);
            return Outcome::ended;
        case KeyCode::end_of_input: return Outcome::ended;
        case KeyCode::text: choose(choices->read(key.text).key); return Outcome::ended;
        case KeyCode::paste: choose(0); return Outcome::ended;
        default: return Outcome::open;
    }
}

void ConsoleQuestion::choose(char key) {
    chosen.emplace().key = key;
    if (choices->number_of(key) > 0) buffer.set(std::string(1, key));
    marked = 0;
}

bool ConsoleQuestion::are_answer(const std::vector<Key>& keys) const {
    std::string typed;
    for (std::size_t i = 0; i < keys.size(); ++i) {
        const bool last = i + 1 == keys.size();
        if (keys[i].code == KeyCode::enter && last) continue;
        if (keys[i].code != KeyCode::text) return false;
        typed += keys[i].text;
    }
    const Chosen read = choices->read(typed);
    return !typed.empty() && read.key != 0 && read.text.empty();
}

void AnswerTail::begin(const ConsoleQuestion& question, std::chrono::steady_clock::time_point now) {
    const char key = question.chosen ? question.chosen->key : '\0';
    const std::size_t number = question.choices ? question.choices->number_of(key) : 0;
    if (number == 0) return;
    rest_ = question.choices->all[number - 1].word();
    // A key that is not the first letter of its word does not begin the word.
    rest_ = rest_.front() == key ? rest_.substr(1) : std::string();
    begun_ = now;
}

bool AnswerTail::takes(const Key& key, std::chrono::steady_clock::time_point now) {
    if (begun_ == std::chrono::steady_clock::time_point()) return false;
    const bool late = now - begun_ > word_timeout;
    const bool enter = key.code == KeyCode::enter;
    const bool letter =
        key.code == KeyCode::text && !rest_.empty() && key.text == rest_.substr(0, 1);
    if (letter) rest_.erase(0, 1);
    if (late || !letter) begun_ = {};
    return !late && (letter || enter);
}

}  // namespace cubepi::app
