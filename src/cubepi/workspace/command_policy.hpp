#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/agent/tool.hpp>

// Which commands may run without being asked about. No look at its text can tell what a command will do: a shell cannot
// be confined to a directory that way. So everything is asked about but the exact commands that a person has allowed, and
// commands of a short list whose options are all known (detail/harmless_commands.cpp).

namespace cubepi {

/// Commands that are allowed in a directory.
///
///   cd /src/app && make test       this command, word by word, in this directory
///   cd /src/app && git status *    also with options and operands of the list behind it
///   cd * && make test               in any directory
///   ls *                            the same, for programs of the list that do the same everywhere
///
/// Without `cd` a rule is read as if `*` were behind it, which is how earlier versions saved rules.
struct CommandRule {
    std::vector<std::string> words;
    std::string
        directory;  ///< absolute; "*": any; empty: any, and the list must say that it does not matter
    bool with_arguments = false;  ///< what the list allows behind `words`

    /// As above; words are quoted where a shell would need it.
    std::string text() const;
    /// Throws Error(invalid_argument) for a text that could match nothing: empty, or with an operator in it.
    static CommandRule parse(std::string_view text);
    /// Why the rule allows nothing, and what to write instead; empty: it allows something.
    std::string problem() const;
    /// `words` of a simple command, run in `directory` (absolute; empty: unknown).
    bool allows(const std::vector<std::string>& words, std::string_view directory) const;
    friend bool operator==(const CommandRule&, const CommandRule&) = default;
};

/// The words of a command that is one program with its arguments, each written as the program gets it. Empty for anything
/// else: when `;`, `&`, `|`, a line break, `<`, `>`, `$(`, `${`, `$[` or a backtick occurs, be it within quotes; for anything
/// that the shell would replace (variables, patterns, braces, ~); for an assignment in the program's place and a word
/// with which the shell begins something else; for an open quote.
std::optional<std::vector<std::string>> simple_command(std::string_view command);

/// The allow list. Not thread-safe.
class CommandPolicy {
public:
    /// Adding a rule twice changes nothing.
    void allow(CommandRule rule);
    /// `directory` is where the command would run: absolute; empty: unknown.
    bool allows(std::string_view command, std::string_view directory) const;
    const std::vector<CommandRule>& rules() const noexcept { return rules_; }

private:
    std::vector<CommandRule> rules_;
};

/// `irreversible` when the command contains a program that is known to destroy or publish (rm, dd, git push, ...), else
/// `writes`. A list of names can only serve as a warning: what is not on it may be worse.
ToolRisk command_risk(std::string_view command);

/// What is known that the command destroys or publishes: "git push publishes commits". Empty: nothing is known, which is no
/// sign that it is harmless.
std::string known_command_effect(std::string_view command);

/// The rule that "always" would add for this command: exactly its words in this directory, or the list's entry that allows
/// it. None for a command that no rule can match, for one with a known effect, and where the directory is unknown
/// (empty) but matters.
std::optional<CommandRule> rule_for(std::string_view command, std::string_view directory);

}  // namespace cubepi
