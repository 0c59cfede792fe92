#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/agent/hitl_channel.hpp>
#include <cubepi/agent/tool.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/hitl/confirm_tool_calls.hpp>
#include <cubepi/workspace/file_change.hpp>
#include <cubepi/workspace/tool_rules.hpp>
#include <cubepi/workspace/workspace.hpp>

#include "../config/config_file.hpp"
#include "../project/project.hpp"
#include "../terminal/prompter.hpp"
#include "../terminal/terminal_text.hpp"

namespace cubepi::app {

/// Treatment of tool calls that no rule allows (D131).
enum class ApprovalMode : std::uint8_t {
    ask,           ///< the user is asked
    accept_edits,  ///< write and edit run, the user is asked about the others
    plan,          ///< calls above read_only are refused, whatever the rules allow
    all,           ///< all run
};

/// The modes in the order in which Shift-Tab goes through them.
inline constexpr std::array approval_modes{ApprovalMode::ask, ApprovalMode::accept_edits,
                                           ApprovalMode::plan, ApprovalMode::all};

/// The mode of a conversation. It belongs to the process and is never stored: a run that another process continues asks.
/// All approvals of the conversation share it, also those of sub-agents (D114). Used on one executor.
using SharedMode = std::shared_ptr<ApprovalMode>;

/// "ask", "accept edits", "plan", "all".
TerminalView name_of(ApprovalMode mode);
/// Returns what the mode does, in one line.
TerminalView effect_of(ApprovalMode mode);
/// Returns the mode with this name, in which a hyphen may stand for the blank; empty: there is none.
std::optional<ApprovalMode> mode_named(std::string_view name);
ApprovalMode mode_after(ApprovalMode mode);

/// Makes the rules of the configuration. Throws Error(invalid_argument) that names the file.
ToolRules policy_of(const std::vector<std::string>& rules);
/// The same with the rules that restrict calls, and with those of the project.
ToolRules rules_of(const ConfigFile& config, const ProjectSettings& project = {});
/// Adds the rules that restrict calls.
void add_restrictions(ToolRules& rules, const ConfigFile& config);
void add_restrictions(ToolRules& rules, const ProjectSettings& project);

/// Returns the hooks of the configuration, then those of the project.
std::vector<bub::CommandHook> hooks_of(const ConfigFile& config, const ProjectSettings& project);

/// Returns a sentence for each of the configuration's rules that allows nothing, as some rules that earlier versions saved,
/// and what to write instead.
std::vector<std::string> unused_rules(const std::vector<std::string>& rules);

/// The facts with which the user decides about a call: the `details` of its request.
struct ApprovalDetails {
    std::string question = {};                ///< a sentence or two
    std::optional<std::string> always = {};   ///< the rule that the answer "always" adds
    std::optional<FileChange> change = {};    ///< of the tools write and edit
    std::optional<std::string> preview = {};  ///< FilePreviews::key_of(); absent in older requests
};

/// The effect of a call of write or edit.
struct CallPreview {
    std::optional<FileChange> change = {};  ///< absent for other tools
    std::string problem = {};               ///< why the call cannot work; empty: it can
};

/// Middleware that lets the mode and the rules decide about each tool call, and asks the user on a channel about calls that no rule
/// allows. It is an ApprovalPolicyMiddleware whose requests have ApprovalDetails.
///
/// A call of write or edit that cannot work gets the tool's error instead of a question. The tool refuses the call if the
/// file changes after the question. Where the user cannot be asked (no terminal, a background job), all calls that need
/// approval are refused.
///
/// In the mode `plan` only read_only tools run, and sub-agents, whose calls are decided in the same way.
class ToolApproval {
public:
    /// Its calls are decided one by one (D114), so it may be started in each mode.
    static constexpr std::string_view subagent_tool = "subagent";
    struct Options {
        SharedMode mode = {};  ///< null: one of its own, `ask`
        /// The channel stores its requests: calls that need approval are asked about without a terminal, too.
        bool can_wait = false;
        /// Previews of the calls of write and edit, shared with the tools; null: their arguments are shown.
        std::shared_ptr<FilePreviews> previews = {};
        /// Where the paths of calls lead, for rules about files and protected files; see ToolRules. Null: the paths as they are written.
        std::shared_ptr<Workspace> workspace = {};
        /// Returns what an answer "always" about a tool of an MCP server is bound to besides its definition; nothing: there is no such
        /// answer. Null: the same.
        std::function<std::optional<std::string>(const std::string& tool)> server_of = {};
        bool has_fetch_hook = false;  ///< a hook of the user runs before each call of `fetch`
        std::shared_ptr<const Runtime> runtime =
            {};  ///< its workers read files; null: Runtime::standard()
    };
    /// `prompter` is the one that answers the requests of the channel; null: the user cannot be asked.
    ToolApproval(ToolRules rules, std::shared_ptr<HitlChannel> channel,
                 std::shared_ptr<const Prompter> prompter, Options options);
    ToolApproval(const ToolApproval&) = delete;
    ToolApproval& operator=(const ToolApproval&) = delete;

    Task<std::optional<BeforeToolCallResult>> before_tool_call(BeforeToolCallContext& call);

    /// Adds a rule for the session.
    void add_rule(const ApprovalRule& rule) { rules_.allow(rule); }
    /// Removes a rule from those in effect; the configuration is not changed.
    void withdraw_rule(const ApprovalRule& rule) { (void)rules_.withdraw(rule); }
    void withdraw_rule(const RestrictingRule& rule) { (void)rules_.withdraw(rule); }
    /// Returns the rules in effect: configured ones, then those added in this session.
    const ToolRules& rules() const noexcept { return rules_; }
    bool has_rule(const ApprovalRule& rule) const;
    ApprovalMode mode() const noexcept { return *options_.mode; }
    /// Applies to the calls that are decided from now on. A question that waits already still needs its answer, which in the
    /// mode `plan` cannot be consent.
    void set_mode(ApprovalMode mode) noexcept { *options_.mode = mode; }
    /// Returns true if the mode is `plan` and does not let the user allow a call of this tool.
    bool refuses_in_plan(std::string_view tool) const noexcept {
        return mode() == ApprovalMode::plan && tool != subagent_tool;
    }
    /// Returns true if this URL may be fetched without a question, and without a hook that has to see it.
    bool allows_fetch(const std::string& url) const;

    /// Computes the change that a call would make. The tool compares the file with that of the last preview of the call. `key`:
    /// ApprovalDetails::preview; `judged`: of FilePreviews::preview().
    Task<CallPreview> preview(std::string key, std::string tool, JsonObject args,
                              std::optional<JudgedFile> judged = std::nullopt) const;

private:
    Task<ApprovalDecision> decide(const BeforeToolCallContext& call) const;
    RuleDecision with_definition(const AgentTool& tool, RuleDecision decision) const;
    Task<RuleDecision> apply_rules(const BeforeToolCallContext& call) const;

    ToolRules rules_;
    std::shared_ptr<const Prompter> prompter_;
    Options options_;
    ApprovalPolicyMiddleware middleware_;
};

/// Returns the rule that allows further calls of a tool of an MCP server as long as its server does not change it (D148):
/// "mcp__git__log: sha256:1f0c...", with a digest of its description, schema and risk, and of `server`, which tells apart servers of one
/// name (McpServerSettings::identity()). Nothing for other tools.
std::optional<ApprovalRule> mcp_tool_rule(const AgentTool& tool, const std::string& server);

/// A rule, and where it comes from.
struct Permission {
    RuleEffect effect = RuleEffect::allow;
    ApprovalRule rule = {};
    std::string source = {};  ///< a file; empty: this session
    bool is_of_user = false;  ///< the file is the configuration of the user

    /// "allow write: *"
    std::string text() const { return std::string(to_string(effect)) + " " + rule.text(); }
};

/// Returns the rules in effect: those that allow, then those that ask, then those that deny.
std::vector<Permission> permissions(const ToolRules& rules, const ConfigFile& config,
                                    const ProjectSettings& project);

/// Describes a list without rules.
inline constexpr std::string_view no_permission =
    "No rule allows a call; tools that write, run commands or use the network ask first.\n";

/// Returns a numbered line for each.
std::string permissions_text(const std::vector<Permission>& list);

/// Returns the one with this number, or this text ("shell: git status *", "deny shell: rm *"). Throws Error(invalid_argument) if
/// there is none; `how` names the command that lists them.
Permission permission_named(const std::vector<Permission>& list, std::string_view name,
                            std::string_view how);

/// Removes a permission from the configuration of the user. Returns false if it is not there. Throws Error: invalid_argument for one
/// of a project, whose file the user edits; what save_config() throws.
bool remove_saved(const Permission& permission);

}  // namespace cubepi::app
