#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/agent/tool.hpp>
#include <cubepi/workspace/command_policy.hpp>

namespace cubepi {

class Workspace;

/// The effect of a rule on the calls that it matches. `deny` takes precedence over `ask`, and `ask` over `allow`.
enum class RuleEffect : std::uint8_t {
    allow,  ///< they run without a question
    ask,    ///< they are asked about, whatever is allowed
    deny,   ///< they are refused, and no answer could make them run
};

std::string_view to_string(RuleEffect effect) noexcept;

/// The calls of a tool that the user has allowed: for "shell" the commands of a CommandRule; for "fetch" an origin
/// ("https://example.org", "http://localhost:8080"; a host alone, as earlier versions saved it, is https on port 443; "*":
/// any); for a tool of an MCP server the digest of its definition ("sha256:" and 32 hexadecimal digits, D148), which the host
/// compares; for any other tool, and these, all of its calls ("*").
///
/// A rule that restricts (`ask`, `deny`) matches more: the name of its tool may end in "*"; for "shell" it has the words of a command,
/// which match any command that names them in this order (detail::find_named_command), or "*"; for "fetch" a host matches whatever
/// the scheme and the port (detail::restricts_fetch); for a tool of files it may be a pattern of paths (detail::PathPattern). With such
/// a pattern a rule for `write` or `edit` holds for both, because each can do what the other does, and a rule for `read` also for
/// `grep`, `send_file` and `edit`.
struct ApprovalRule {
    std::string tool;
    std::string match;

    /// The rule as it is shown and saved: "shell: git status".
    std::string text() const { return tool + ": " + match; }
    /// Throws Error(invalid_argument).
    static ApprovalRule parse(std::string_view text, RuleEffect effect = RuleEffect::allow);
    /// Returns why the rule allows nothing (as some rules saved by earlier versions) and what to write instead; empty if
    /// the rule allows something.
    std::string problem() const;
    friend bool operator==(const ApprovalRule&, const ApprovalRule&) = default;
};

/// A rule that restricts calls.
struct RestrictingRule {
    ApprovalRule rule = {};
    RuleEffect effect = RuleEffect::deny;
    std::string source = {};  ///< the file that has it, for messages; may be empty
    std::string base = {};    ///< where relative paths begin; empty: the root of the workspace
    std::string except =
        {};  ///< a directory, absolute, whose files a pattern of paths does not match

    /// "deny shell: rm *"
    std::string text() const { return std::string(to_string(effect)) + " " + rule.text(); }
    /// A source has one base.
    friend bool operator==(const RestrictingRule& left, const RestrictingRule& right) {
        return left.rule == right.rule && left.effect == right.effect &&
               left.source == right.source;
    }
};

struct RuleDecision {
    /// True: the call may run without approval.
    bool allowed = false;
    /// The risk of this call, which can be higher than its tool's risk (a shell command that deletes).
    ToolRisk risk = ToolRisk::writes;
    /// A description of the call in a sentence or two, for the approver.
    std::string question;
    /// Why the call is refused in any case, so that no answer could make it run; empty: it may run. By a rule, and by fetch as it is
    /// with its default options. The call is refused with this text instead of asked about; a fetch that is allowed gets the tool's
    /// own answer.
    std::string refusal = {};
    /// True: no rule allows such a call (D72), or a rule restricts it, and a mode that allows others must not.
    bool always_asks = false;
    /// The file by which decide() has decided in a workspace: for BeforeToolCallContext::judged_file.
    std::optional<JudgedFile> file = {};
    /// The rule that the answer "always" would add; none: "always" is not offered.
    std::optional<ApprovalRule> always;
};

/// The confinement of commands, for the decisions about calls of `shell`.
struct CommandConfinement {
    /// Describes to the approver what a command can do: "It changes files only in ...". Empty: it is not confined.
    std::string text = {};
    /// Commands that only read (only_reads) run without approval. Their sandbox must allow neither writes nor the network.
    bool reads_unasked = false;
};

/// Decides which tool calls need approval, by the tool's risk (D52) and the existing rules. The policy does not ask for
/// approval itself: before_tool_call does, with the result of decide(). Not thread-safe.
///
/// A command with the argument `without_sandbox` always needs approval, too: it leaves its sandbox once.
///
/// No rule allows a write to a repository's `.git`, to skills or to instructions such as AGENTS.md: such a call always needs approval.
class ToolRules {
public:
    /// Creates a policy for a workspace at the current directory.
    ToolRules();
    /// `workspace` is the absolute root that working directories of commands are relative to. If it is empty (unknown), no
    /// rule that names a directory matches.
    explicit ToolRules(std::string workspace) : workspace_(std::move(workspace)) {}

    /// Sets what confines the commands; initially nothing does.
    void confine_commands(CommandConfinement confinement) { confinement_ = std::move(confinement); }

    /// Adds a rule; adding it twice has no effect. Throws Error(invalid_argument) for an invalid rule; a rule that allows
    /// nothing (ApprovalRule::problem) is added.
    void allow(const ApprovalRule& rule);

    /// Adds a rule that restricts calls: its effect is not `allow`. Throws Error(invalid_argument) for an invalid rule.
    void restrict(RestrictingRule rule);
    bool withdraw(const RestrictingRule& rule);
    const std::vector<RestrictingRule>& restrictions() const noexcept { return restrictions_; }

    /// Removes a rule; returns false if there is none like it.
    bool withdraw(const ApprovalRule& rule);

    /// The rules, in the order in which they were added.
    const std::vector<ApprovalRule>& rules() const noexcept { return rules_; }

    /// Decides on a call; uses its argument `path` literally. For a workspace with symbolic links, use the overload below.
    RuleDecision decide(std::string_view tool, ToolRisk risk, const JsonObject& arguments) const;
    RuleDecision decide(const AgentTool& tool, const JsonObject& arguments) const {
        return decide(tool.name.str(), tool.risk_level, arguments);
    }
    /// `write_target` is the result of Workspace::write_target for the argument `path`; absent if that throws.
    RuleDecision decide(std::string_view tool, ToolRisk risk, const JsonObject& arguments,
                        const std::optional<std::string>& write_target) const;
    /// Decides about the file to which the argument `path` leads in a workspace, and names it in the decision; for calls for which
    /// follows_path() is true. Blocks.
    RuleDecision decide(std::string_view tool, ToolRisk risk, const JsonObject& arguments,
                        Workspace& workspace) const;
    /// Returns true if the decision depends on the links of a workspace.
    bool follows_path(const AgentTool& tool, const JsonObject& arguments) const;

private:
    struct CalledFile;

    bool has(std::string_view tool, std::string_view match) const;
    bool allows_fetch(std::string_view origin) const;
    RuleDecision decide_by_permissions(std::string_view tool, ToolRisk risk,
                                       const JsonObject& arguments,
                                       const std::optional<std::string>& write_target) const;
    RuleDecision decide_about(std::string_view tool, ToolRisk risk, const JsonObject& arguments,
                              const std::optional<std::string>& write_target,
                              const CalledFile& file) const;
    void apply_restrictions(RuleDecision& decision, std::string_view tool, ToolRisk risk,
                            const JsonObject& arguments, const CalledFile& file) const;
    std::string directory_of(const JsonObject& arguments) const;
    void decide_command(RuleDecision& decision, const JsonObject& arguments) const;

    std::string workspace_;
    CommandConfinement confinement_;
    std::vector<ApprovalRule> rules_;
    std::vector<RestrictingRule> restrictions_;
    CommandPolicy commands_;
};

/// The warning to show to a user who allows shell commands, in prompts and in documentation.
inline constexpr std::string_view shell_warning =
    "A command can do whatever you can, anywhere on this machine: it is not confined to the "
    "workspace.";

}  // namespace cubepi
