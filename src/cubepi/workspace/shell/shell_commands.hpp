#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cubepi::detail {

/// Splits a text that a shell takes literally (plain characters, backslashes and quotes) into words. Returns nothing if the
/// shell would expand something (expansions, patterns, braces, a home directory, a comment), if an operator, a byte beyond
/// ASCII or a control character occurs outside of quotes, or if a quote is not closed. Quotes may contain any byte except
/// zero; `$`, a backtick and `!` inside double quotes are refused.
std::optional<std::vector<std::string>> literal_words(std::string_view text);

/// Quotes a word, if necessary, so that a shell takes it literally.
std::string quote_shell_word(std::string_view word);

/// Returns the known destructive or publishing effects of a command, by the names in it: "rm deletes files; dd overwrites files or disks".
/// The first four are named, others counted. An empty result means little: a script, a build or another program may do worse.
std::string known_effect(std::string_view command);

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

/// A command whose words are all on the list of harmless commands.
struct ListedCommand {
    std::size_t words =
        0;  ///< of the program and its subcommand; the other words are options and operands
    bool needs_directory = false;  ///< its effect depends on files of its working directory
    bool reads = false;            ///< it changes nothing, and builds nothing
};

/// Returns the list entry for `words`, or nothing if a word is not on the list.
std::optional<ListedCommand> find_listed(const std::vector<std::string>& words);

}  // namespace cubepi::detail
