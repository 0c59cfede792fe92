#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <cubepi/agent/hitl_channel.hpp>
#include <cubepi/workspace/tool_rules.hpp>

#include "../render/question_view.hpp"
#include "../terminal/prompter.hpp"
#include "../terminal/style.hpp"
#include "tool_approval.hpp"

namespace cubepi::app {

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

private:
    /// One call in question.
    struct Call {
        std::string tool = {};
        std::string id = {};
        JsonObject args = {};
        Json schema = {};  // of the arguments; null: unknown
        ApprovalDecision decision = {};
        std::optional<FileChange> change = {};
    };

    static Call call_of(const HitlRequest& request);
    QuestionView view_of(const Call& call) const;
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
