#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <cubepi/core/task.hpp>

namespace bub {

using cubepi::Task;

/// A person who is asked for settings, one question after the other: what `onboard_config` hooks are given. Used on one
/// executor. Each question throws Error(cancelled), or is cancelled, when the person has had enough; let that through, and
/// nothing is written.
class Interview {
public:
    virtual ~Interview() = default;
    /// Tells something; a line, or several.
    virtual void say(std::string text) = 0;
    /// A line of text. An empty one means `usual`, which is shown.
    virtual Task<std::string> ask(std::string question, std::string usual) = 0;
    /// The same for what is not shown while it is typed: a key, a token. May be empty.
    virtual Task<std::string> ask_secret(std::string question) = 0;
    /// One of `options`, by its index.
    virtual Task<std::size_t> choose(std::string question, std::vector<std::string> options,
                                     std::size_t usual) = 0;
    virtual Task<bool> confirm(std::string question, bool usual) = 0;
};

}  // namespace bub
