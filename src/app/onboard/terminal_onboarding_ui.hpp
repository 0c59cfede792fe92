#pragma once

#include <memory>
#include <string>
#include <vector>

#include <bub/onboarding_ui.hpp>

#include "../terminal/style.hpp"

namespace cubepi::app {

/// Asks at the terminal (standard input and output), one line per question. At the end of the input (Ctrl-D) a
/// question throws Error(cancelled). A cancelled question restores the terminal. One per process.
class TerminalOnboardingUi final : public bub::OnboardingUi {
public:
    TerminalOnboardingUi(Executor executor, Style style);
    ~TerminalOnboardingUi() override;

    void say(std::string text) override;
    Task<std::string> ask(std::string question, std::string default_value) override;
    Task<std::string> ask_secret(std::string question) override;
    Task<std::size_t> choose(std::string question, std::vector<std::string> options,
                             std::size_t default_value) override;
    Task<bool> confirm(std::string question, bool default_value) override;

private:
    Task<std::string> read_line(std::string prompt);

    struct Input;
    std::unique_ptr<Input> input_;
    Style style_;
};

}  // namespace cubepi::app
