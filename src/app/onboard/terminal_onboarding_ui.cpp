#include "terminal_onboarding_ui.hpp"

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <cerrno>
#include <cstdlib>
#include <utility>

#include <termios.h>
#include <unistd.h>

#include <cubepi/core/error.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/support/trimmed.hpp>
#include <cubepi/net/utf8.hpp>

#include "../terminal/job_control.hpp"
#include "../terminal/terminal_stream.hpp"

namespace cubepi::app {

namespace {

/// Disables the echo of typed characters during its lifetime.
class NoEcho {
public:
    NoEcho() {
        known_ = tcgetattr(STDIN_FILENO, &before_) == 0;
        if (!known_) return;
        termios quiet = before_;
        quiet.c_lflag &= ~static_cast<tcflag_t>(ECHO);
        quiet.c_lflag |= ECHONL;
        tcsetattr(STDIN_FILENO, TCSADRAIN, &quiet);
    }
    ~NoEcho() {
        // TCSANOW: a terminal that takes no output must not hold up the end.
        if (known_ && in_foreground(STDIN_FILENO)) tcsetattr(STDIN_FILENO, TCSANOW, &before_);
    }
    NoEcho(const NoEcho&) = delete;
    NoEcho& operator=(const NoEcho&) = delete;

private:
    termios before_ = {};
    bool known_ = false;
};

}  // namespace

struct TerminalOnboardingUi::Input {
    explicit Input(Executor executor) : descriptor(std::move(executor), dup(STDIN_FILENO)) {}
    boost::asio::posix::stream_descriptor descriptor;
};

TerminalOnboardingUi::TerminalOnboardingUi(Executor executor, Style style)
    : input_(std::make_unique<Input>(std::move(executor))), style_(style) {}

TerminalOnboardingUi::~TerminalOnboardingUi() = default;

void TerminalOnboardingUi::say(std::string text) {
    out() << for_terminal(text);
    if (!text.ends_with('\n')) out() << "\n" << flush_now;
}

Task<std::string> TerminalOnboardingUi::read_line(std::string prompt) {
    out() << for_terminal(prompt) << " > " << flush_now;
    std::string line;
    while (!line.ends_with('\n')) {
        const bool foreground = co_await wait_for_foreground(STDIN_FILENO);
        if (!foreground) throw Error(ErrorCode::cancelled, "the input has ended");
        co_await input_->descriptor.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                                               boost::asio::use_awaitable);
        if (!in_foreground(STDIN_FILENO)) continue;
        char bytes[4096];
        const ssize_t count = ::read(STDIN_FILENO, bytes, sizeof bytes);
        if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (count <= 0) {
            co_await Runtime::standard()->clock->sleep_for(hangup_grace);
            out() << "\n";
            throw Error(ErrorCode::cancelled, "the input has ended");
        }
        line.append(bytes, static_cast<std::size_t>(count));
    }
    if (!is_utf8(line)) line = replace_broken_utf8(line);
    co_return std::string(detail::trimmed(line));
}

Task<std::string> TerminalOnboardingUi::ask(std::string question, std::string default_value) {
    std::string prompt =
        default_value.empty() ? std::move(question) : question + " [" + default_value + "]";
    std::string answer = co_await read_line(std::move(prompt));
    if (answer.empty()) answer = std::move(default_value);
    co_return answer;
}

Task<std::string> TerminalOnboardingUi::ask_secret(std::string question) {
    const NoEcho hidden;
    std::string answer = co_await read_line(std::move(question));
    co_return answer;
}

Task<std::size_t> TerminalOnboardingUi::choose(std::string question,
                                               std::vector<std::string> options,
                                               std::size_t default_value) {
    out() << "\n" << style_.bold() << for_terminal(question) << style_.off() << "\n";
    for (std::size_t i = 0; i < options.size(); ++i)
        out() << (i < 9 ? TerminalView("   ") : TerminalView("  ")) << i + 1 << "  "
              << for_terminal(options[i]) << "\n";
    for (;;) {
        const std::string answer = co_await ask("number", std::to_string(default_value + 1));
        char* end = nullptr;
        const std::size_t number = std::strtoul(answer.c_str(), &end, 10);
        if (*end == '\0' && number >= 1 && number <= options.size()) co_return number - 1;
        out() << "A number from 1 to " << options.size() << ".\n";
    }
}

Task<bool> TerminalOnboardingUi::confirm(std::string question, bool default_value) {
    question += default_value ? " [Y/n]" : " [y/N]";
    for (;;) {
        const std::string answer = co_await read_line(question);
        if (answer.empty()) co_return default_value;
        if (answer == "y" || answer == "Y" || answer == "yes") co_return true;
        if (answer == "n" || answer == "N" || answer == "no") co_return false;
    }
}

}  // namespace cubepi::app
