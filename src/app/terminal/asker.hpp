#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <cubepi/core/task.hpp>

namespace cubepi::app {

/// A person who can be told and asked something. Used on one executor.
class Asker {
public:
    virtual ~Asker() = default;
    virtual void say(std::string_view text) = 0;
    /// The answer without its line end; empty when the input has ended. `prefill` can be edited.
    virtual Task<std::optional<std::string>> read(std::string prompt, std::string prefill = {}) = 0;
};

}  // namespace cubepi::app
