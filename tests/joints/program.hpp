#pragma once

#include <string>
#include <utility>
#include <vector>

#include "../terminal/terminal.hpp"
#include "model_server.hpp"

namespace cubepi::joint_tests {

/// Runs `cubepi run` with the server's model.
inline terminal_tests::Piped run_at(const terminal_tests::Home& home, const ModelServer& server,
                                    std::vector<std::string> more) {
    std::vector<std::string> arguments = {"run",        "--provider", "openai", "--base-url",
                                          server.url(), "-m",         "local"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return terminal_tests::run_piped(home, std::move(arguments));
}

}  // namespace cubepi::joint_tests
