#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/agent/tool.hpp>

// Decides which commands may run without approval. The effects of a command cannot be determined from its text, so checking
// the text cannot confine a shell to a directory. Therefore every command needs approval, except the exact commands that the
// user has allowed and the commands of a short list whose options are all known (shell/shell_commands.cpp).

namespace cubepi {

/// Commands that are allowed in a directory.
///
///   cd /src/app && make test       this command, word by word, in this directory
///   cd /src/app && git status *    also followed by options and operands of the list
///   cd * && make test               in any directory
///   ls *                            the same, for programs of the list that do the same everywhere
///
/// Without `cd` a rule is read as if it ended in `*`, because earlier versions saved rules that way.
struct CommandRule {
    std::vector<std::string> words;
    std::string
        directory;  ///< absolute; "*": any; empty: any, for commands that the list marks as independent of it
    bool with_arguments = false;  ///< `words` may be followed by arguments that the list allows

    /// The rule in the form above; words are quoted where a shell requires it.
    std::string text() const;
    /// Throws Error(invalid_argument) for a text that cannot match: empty, or with an operator in it.
    static CommandRule parse(std::string_view text);
    /// Returns why the rule allows nothing and what to write instead; empty if the rule allows something.
    std::string problem() const;
    /// Whether the rule allows a simple command with these words in `directory` (absolute; empty: unknown).
    bool allows(const std::vector<std::string>& words, std::string_view directory) const;
    friend bool operator==(const CommandRule&, const CommandRule&) = default;
};

/// Returns the words of a command that consists of one program and its arguments, as the program receives them. Returns
/// nothing for any other command: if `;`, `&`, `|`, a line break, `<`, `>`, `$(`, `${`, `$[` or a backtick occurs, even within
/// quotes; if the shell would expand something (variables, patterns, braces, ~); if the first word is an assignment or a
/// keyword of the shell; if a quote is not closed.
std::optional<std::vector<std::string>> simple_command(std::string_view command);

/// The list of allowed commands. Not thread-safe.
class CommandPolicy {
public:
    /// Adds a rule; adding it twice has no effect.
    void allow(CommandRule rule);
    /// `directory` is the command's working directory: absolute; empty: unknown.
    bool allows(std::string_view command, std::string_view directory) const;
    const std::vector<CommandRule>& rules() const noexcept { return rules_; }

private:
    std::vector<CommandRule> rules_;
};

/// Returns `irreversible` if the command contains a program that is known to destroy or publish (rm, dd, git push, ...), else
/// `writes`. A list of names can only serve as a warning: other commands may be worse.
ToolRisk command_risk(std::string_view command);

/// Returns the known destructive or publishing effects of a command: "git push publishes commits; rm deletes files". The first four are
/// named, others counted. An empty result does not mean that the command is harmless.
std::string known_command_effect(std::string_view command);

/// Returns true for a simple command of the list of harmless commands that only reads. It may nevertheless run programs that the
/// configuration of a git repository names: run it in a sandbox without writes and network.
bool only_reads(std::string_view command);

/// Returns the rule that the answer "always" would add for this command: exactly its words in this directory, or the list's
/// entry that allows it. None for a command that no rule can match, for one with a known effect, and if the directory is
/// unknown (empty) but relevant.
std::optional<CommandRule> rule_for(std::string_view command, std::string_view directory);

}  // namespace cubepi
