#include "prompter.hpp"

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <exception>
#include <string>
#include <utility>

#include <poll.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include <cubepi/core/error.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/support/lower_case.hpp>
#include <cubepi/core/support/parsed_number.hpp>
#include <cubepi/core/support/trimmed.hpp>

#include "console.hpp"
#include "job_control.hpp"
#include "prompt.hpp"
#include "terminal_stream.hpp"

namespace cubepi::app {

namespace {

/// The rows of a list that are shown without a screen for it.
constexpr std::size_t numbered_rows = 20;

/// False once the terminal has hung up.
bool terminal_answers() {
    termios settings = {};
    while (tcgetattr(STDIN_FILENO, &settings) != 0) {
        if (errno != EINTR) return false;
    }
    return true;
}

/// A file or device that is always ready cannot be waited for.
bool always_ready() {
    struct stat status = {};
    return fstat(STDIN_FILENO, &status) != 0 || S_ISREG(status.st_mode) ||
           S_ISBLK(status.st_mode) || S_ISCHR(status.st_mode);
}

}  // namespace

std::string Choice::word() const {
    std::string text = label.str();
    std::erase_if(text, [](char c) { return c == '[' || c == ']'; });
    return text;
}

std::vector<Choice> yes_and_no() {
    std::vector<Choice> both;
    both.push_back(Choice{'y', TerminalView("[y]es")});
    both.push_back(Choice{'n', TerminalView("[n]o")});
    return both;
}

std::size_t Choices::number_of(char key) const noexcept {
    const auto found = std::find_if(all.begin(), all.end(),
                                    [key](const Choice& choice) { return choice.key == key; });
    return key == 0 || found == all.end() ? 0 : static_cast<std::size_t>(found - all.begin()) + 1;
}

TerminalText Choices::prompt(std::size_t marked) const {
    TerminalText row(text);
    for (std::size_t i = 0; i < all.size(); ++i) {
        row += i + 1 == marked ? TerminalView(" ›") : TerminalView("  ");
        row += all[i].label;
    }
    return row + " > ";
}

Chosen Choices::read(std::string_view line) const {
    line = cubepi::detail::trimmed(line);
    Chosen chosen;
    if (line.empty()) {
        chosen.key = on_enter;
        return chosen;
    }
    const std::size_t blank = std::min(line.find_first_of(" \t\n"), line.size());
    const std::string first = cubepi::detail::lower_case(line.substr(0, blank));
    for (const Choice& choice : all) {
        if (first != choice.word() && first != std::string_view(&choice.key, 1)) continue;
        const std::string_view rest = cubepi::detail::trimmed(line.substr(blank));
        if (!rest.empty() && !choice.takes_text) break;
        chosen.key = choice.key;
        chosen.text = rest;
    }
    return chosen;
}

TerminalText Choices::hint() const {
    TerminalText text("Answer ");
    for (std::size_t i = 0; i < all.size(); ++i) {
        if (i > 0) text += i + 1 == all.size() ? TerminalView(" or ") : TerminalView(", ");
        text += for_terminal(std::string_view(&all[i].key, 1));
    }
    return text + ".";
}

Task<char> choose_key(std::shared_ptr<Prompter> prompter, Choices choices) {
    for (;;) {
        Choices asked = choices;
        const std::optional<Chosen> chosen = co_await prompter->choose(std::move(asked));
        if (!chosen) co_return '\0';
        if (chosen->key != 0) co_return chosen->key;
        prompter->print("  " + choices.hint() + "\n");
    }
}

Task<std::optional<Chosen>> Prompter::choose(Choices choices) {
    std::optional<Chosen> chosen;
    TerminalText prompt = choices.prompt(choices.number_of(choices.on_enter));
    const std::optional<std::string> line = co_await read(std::move(prompt));
    if (line) chosen = choices.read(*line);
    co_return chosen;
}

Task<std::optional<std::size_t>> Prompter::pick(PickList list) {
    std::string text = list.heading + ":\n";
    for (std::size_t i = 0; i < std::min(list.rows.size(), numbered_rows); ++i) {
        const PickList::Row& row = list.rows[i];
        const std::string note = row.is_current ? "current" : row.note;
        std::string number = std::to_string(i + 1);
        number.insert(0, 4 - std::min<std::size_t>(number.size(), 4), ' ');
        text += number + "  " + one_line(visible(row.text), 60) +
                (note.empty() ? "" : "  (" + note + ")") + "\n";
    }
    if (list.rows.size() > numbered_rows)
        text += "      and " + std::to_string(list.rows.size() - numbered_rows) + " more\n";
    print(for_terminal(text));
    std::optional<std::size_t> picked;
    for (;;) {
        TerminalText prompt("number (Enter: none) > ");
        const std::optional<std::string> answer = co_await read(std::move(prompt));
        const std::string_view number = detail::trimmed(answer ? *answer : std::string_view());
        if (number.empty()) co_return picked;
        const std::size_t index = detail::parsed_number<std::size_t>(number).value_or(0);
        if (index >= 1 && index <= list.rows.size()) {
            picked = index - 1;
            co_return picked;
        }
        print("  '" + spelled_out(number) + "' is not a number from 1 to " +
              TerminalText::number(list.rows.size()) + ".\n");
    }
}

struct LineInput::State {
    explicit State(Executor executor)
        : input(std::move(executor), dup(STDIN_FILENO)),
          terminal(isatty(STDIN_FILENO) == 1),
          waits(terminal || !always_ready()) {}

    boost::asio::posix::stream_descriptor input;
    bool terminal;
    bool waits;
    std::string buffered;  // read and not used yet
};

LineInput::LineInput(Executor executor) : state_(std::make_unique<State>(std::move(executor))) {}

LineInput::~LineInput() = default;

bool LineInput::is_terminal() const noexcept { return state_->terminal; }

bool LineInput::line_waits() const {
    pollfd waiting{STDIN_FILENO, POLLIN, 0};
    return state_->terminal && poll(&waiting, 1, 0) == 1 && (waiting.revents & POLLIN) != 0;
}

Task<std::optional<std::string>> LineInput::next(std::size_t limit) {
    State& state = *state_;
    std::optional<std::string> line;
    std::size_t searched = 0;
    for (;;) {
        const std::size_t end = state.buffered.find('\n', searched);
        searched = state.buffered.size();
        if (std::min(end, searched) > limit)
            throw Error(ErrorCode::invalid_argument, "a line of standard input has more than " +
                                                         std::to_string(limit) + " bytes");
        if (end != std::string::npos) {
            line = state.buffered.substr(0, end);
            state.buffered.erase(0, end + 1);
            co_return line;
        }
        if (state.waits) {
            co_await state.input.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                                            boost::asio::use_awaitable);
        }
        if (state.terminal && !in_foreground(STDIN_FILENO)) {
            const bool foreground = co_await wait_for_foreground(STDIN_FILENO);
            if (!foreground) co_return line;
            continue;  // the shell may have read what was there
        }
        char bytes[4096];
        const ssize_t count = ::read(STDIN_FILENO, bytes, sizeof bytes);
        if (count < 0 && (errno == EINTR || (errno == EAGAIN && state.waits))) continue;
        if (count > 0) {
            state.buffered.append(bytes, static_cast<std::size_t>(count));
            continue;
        }
        if (state.terminal && !terminal_answers())
            co_await Runtime::standard()->clock->sleep_for(hangup_grace);
        if (!state.buffered.empty()) line = std::exchange(state.buffered, {});
        co_return line;
    }
}

struct LinePrompter::State : std::enable_shared_from_this<State> {
    State(Executor executor_, std::filesystem::path file)
        : executor(executor_), input(executor_), continued(executor_), history(std::move(file)) {}

    /// The terminal was another job's, which has written to it.
    void watch_continued() {
        continued.async_wait(
            [self = shared_from_this()](const boost::system::error_code& failed, int) {
                if (failed || !self->reading) return;
                if (in_foreground(STDIN_FILENO)) out() << self->prompt << flush_now;
                self->watch_continued();
            });
    }

    /// Makes the console of one question. The caller resets it.
    Console& open_console();
    Task<std::optional<std::string>> ask_at_console(Task<std::optional<std::string>> question);
    Task<std::optional<Chosen>> choose_at_console(Choices choices);
    Task<std::optional<std::string>> read_block();

    Executor executor;
    LineInput input;
    boost::asio::signal_set continued;
    History history;
    std::unique_ptr<Console> console;  // of the question that is being asked
    TerminalText prompt;
    bool reading = false;  // lines of the terminal
    bool block = false;    // the last input had several lines
};

LinePrompter::LinePrompter(Executor executor, std::filesystem::path history)
    : state_(std::make_shared<State>(std::move(executor), std::move(history))) {}

LinePrompter::~LinePrompter() = default;

bool LinePrompter::can_ask() const {
    return !state_->input.is_terminal() || in_foreground(STDIN_FILENO);
}

bool LinePrompter::last_was_block() const noexcept { return state_->block; }

void LinePrompter::print(TerminalView text) { out() << text << flush_now; }

void LinePrompter::withdraw() {
    if (state_->console) return state_->console->withdraw();
    if (state_->reading) print("\n");
}

ScreenSize LinePrompter::size() const {
    const Style style = Style::of(STDOUT_FILENO);
    return {static_cast<std::size_t>(style.columns), static_cast<std::size_t>(style.rows)};
}

void LinePrompter::remember(const std::string& input) { state_->history.add(input); }

void LinePrompter::show_again() {
    if (state_->reading) print("\n" + state_->prompt);
}

Console& LinePrompter::State::open_console() {
    out() << flush_now;
    console =
        std::make_unique<Console>(executor, *Runtime::standard()->clock, std::filesystem::path(),
                                  ConsoleTerminal(), ConsoleUse::question);
    return *console;
}

Task<std::optional<Chosen>> LinePrompter::State::choose_at_console(Choices choices) {
    Task<std::optional<Chosen>> question = open_console().choose(std::move(choices));
    Outcome<std::optional<Chosen>> answer = co_await outcome_of(std::move(question));
    console.reset();
    co_return std::move(answer).value();
}

/// Awaits a question of open_console().
Task<std::optional<std::string>> LinePrompter::State::ask_at_console(
    Task<std::optional<std::string>> question) {
    Outcome<std::optional<std::string>> answer = co_await outcome_of(std::move(question));
    console.reset();
    co_return std::move(answer).value();
}

Task<std::optional<std::string>> LinePrompter::read(TerminalText prompt, std::string prefill) {
    State& state = *state_;
    if (!state.input.is_terminal()) co_return co_await next_input(std::move(prompt));
    std::optional<std::string> answer;
    const bool foreground = co_await wait_for_foreground(STDIN_FILENO);
    if (!foreground) co_return answer;
    if (Console::possible()) {
        Task<std::optional<std::string>> question =
            state.open_console().read(std::move(prompt), std::move(prefill));
        answer = co_await state.ask_at_console(std::move(question));
        co_return answer;
    }
    co_await Runtime::standard()->clock->sleep_for(question_hold);
    if (in_foreground(STDIN_FILENO)) tcflush(STDIN_FILENO, TCIFLUSH);
    if (!prefill.empty()) print("  " + spelled_out(prefill) + "  (Enter keeps this)\n");
    answer = co_await next_input(std::move(prompt));
    if (answer && answer->empty()) answer = std::move(prefill);
    co_return answer;
}

Task<std::optional<std::string>> LinePrompter::edit(TerminalText prompt, std::string text) {
    std::optional<std::string> answer;
    if (state_->input.is_terminal() && Console::possible()) {
        const bool foreground = co_await wait_for_foreground(STDIN_FILENO);
        if (!foreground) co_return answer;
        Task<std::optional<std::string>> question =
            state_->open_console().edit(std::move(prompt), std::move(text));
        answer = co_await state_->ask_at_console(std::move(question));
        co_return answer;
    }
    answer = co_await read(std::move(prompt), std::move(text));
    co_return answer;
}

Task<std::optional<Chosen>> LinePrompter::choose(Choices choices) {
    std::optional<Chosen> answer;
    if (state_->input.is_terminal() && Console::possible()) {
        const bool foreground = co_await wait_for_foreground(STDIN_FILENO);
        if (foreground) answer = co_await state_->choose_at_console(std::move(choices));
        co_return answer;
    }
    answer = co_await Prompter::choose(std::move(choices));
    co_return answer;
}

Task<std::optional<std::string>> LinePrompter::State::read_block() {
    std::optional<std::string> text = co_await input.next();
    block = text && input.line_waits();
    while (text && input.line_waits()) {
        const std::optional<std::string> line = co_await input.next();
        if (!line) break;
        *text += "\n" + *line;
    }
    co_return text;
}

Task<std::optional<std::string>> LinePrompter::next_input(TerminalText prompt) {
    State& state = *state_;
    std::optional<std::string> result;
    if (state.input.is_terminal()) {
        const bool foreground = co_await wait_for_foreground(STDIN_FILENO);
        if (!foreground) co_return result;
        state.reading = true;
        state.continued.add(SIGCONT);
        state.watch_continued();
    }
    state.prompt = std::move(prompt);
    print(state.prompt);
    std::exception_ptr failure;
    try {
        result = co_await state.read_block();
    } catch (...) {
        failure = std::current_exception();
    }
    state.reading = false;
    boost::system::error_code ignored;
    (void)state.continued.clear(ignored);
    (void)state.continued.cancel(ignored);
    if (failure) std::rethrow_exception(failure);
    co_return result;
}

}  // namespace cubepi::app
