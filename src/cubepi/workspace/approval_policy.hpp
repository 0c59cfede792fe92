#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/agent/tool.hpp>
#include <cubepi/workspace/command_policy.hpp>

namespace cubepi {

/// What a person has allowed for a tool: for "shell" the commands of a CommandRule; for "fetch" an origin
/// ("https://example.org", "http://localhost:8080"; a host alone, as earlier versions saved it, is https on port 443; "*":
/// any); for any other tool all of its calls ("*").
struct ApprovalRule {
    std::string tool;
    std::string match;

    /// "shell: git status", as it is shown and saved.
    std::string text() const { return tool + ": " + match; }
    /// Throws Error(invalid_argument).
    static ApprovalRule parse(std::string_view text);
    /// Why the rule allows nothing, as some that earlier versions saved, and what to write instead; empty: it allows
    /// something.
    std::string problem() const;
    friend bool operator==(const ApprovalRule&, const ApprovalRule&) = default;
};

struct ApprovalDecision {
    /// True: the call may run without being asked about.
    bool allowed = false;
    /// What this call may do, which can be more than its tool's risk (a shell command that deletes).
    ToolRisk risk = ToolRisk::writes;
    /// What is about to happen, in a sentence or two, for the person who is asked.
    std::string question;
    /// The rule that "always" would add; none: "always" is not offered.
    std::optional<ApprovalRule> always;
};

/// Decides which tool calls need a person's consent, by the tool's risk (D52) and by what was allowed before. It asks
/// nobody itself: before_tool_call does, with what decide() returns. Not thread-safe.
///
/// No rule allows a write to a repository's `.git`, to skills or to AGENTS.md: such a call is always asked about.
class ApprovalPolicy {
public:
    /// For a workspace below the current directory.
    ApprovalPolicy();
    /// `workspace`: the root that working directories of commands are relative to, absolute; empty: unknown, and no
    /// rule that names a directory matches.
    explicit ApprovalPolicy(std::string workspace) : workspace_(std::move(workspace)) {}

    /// Adding a rule twice changes nothing. Throws Error(invalid_argument) for a rule that cannot be read; one that allows
    /// nothing (ApprovalRule::problem) is kept.
    void allow(const ApprovalRule& rule);

    /// The rules, in the order in which they were added.
    const std::vector<ApprovalRule>& rules() const noexcept { return rules_; }

    /// Takes the argument `path` of a call as it is written. Where a workspace can have symbolic links, use the overload below.
    ApprovalDecision decide(std::string_view tool, ToolRisk risk,
                            const JsonObject& arguments) const;
    ApprovalDecision decide(const AgentTool& tool, const JsonObject& arguments) const {
        return decide(tool.name.str(), tool.risk_level, arguments);
    }
    /// `write_target`: what Workspace::write_target returns for the argument `path`; absent when it throws.
    ApprovalDecision decide(std::string_view tool, ToolRisk risk, const JsonObject& arguments,
                            const std::optional<std::string>& write_target) const;

private:
    bool has(std::string_view tool, std::string_view match) const;
    bool allows_fetch(std::string_view origin) const;
    std::string directory_of(const JsonObject& arguments) const;
    void decide_command(ApprovalDecision& decision, const JsonObject& arguments) const;

    std::string workspace_;
    std::vector<ApprovalRule> rules_;
    CommandPolicy commands_;
};

/// What whoever allows shell commands has to know, for where they are asked and for documentation.
inline constexpr std::string_view shell_warning =
    "A command can do whatever you can, anywhere on this machine: it is not confined to the "
    "workspace.";

}  // namespace cubepi
