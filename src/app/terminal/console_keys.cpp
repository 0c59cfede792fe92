// The keys of a console: who gets them, and when a question may have them.

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <exception>
#include <string_view>
#include <utility>

#include <poll.h>
#include <unistd.h>

#include "console_state.hpp"
#include "job_control.hpp"

namespace cubepi::app {

namespace {

// The end of a paste or a report that does not arrive in this time was lost (D95).
constexpr std::chrono::milliseconds unfinished_timeout(1000);
// A user who types that long did not intend to answer the question that appeared meanwhile.
constexpr std::chrono::milliseconds typing_pause(600);
/// Two presses of Esc within this time belong together.
constexpr std::chrono::milliseconds double_press(1000);

}  // namespace

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
    // A question may have taken the keys meanwhile; a read would block.
    pollfd waiting{terminal.input, POLLIN, 0};
    if (poll(&waiting, 1, 0) == 0) return wait_for_keys();
    if (!take_waiting_keys()) return;
    watch_pending();
    wait_for_keys();
}

/// Returns false if no more keys are to be read.
bool Console::State::take_waiting_keys() {
    char bytes[4096];
    const ssize_t count = ::read(terminal.input, bytes, sizeof bytes);
    const bool gone = count == 0 || (count < 0 && errno != EINTR && errno != EAGAIN);
    if (gone) {
        resume_timer->expires_after(hangup_grace, [this] { push(ConsoleInput::Kind::end); });
        return false;
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
    return !closed;
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
        case KeyCode::clear_screen: return clear_screen();
        default: break;
    }
    if (question_shows()) return press_in_question(key);
    if (key.code == KeyCode::command) {
        if (use == ConsoleUse::question || hold == Hold::new_question) return;
        ConsoleInput line;
        line.text = key.text;
        return push(std::move(line));
    }
    if (use == ConsoleUse::question) return;
    if (hold == Hold::new_question) return press_in_hold(key);
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

/// A question stays on the screen: its answer is about what the user sees.
void Console::State::clear_screen() {
    if (!questions.empty() && !questions.front()->text) return;
    area.forget();
    output.write("\x1b[H\x1b[2J");
    show_question_again();
}

void Console::State::show_question_again() {
    if (questions.empty() || !questions.front()->text) return;
    area.print("\n" + questions.front()->text({area.columns(), area.rows()}));
}

/// Only Esc has an effect: it ends a question that can be left, or stops the answer. It does not end the program.
void Console::State::press_in_hold(const Key& key) {
    if (key.code != KeyCode::escape) {
        discarded_last = clock.now();
        return set_aside(key);
    }
    if (questions.front()->ends_at_escape) return end_question();
    if (busy) push(ConsoleInput::Kind::interrupt);
}

/// An Esc at the prompt. A second one soon after the first one does not interrupt again, which would end the program.
void Console::State::escape() {
    const auto now = clock.now();
    const bool is_second = escaped_at && now - *escaped_at < double_press;
    escaped_at.reset();
    if (!is_second) {
        escaped_at = now;
        if (busy || interruptible > 0) push(ConsoleInput::Kind::interrupt);
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
    attention.set_asking(!questions.empty() && !questions.front()->list);
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
    const std::shared_ptr<ConsoleQuestion> held = questions.front();
    discard_keys();
    // Esc has ended it, and the hold of the next one has begun.
    if (questions.empty() || questions.front() != held) return schedule();
    // The keys of a user who still types are not for the question.
    const auto pause = clock.now() - discarded_last;
    if (hold == Hold::new_question && pause < question_hold) {
        question_timer->expires_after(question_hold - pause, [this] { end_hold(); });
        return;
    }
    hold = Hold::none;
    if (held->list) {
        if (has_end()) return end_question();
        show_screen(held->list);
    }
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
            if (is_report(key.code)) {
                take_report(key);
            } else if (key.code == KeyCode::interrupt || key.code == KeyCode::escape) {
                press(key, false);
            } else {
                set_aside(key);
            }
        }
    }
    if (!closed && !suspended) watch_pending();
}

void Console::State::interrupt() {
    if (!question_shows() && !busy && prompt.clear()) return;
    push(ConsoleInput::Kind::interrupt);
}

/// Shows the question when those before it are answered, and returns when it has ended.
Task<> Console::State::wait_for_answer(std::shared_ptr<ConsoleQuestion> question) {
    const std::shared_ptr<State> state = shared_from_this();
    // Text that was typed before the program started is for the prompt.
    if (state->use == ConsoleUse::chat && state->questions.empty()) {
        while (state->typed_ahead > 0 && state->input_waits() && state->take_waiting_keys())
            state->watch_pending();
    }
    question->serial = ++state->asked;
    question->text = std::exchange(state->next_question, nullptr);
    state->questions.push_back(question);
    if (!question->list) state->attention.notify("cubepi has a question");
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

}  // namespace cubepi::app
