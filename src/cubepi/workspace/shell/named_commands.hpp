#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cubepi::detail {

/// The relation of a command to the words of a rule that restricts commands.
enum class NamedCommand : std::uint8_t {
    no,
    /// The command computes the name of a program, or runs text as commands: its own text does not say.
    unknown,
    yes,
};

/// Returns `yes` if one of the parts of a command has the words of the rule in this order, others between them: "git -C x push" has
/// "git push". The first word may be a path, or follow another program ("sudo rm"); quotes and backslashes are ignored. So it
/// finds too much rather than too little, but a script or another program can do what no text names.
NamedCommand find_named_command(std::string_view command, const std::vector<std::string>& words);

}  // namespace cubepi::detail
