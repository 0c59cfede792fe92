#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <bub/builtin/plugin/core.hpp>

namespace bub::detail {

/// A comma command, between build_prompt and the model stage (B11).
struct PendingCommand {
    std::string line;         ///< with the comma
    bool pasted = false;      ///< the operator did not type the beginning of the line
    bool of_operator = true;  ///< false: a session_command() of any sender, with no others
    const Envelope* message = nullptr;  ///< with the command; set by run_command()'s caller
};

/// The end of a command that has not failed.
struct CommandOutput {
    std::string text = {};
    /// Facts for views, from the details of the result: `subagent` (the work of one that the command has called),
    /// `output_file` and `output_lines` (of an output of which the text has a part).
    JsonObject details = {};
};

/// Runs the command. Records the event `command` on the tape, even if the command throws; `,!`
/// also records a user message with the command and its output. A message whose command is on the tape is not run again: it has the
/// output, or throws the failure, that is recorded there (D171).
Task<CommandOutput> run_command(std::shared_ptr<BuiltinCore> core, PendingCommand pending,
                                std::string session_id, TurnState& state);

}  // namespace bub::detail
