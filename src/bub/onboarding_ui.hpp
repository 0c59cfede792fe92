#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <cubepi/core/task.hpp>

namespace bub {

using cubepi::Task;

/// A dialog with the user that asks for settings one at a time; passed to `onboard_config` hooks. Used on one executor.
/// Each question throws Error(cancelled), or is cancelled, when the user aborts; let the exception propagate, and
/// nothing is written.
class OnboardingUi {
public:
    virtual ~OnboardingUi() = default;
    /// Shows a message of one or more lines.
    virtual void say(std::string text) = 0;
    /// Asks for a line of text. Empty input selects `default_value`, which is shown.
    virtual Task<std::string> ask(std::string question, std::string default_value) = 0;
    /// Asks for a secret (a key, a token), which is not echoed. The answer may be empty.
    virtual Task<std::string> ask_secret(std::string question) = 0;
    /// Returns the index of the chosen option.
    virtual Task<std::size_t> choose(std::string question, std::vector<std::string> options,
                                     std::size_t default_value) = 0;
    virtual Task<bool> confirm(std::string question, bool default_value) = 0;
};

}  // namespace bub
