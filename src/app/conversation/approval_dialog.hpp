#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <cubepi/agent/hitl_channel.hpp>
#include <cubepi/core/hitl_request.hpp>
#include <cubepi/core/json.hpp>
#include <cubepi/core/task.hpp>
#include <cubepi/workspace/file_change.hpp>
#include <cubepi/workspace/tool_rules.hpp>

#include "../render/question_view.hpp"
#include "../terminal/prompter.hpp"
#include "../terminal/terminal_stream.hpp"
#include "tool_approval.hpp"

namespace cubepi::app {

/// Asks the user whether a tool call may run. Used on one executor.
///
/// y runs the call, n refuses it, r too, with a reason, a adds a rule (for this session unless it is saved), e edits the text of
/// the call, or its arguments as JSON if it has none. While a call is not shown completely, it can only be refused: v shows
/// the next rows, w all of them. A call of write or edit is shown as a diff of the file.
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
        std::string preview = {};  // ApprovalDetails::preview
        JsonObject args = {};
        Json schema = {};  // of the arguments; null: unknown
        RuleDecision decision = {};
        std::optional<FileChange> change = {};
        std::string agents = {};  // bub::asking_agents()
    };

    static Call call_of(const HitlRequest& request);
    static QuestionView view_of(const Call& call, const Style& style, ScreenSize screen);
    void explain(TerminalView text) const;
    Task<std::optional<ApproveAnswer>> ask_reason(Chosen chosen);
    Task<std::optional<JsonObject>> edit(Call& call, QuestionView& view,
                                         std::optional<FileChange>& change);
    TerminalText shown_again(const Call& call, QuestionView& view, ScreenSize screen) const;
    void note_accepted(const std::optional<FileChange>& change) const;
    Task<std::string> check_edit(Call& call, QuestionView& view, Json edited,
                                 std::optional<FileChange>& change);
    Task<> add_rule(ApprovalRule rule);

    Prompter& prompter_;
    Style style_;
    ToolApproval& approval_;
    SaveRule save_rule_;
};

}  // namespace cubepi::app
