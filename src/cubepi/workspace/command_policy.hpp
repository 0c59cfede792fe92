#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/agent/tool.hpp>

// Which commands may run without being asked about. No look at its text can tell what a command will do: a shell cannot
// be confined to a folder that way. So everything is asked about that a person has not allowed in so many words.

namespace cubepi {

/// A program and the arguments that must follow it: allows the commands that begin with these words. What comes after
/// them must not turn the command into another: a rule allows what is `irreversible`, or makes the program run or
/// overwrite something else (find -exec, git grep -O), only when its own words say so.
struct CommandRule {
    std::vector<std::string> words;

    /// "git status"; words are quoted where a shell would need it.
    std::string text() const;
    /// Throws Error(invalid_argument) for a text that could match nothing: empty, or with an operator in it.
    static CommandRule parse(std::string_view text);
    friend bool operator==(const CommandRule&, const CommandRule&) = default;
};

/// The words of a command that is one program with its arguments. Empty for anything else: when `;`, `&`, `|`, a line
/// break, `$(`, `${`, `$[`, a backtick or a redirection occurs, be it within quotes; for an assignment, a subshell, a variable or a
/// pattern in the program's place; for an open quote.
std::optional<std::vector<std::string>> simple_command(std::string_view command);

/// The allow list. Not thread-safe.
class CommandPolicy {
public:
    /// Adding a rule twice changes nothing.
    void allow(CommandRule rule);
    bool allows(std::string_view command) const;
    const std::vector<CommandRule>& rules() const noexcept { return rules_; }

private:
    std::vector<CommandRule> rules_;
};

/// `irreversible` when the command contains a program that is known to destroy or publish (rm, dd, git push, ...), else
/// `writes`. A list of names can only serve as a warning: what is not on it may be worse.
ToolRisk command_risk(std::string_view command);

/// The rule that "always" would add for this command: the program for some that only read (ls, grep), program and
/// subcommand for those that have one (git status), otherwise all of its words. None for a command that no rule can
/// match, that is irreversible, or behind which a longer one could run anything (env, timeout 5).
std::optional<CommandRule> rule_for(std::string_view command);

}  // namespace cubepi
