#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <cubepi/agent/hitl_channel.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/hitl/confirm_tool_calls.hpp>
#include <cubepi/workspace/file_change.hpp>
#include <cubepi/workspace/tool_rules.hpp>

#include "../render/question_view.hpp"
#include "../terminal/prompter.hpp"
#include "../terminal/terminal_stream.hpp"

namespace cubepi::app {

/// Makes the rules of the configuration. Throws Error(invalid_argument) that names the file.
ToolRules policy_of(const std::vector<std::string>& rules);

/// Returns a sentence for each of the configuration's rules that allows nothing, as some rules that earlier versions saved,
/// and what to write instead.
std::vector<std::string> unused_rules(const std::vector<std::string>& rules);

/// The facts with which the user decides about a call: the `details` of its request.
struct ApprovalDetails {
    std::string question = {};               ///< a sentence or two
    std::optional<std::string> always = {};  ///< the rule that the answer "always" adds
    std::optional<FileChange> change = {};   ///< of the tools write and edit
};

/// The effect of a call of write or edit.
struct CallPreview {
    std::optional<FileChange> change = {};  ///< absent for other tools
    std::string problem = {};               ///< why the call cannot work; empty: it can
};

/// Middleware that lets the rules decide about each tool call, and asks the user on a channel about calls that no rule
/// allows. It is an ApprovalPolicyMiddleware whose requests have ApprovalDetails.
///
/// A call of write or edit that cannot work gets the tool's error instead of a question. The tool refuses the call if the
/// file changes after the question. Where the user cannot be asked (no terminal, a background job), all calls that need
/// approval are refused.
class ToolApproval {
public:
    struct Options {
        bool allow_all = false;  ///< --yes
        /// The channel stores its requests: calls that need approval are asked about without a terminal, too.
        bool can_wait = false;
        /// Previews of the calls of write and edit, shared with the tools; null: their arguments are shown.
        std::shared_ptr<FilePreviews> previews = {};
        /// Returns where write and edit would write, which may be protected; see ToolRules. Called on a worker thread.
        /// Null: the path as it is written.
        std::function<std::string(const std::string& path)> write_target = {};
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
    /// Returns the rules in effect: configured ones, then those added in this session.
    const ToolRules& rules() const noexcept { return rules_; }
    bool has_rule(const ApprovalRule& rule) const;
    bool allows_all() const noexcept { return options_.allow_all; }
    /// Returns true if this URL may be fetched without a question.
    bool allows_fetch(const std::string& url) const;

    /// Computes the change that a call would make. The tool compares the file with that of the last preview of the call.
    Task<CallPreview> preview(std::string tool_call_id, std::string tool, JsonObject args) const;

private:
    Task<ApprovalDecision> decide(const BeforeToolCallContext& call) const;
    Task<RuleDecision> apply_rules(const BeforeToolCallContext& call) const;

    ToolRules rules_;
    std::shared_ptr<const Prompter> prompter_;
    Options options_;
    ApprovalPolicyMiddleware middleware_;
};

/// Asks the user whether a tool call may run. Used on one executor.
///
/// y runs the call, n refuses it, a adds a rule (for this session unless it is saved), e edits the arguments. While a call
/// is not shown completely, only n is accepted: v shows the next rows, w all of them. A call of write or edit is shown as a
/// diff of the file.
class ApprovalDialog {
public:
    using SaveRule = std::function<void(const std::string& rule)>;
    /// `prompter` and `approval` outlive the object. `save_rule` stores a rule in the configuration; null: rules last as
    /// long as the session.
    ApprovalDialog(Prompter& prompter, Style style, ToolApproval& approval, SaveRule save_rule);

    /// Asks about the request, whose payload is an ApproveRequest. Empty if the input has ended.
    Task<std::optional<ApproveAnswer>> ask(HitlRequest request);

    /// Returns the question of such a request for a command that does not ask it: as the dialog shows it, as far as it fits on
    /// a screen of this size. `complete` is set to whether all of it fits.
    static TerminalText shown(const HitlRequest& request, const Style& style, ScreenSize screen,
                              bool& complete);
    /// Returns the same as one line, without the content of the call: "write replaces 7 lines of a.txt".
    static std::string title(const HitlRequest& request);

private:
    /// One call in question.
    struct Call {
        std::string tool = {};
        std::string id = {};
        JsonObject args = {};
        Json schema = {};  // of the arguments; null: unknown
        RuleDecision decision = {};
        std::optional<FileChange> change = {};
        std::string agents = {};  // bub::asking_agents()
    };

    static Call call_of(const HitlRequest& request);
    static QuestionView view_of(const Call& call, const Style& style, ScreenSize screen);
    void view_more(QuestionView& view, const std::string& answer) const;
    void explain(TerminalView text) const;
    Task<std::optional<JsonObject>> edit(Call& call, QuestionView& view);
    Task<std::string> check_edit(Call& call, QuestionView& view, Json edited);
    Task<> add_rule(ApprovalRule rule);

    Prompter& prompter_;
    Style style_;
    ToolApproval& approval_;
    SaveRule save_rule_;
};

}  // namespace cubepi::app
