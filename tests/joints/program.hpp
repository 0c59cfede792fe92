#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "../terminal/terminal.hpp"
#include "model_server.hpp"
#include "source_tree.hpp"

namespace cubepi::joint_tests {

/// Runs `cubepi run` with the server's model.
inline terminal_tests::Piped run_at(const terminal_tests::Home& home, const ModelServer& server,
                                    std::vector<std::string> more) {
    std::vector<std::string> arguments = {"run",        "--provider", "openai", "--base-url",
                                          server.url(), "-m",         "local"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return terminal_tests::run_piped(home, std::move(arguments));
}

/// Executes the command that a message prints after `label`, as a user who copies the line into a shell.
inline terminal_tests::Piped run_printed(terminal_tests::Home& home, const std::string& text,
                                         const std::string& label) {
    const std::size_t begin = text.find(label);
    if (begin == std::string::npos) return terminal_tests::Piped{-1, "", "not printed: " + text};
    const std::size_t command = begin + label.size();
    const std::string line = text.substr(command, text.find('\n', command) - command);
    const std::filesystem::path program = testing::built_program("cubepi");
    home.set("PATH", program.parent_path().string() + ":/usr/bin:/bin");
    terminal_tests::Terminal shell(home, terminal_tests::OtherProgram{"/bin/bash"},
                                   {"-c", line + " < /dev/null > ../out 2> ../err"});
    terminal_tests::Piped result;
    result.status = shell.wait();
    result.out = terminal_tests::read_file(home.root() / "out");
    result.err = terminal_tests::read_file(home.root() / "err") + shell.shown();
    return result;
}

}  // namespace cubepi::joint_tests
