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
    /// False while questions cannot be answered, e.g. in a background job. A caller that can do without the answer then does
    /// not ask.
    virtual bool can_ask() const { return true; }
    /// Called before the text of a question: waits until all earlier output is shown.
    virtual Task<> prepare() { co_return; }
    virtual void say(std::string_view text) = 0;
    /// The answer without its line end; empty when the input has ended. `prefill` can be edited.
    virtual Task<std::optional<std::string>> read(std::string prompt, std::string prefill = {}) = 0;
};

}  // namespace cubepi::app
