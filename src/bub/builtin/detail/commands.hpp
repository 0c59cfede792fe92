#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <bub/builtin/detail/core.hpp>

namespace bub::detail {

/// A comma command that an operator gave, between build_prompt and the model stage (B11).
struct PendingCommand {
    std::string line;  ///< with the comma
};

/// Runs it and gives its output. Records the event `command` on the tape, also when it throws.
Task<std::string> run_command(std::shared_ptr<BuiltinCore> core, std::string line,
                              std::string session_id, TurnState& state);

}  // namespace bub::detail
