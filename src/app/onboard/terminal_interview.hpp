#pragma once

#include <memory>
#include <string>
#include <vector>

#include <bub/interview.hpp>

#include "../terminal/style.hpp"

namespace cubepi::app {

/// Asks at the terminal (standard input and output), a line per question. At the end of the input (Ctrl-D) a question throws
/// Error(cancelled). A question that is cancelled gives the terminal back as it was. One per process.
class TerminalInterview final : public bub::Interview {
public:
    TerminalInterview(Executor executor, Style style);
    ~TerminalInterview() override;

    void say(std::string text) override;
    Task<std::string> ask(std::string question, std::string usual) override;
    Task<std::string> ask_secret(std::string question) override;
    Task<std::size_t> choose(std::string question, std::vector<std::string> options,
                             std::size_t usual) override;
    Task<bool> confirm(std::string question, bool usual) override;

private:
    Task<std::string> read_line(std::string prompt);

    struct Input;
    std::unique_ptr<Input> input_;
    Style style_;
};

}  // namespace cubepi::app
