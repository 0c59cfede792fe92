#include "console.hpp"

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <string_view>
#include <utility>

#include <unistd.h>

#include "console_state.hpp"

namespace cubepi::app {

Console::Console(Executor executor, Clock& clock, std::filesystem::path history,
                 ConsoleTerminal terminal)
    : state_(std::make_shared<State>(std::move(executor), clock, std::move(history), terminal)) {
    state_->raw.emplace(terminal.input, terminal.output);
    state_->count_typed_ahead();
    state_->begin();
}

Console::~Console() { state_->close(); }

bool Console::possible() {
    if (isatty(STDIN_FILENO) != 1 || isatty(STDOUT_FILENO) != 1) return false;
    const char* term = std::getenv("TERM");
    return term && *term && std::string_view(term) != "dumb";
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

void Console::set_busy(bool busy) { state_->busy = busy; }

void Console::set_commands(std::vector<Command> commands) {
    state_->prompt.set_commands(std::move(commands));
}

void Console::hand_back(const std::string& text, bool pasted) {
    state_->prompt.hand_back(text, pasted);
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
    state->questions.push_back(question);
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
        std::erase(state->questions, question);
        if (first) state->hold_question();
        state->schedule();
        std::rethrow_exception(failure);
    }
    co_return question->answer;
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
