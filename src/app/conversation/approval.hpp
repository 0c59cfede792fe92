#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <cubepi/agent/middleware.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/workspace/file_change.hpp>
#include <cubepi/workspace/tool_rules.hpp>

#include "../render/question_view.hpp"
#include "../terminal/prompter.hpp"
#include "../terminal/style.hpp"

namespace cubepi::app {

/// The policy of the configuration's rules. Throws Error(invalid_argument) that names the file.
ToolRules policy_of(const std::vector<std::string>& rules);

/// A sentence for each of the configuration's rules that allows nothing, as some do that earlier versions saved, and what to
/// write instead.
std::vector<std::string> unused_rules(const std::vector<std::string>& rules);

/// Asks the user before a tool writes, runs a command or uses the network; a middleware.
///
/// A call of write or edit is shown as a diff of the file, and the tool refuses it when the file changes afterwards. Such a
/// call that cannot work gets the tool's own error instead of a question.
///
/// y runs this call, n refuses it, a adds a rule (shown first, for this session unless saved), e edits the arguments. Of a
/// call that does not fit on the screen only n is taken until all of it was shown: v shows the next rows, w all of them.
/// Without a terminal, and in a background job, every such call is refused, unless all are allowed (--yes).
class Approval {
public:
    struct Options {
        bool allow_all = false;
        std::function<void(const std::string& rule)> save_rule = {};  ///< keeps a rule for good
        /// Previews of the calls of write and edit, shared with the tools; null: their arguments are shown.
        std::shared_ptr<FilePreviews> previews = {};
        /// Where write and edit would write, which may be protected; see ToolRules. Called on a worker thread. Null:
        /// the path as it is written.
        std::function<std::string(const std::string& path)> write_target = {};
        std::shared_ptr<const Runtime> runtime =
            {};  ///< whose workers read files; null: standard()
    };
    /// `prompter` null: the user cannot be asked.
    Approval(ToolRules policy, std::shared_ptr<Prompter> prompter, Style style, Options options);

    Task<std::optional<BeforeToolCallResult>> before_tool_call(BeforeToolCallContext& context);

    /// The rules in effect: configured ones, then those added in this session.
    const std::vector<ApprovalRule>& rules() const noexcept { return policy_.rules(); }
    bool allows_all() const noexcept { return options_.allow_all; }
    /// True if this URL may be fetched without a question.
    bool allows_fetch(const std::string& url) const;

private:
    /// One call that is asked about.
    struct Question {
        const BeforeToolCallContext& context;
        ApprovalDecision decision;
        std::optional<FileChange> change = {};
        std::string problem = {};  // why the call cannot work
    };

    Task<ApprovalDecision> decide(const BeforeToolCallContext& context) const;
    Task<std::optional<BeforeToolCallResult>> ask(Question& question);
    Task<std::optional<BeforeToolCallResult>> answer(Question& question);
    Task<std::optional<BeforeToolCallResult>> edit(Question& question, QuestionView& view);
    /// Fills in the change that the call would make, or why it cannot work.
    Task<void> preview(Question& question, JsonObject args);
    /// Tells why an answer was none.
    void explain(TerminalView text) const;
    Task<void> add_rule(ApprovalRule rule);
    QuestionView view_of(const Question& question) const;
    void view_more(QuestionView& view, const std::string& answer) const;

    ToolRules policy_;
    std::shared_ptr<Prompter> prompter_;
    Style style_;
    Options options_;
};

}  // namespace cubepi::app
