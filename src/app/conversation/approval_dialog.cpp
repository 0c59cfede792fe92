#include "approval_dialog.hpp"

#include <cctype>
#include <string_view>
#include <utility>

#include <cubepi/schema/json_convert.hpp>
#include <cubepi/schema/validate.hpp>

#include "../terminal/framed_text.hpp"
#include "../terminal/safe_json.hpp"

namespace cubepi::app {

namespace {

std::string lower(std::string text) {
    for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return text;
}

TerminalText prompt_of(const QuestionView& view, const ApprovalDecision& decision) {
    if (!view.complete()) return TerminalView("  [v]iew more  [w]hole  [n]o > ");
    TerminalText prompt("  [y]es  [n]o  ");
    if (decision.always) prompt += "[a]lways  ";
    prompt += "[e]dit > ";
    return prompt;
}

}  // namespace

ApprovalDialog::ApprovalDialog(Prompter& prompter, Style style, ToolApproval& approval,
                               SaveRule save_rule)
    : prompter_(prompter), style_(style), approval_(approval), save_rule_(std::move(save_rule)) {}

ApprovalDialog::Call ApprovalDialog::call_of(const HitlRequest& request) {
    const auto& payload = std::get<ApproveRequest>(request.payload);
    Call call;
    call.tool = payload.tool_name;
    call.id = payload.tool_call_id;
    call.args = payload.args;
    if (const Json* schema = request.extra.if_contains("input_schema")) call.schema = *schema;
    ApprovalDetails details;
    // Requests of other middleware have other details: the call itself is shown in any case.
    if (!try_from_json(payload.details, details).empty()) details = ApprovalDetails();
    call.decision.question =
        details.question.empty() ? "Call " + call.tool : std::move(details.question);
    if (details.always) call.decision.always = ApprovalRule::parse(*details.always);
    call.change = std::move(details.change);
    return call;
}

QuestionView ApprovalDialog::view_of(const Call& call) const {
    const QuestionView::Call shown{call.tool, call.args, call.decision,
                                   call.change ? &*call.change : nullptr};
    return QuestionView(shown, style_, prompter_.size());
}

Task<std::optional<ApproveAnswer>> ApprovalDialog::ask(HitlRequest request) {
    Call call = call_of(request);
    // The user may have added the rule since the request was made, in the question about another call of the same answer.
    if (call.decision.always && approval_.has_rule(*call.decision.always))
        co_return ApproveAnswer();
    co_await prompter_.prepare();
    QuestionView view = view_of(call);
    prompter_.say(view.opening());
    for (;;) {
        TerminalText prompt = prompt_of(view, call.decision);
        const std::optional<std::string> answer = co_await prompter_.read(std::move(prompt));
        if (!answer) co_return std::nullopt;
        const std::string word = lower(*answer);
        if (word == "n" || word == "no")
            co_return ApproveAnswer::deny("The user refused this call.");
        if (!view.complete()) {
            view_more(view, word);
            continue;
        }
        if (word == "y" || word == "yes") co_return ApproveAnswer();
        const bool always = word == "a" || word == "always";
        if (always && call.decision.always) {
            co_await add_rule(*call.decision.always);
            co_return ApproveAnswer();
        }
        if (word == "e" || word == "edit") {
            std::optional<JsonObject> edited = co_await edit(call, view);
            if (edited) co_return ApproveAnswer::edit(std::move(*edited));
        } else if (always) {
            explain("This call cannot be allowed by a rule: answer y to allow it once, or n.");
        } else {
            explain("Answer y, n, or one of the other letters.");
        }
    }
}

/// Shows more of the call; consent is accepted only after all of it was shown.
void ApprovalDialog::view_more(QuestionView& view, const std::string& answer) const {
    if (answer == "v" || answer == "view") {
        prompter_.say(view.next_page());
    } else if (answer == "w" || answer == "whole") {
        prompter_.say(view.rest());
    } else {
        explain(
            "This call is not shown completely: v shows the next rows, w all of them, n refuses.");
    }
}

void ApprovalDialog::explain(TerminalView text) const {
    prompter_.say("  " + style_.dim() + text + style_.off() + "\n");
}

/// Returns the new arguments; empty if they were not accepted.
Task<std::optional<JsonObject>> ApprovalDialog::edit(Call& call, QuestionView& view) {
    std::optional<JsonObject> result;
    std::string shown = safe_json(call.args);
    TerminalText prompt("  arguments > ");
    const std::optional<std::string> text =
        co_await prompter_.read(std::move(prompt), std::move(shown));
    if (!text) co_return result;
    boost::system::error_code failed;
    Json edited = boost::json::parse(*text, failed);
    std::string problem = "The arguments must be a JSON object.";
    if (!failed && edited.is_object()) problem = co_await check_edit(call, view, edited);
    if (problem.empty()) {
        result = std::move(edited.get_object());
    } else {
        prompter_.say(style_.red() +
                      framed(problem, prompter_.size().columns, Frame{"  ", "  ┊ "}) +
                      style_.off());
    }
    co_return result;
}

/// Previews the edited call. Returns why it cannot work; empty: it can.
Task<std::string> ApprovalDialog::check_edit(Call& call, QuestionView& view, Json edited) {
    std::string problem;
    if (call.schema.is_object()) {
        const std::vector<SchemaIssue> issues = JsonSchema(call.schema).validate(edited);
        if (!issues.empty()) {
            problem = format_issues(call.tool, issues);
            co_return problem;
        }
    }
    CallPreview preview = co_await approval_.preview(call.id, call.tool, edited.get_object());
    if (preview.problem.empty()) {
        if (preview.change)
            prompter_.say(change_text(*preview.change, style_, prompter_.size().columns));
        co_return problem;
    }
    problem = std::move(preview.problem);
    // The tool compares the file with the last preview, which must be that of the call as it is shown. The file may have
    // changed since the question.
    CallPreview original = co_await approval_.preview(call.id, call.tool, call.args);
    if (original.change && (!call.change || original.change->diff != call.change->diff)) {
        call.change = std::move(original.change);
        view = view_of(call);
        prompter_.say(view.opening());
    }
    co_return problem;
}

Task<> ApprovalDialog::add_rule(ApprovalRule rule) {
    approval_.add_rule(rule);
    if (!save_rule_) co_return;
    TerminalText prompt("  for this session; save it permanently? [y/N] > ");
    const std::optional<std::string> answer = co_await prompter_.read(std::move(prompt));
    if (answer && lower(*answer) == "y") save_rule_(rule.text());
}

}  // namespace cubepi::app
