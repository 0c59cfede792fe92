#include "approval_dialog.hpp"

#include <array>
#include <string_view>
#include <utility>

#include <bub/questions.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/core/support/trimmed.hpp>
#include <cubepi/schema/json_convert.hpp>
#include <cubepi/schema/validate.hpp>

#include "../terminal/keys.hpp"
#include "../terminal/terminal_text.hpp"
#include "../terminal/text_layout.hpp"

namespace cubepi::app {

namespace {

/// The argument that a user edits as text.
struct EditedArgument {
    std::string_view tool;
    std::string_view argument;
    TerminalView prompt;
};

constexpr std::array<EditedArgument, 4> edited_arguments{{
    {"shell", "command", "  (Esc: back) command > "},
    {"write", "content", "  (Esc: back) content > "},
    {"edit", "new_text", "  (Esc: back) new text > "},
    {"fetch", "url", "  (Esc: back) url > "},
}};

/// Returns null if the arguments of the call are edited as JSON.
const EditedArgument* edited_argument(const std::string& tool, const JsonObject& args) {
    for (const EditedArgument& one : edited_arguments) {
        const Json* value = one.tool == tool ? args.if_contains(one.argument) : nullptr;
        if (value && value->is_string()) return &one;
    }
    return nullptr;
}

TerminalText mode_key() { return for_terminal(KeyBindings::hint(KeyCode::back_tab, "/mode")); }

Choice choice(char key, TerminalView label, bool takes_text = false) {
    Choice made;
    made.key = key;
    made.label = label;
    made.takes_text = takes_text;
    return made;
}

/// Consent is accepted only after all of the call was shown.
Choices choices_of(const QuestionView& view, const RuleDecision& decision) {
    Choices choices;
    const bool complete = view.complete();
    if (complete) {
        choices.all.push_back(choice('y', "[y]es"));
    } else {
        choices.all.push_back(choice('v', "[v]iew more"));
        choices.all.push_back(choice('w', "[w]hole"));
    }
    choices.all.push_back(choice('n', "[n]o", true));
    choices.all.push_back(choice('r', "[r]eason", true));
    if (complete && decision.always) choices.all.push_back(choice('a', "[a]lways"));
    if (complete) choices.all.push_back(choice('e', "[e]dit"));
    return choices;
}

ApproveAnswer refusal(std::string_view reason) {
    std::string text = "The user refused this call";
    text += reason.empty() ? "." : ": " + std::string(reason);
    return ApproveAnswer::deny(std::move(text));
}

}  // namespace

ApprovalDialog::ApprovalDialog(Prompter& prompter, Style style, ToolApproval& approval,
                               SaveRule save_rule)
    : prompter_(prompter), style_(style), approval_(approval), save_rule_(std::move(save_rule)) {}

ApprovalDialog::Call ApprovalDialog::call_of(const HitlRequest& request) {
    const auto& payload = std::get<ApproveRequest>(request.payload);
    Call call;
    call.tool = payload.tool_name;
    call.args = payload.args;
    if (const Json* schema = request.extra.if_contains("input_schema")) call.schema = *schema;
    ApprovalDetails details;
    // Requests of other middleware have other details: the call itself is shown in any case.
    if (!try_from_json(payload.details, details).empty()) details = ApprovalDetails();
    call.decision.question =
        details.question.empty() ? "Call " + call.tool : std::move(details.question);
    try {
        if (details.always) call.decision.always = ApprovalRule::parse(*details.always);
    } catch (const Error&) {
        // A stored request of another program: the call cannot be allowed by a rule.
    }
    call.change = std::move(details.change);
    call.preview = details.preview.value_or(payload.tool_call_id);
    call.agents = bub::asking_agents(request);
    return call;
}

QuestionView ApprovalDialog::view_of(const Call& call, const Style& style, ScreenSize screen) {
    const QuestionView::Call shown{call.tool, call.args, call.decision,
                                   call.change ? &*call.change : nullptr, call.agents};
    return QuestionView(shown, style, screen);
}

TerminalText ApprovalDialog::shown(const HitlRequest& request, const Style& style,
                                   ScreenSize screen, bool& complete) {
    Call call = call_of(request);
    call.decision.always.reset();  // it cannot be answered so
    QuestionView view = view_of(call, style, screen);
    complete = view.complete();
    return view.opening();
}

std::string ApprovalDialog::title(const HitlRequest& request) {
    const Call call = call_of(request);
    std::string text = call.decision.question;
    if (call.change) {
        text = call.tool + " " + call.change->summary();
    } else if (call.tool == "shell") {
        text = "shell: " + detail::text_member(call.args, "command");
    }
    return visible(text.substr(0, text.find('\n')));
}

Task<std::optional<ApproveAnswer>> ApprovalDialog::ask(HitlRequest request) {
    Call call = call_of(request);
    // The user may have added the rule since the request was made, in the question about another call of the same answer.
    if (call.decision.always && approval_.has_rule(*call.decision.always) &&
        !approval_.refuses_in_plan(call.tool))
        co_return ApproveAnswer();
    co_await prompter_.prepare();
    QuestionView view = view_of(call, style_, prompter_.size());
    prompter_.print(view.opening());
    // The text refers to this frame.
    struct Withdrawal {
        Prompter& prompter;
        ~Withdrawal() { prompter.set_question(nullptr); }
    };
    const Withdrawal withdrawal{prompter_};
    for (;;) {
        Choices choices = choices_of(view, call.decision);
        prompter_.set_question([&](ScreenSize screen) { return shown_again(call, view, screen); });
        std::optional<Chosen> chosen = co_await prompter_.choose(std::move(choices));
        if (!chosen) co_return std::nullopt;
        // The mode may have changed while the question was on the screen.
        const bool allows = chosen->key == 'y' || chosen->key == 'a' || chosen->key == 'e';
        if (allows && approval_.refuses_in_plan(call.tool)) {
            explain("The mode is plan: change it with " + mode_key() + ", or answer n.");
            continue;
        }
        switch (chosen->key) {
            case 'y': note_accepted(call.change); co_return ApproveAnswer();
            case 'n': co_return refusal(chosen->text);
            case 'r': {
                std::optional<ApproveAnswer> refused = co_await ask_reason(std::move(*chosen));
                if (refused) co_return refused;
                break;
            }
            case 'a':
                co_await add_rule(*call.decision.always);
                if (!approval_.refuses_in_plan(call.tool)) {
                    note_accepted(call.change);
                    co_return ApproveAnswer();
                }
                explain("The mode is plan now: change it with " + mode_key() + ", or answer n.");
                break;
            case 'e': {
                std::optional<FileChange> change;
                std::optional<JsonObject> edited = co_await edit(call, view, change);
                if (edited && !approval_.refuses_in_plan(call.tool)) {
                    note_accepted(change);
                    co_return ApproveAnswer::edit(std::move(*edited));
                }
                if (edited)
                    explain(
                        "The mode is plan now, and your change is dropped: change the mode with " +
                        mode_key() + " and edit again, or answer n.");
                break;
            }
            case 'v': prompter_.print(view.next_page()); break;
            case 'w': prompter_.print(view.rest()); break;
            default:
                explain(view.complete()
                            ? TerminalView("Answer y, n, or one of the other letters.")
                            : TerminalView("This call is not shown completely: v shows the next "
                                           "rows, w all of them, n refuses."));
        }
    }
}

/// Returns the text for a screen on which the question is not complete any more. Rows that have not been shown yet follow from there.
TerminalText ApprovalDialog::shown_again(const Call& call, QuestionView& view,
                                         ScreenSize screen) const {
    QuestionView again = view_of(call, style_, screen);
    if (view.complete()) {
        (void)again.rest();
    } else if (!again.complete()) {
        view = again;
    }
    return again.opening();
}

/// Refuses the call with a reason, which the model gets. Empty if the user leaves it, or the input has ended.
Task<std::optional<ApproveAnswer>> ApprovalDialog::ask_reason(Chosen chosen) {
    std::optional<ApproveAnswer> answer;
    std::optional<std::string> reason(std::in_place, std::move(chosen.text));
    if (reason->empty()) {
        TerminalText prompt("  (Esc: back) no, because > ");
        reason = co_await prompter_.edit(std::move(prompt), std::string());
    }
    if (reason) answer = refusal(detail::trimmed(*reason));
    co_return answer;
}

void ApprovalDialog::note_accepted(const std::optional<FileChange>& change) const {
    if (change) prompter_.note_accepted(change->path, change->diff);
}

void ApprovalDialog::explain(TerminalView text) const {
    prompter_.print("  " + style_.dim() + text + style_.off() + "\n");
}

/// Returns the new arguments; empty if they were not accepted.
Task<std::optional<JsonObject>> ApprovalDialog::edit(Call& call, QuestionView& view,
                                                     std::optional<FileChange>& change) {
    std::optional<JsonObject> result;
    const EditedArgument* const one = edited_argument(call.tool, call.args);
    std::string shown = one ? detail::text_member(call.args, one->argument) : safe_json(call.args);
    TerminalText prompt = one ? one->prompt : TerminalView("  (Esc: back) arguments > ");
    std::optional<std::string> text = co_await prompter_.edit(std::move(prompt), std::move(shown));
    if (!text) co_return result;
    Json edited = call.args;
    std::string problem;
    if (one) {
        edited.get_object()[one->argument] = std::move(*text);
    } else {
        boost::system::error_code failed;
        edited = boost::json::parse(*text, failed);
        if (failed || !edited.is_object()) problem = "The arguments must be a JSON object.";
    }
    if (problem.empty()) problem = co_await check_edit(call, view, edited, change);
    if (problem.empty()) {
        result = std::move(edited.get_object());
    } else {
        prompter_.print(style_.red() +
                        framed(problem, prompter_.size().columns, Frame{"  ", "  ┊ "}) +
                        style_.off());
    }
    co_return result;
}

/// Previews the edited call. Returns why it cannot work; empty: it can.
Task<std::string> ApprovalDialog::check_edit(Call& call, QuestionView& view, Json edited,
                                             std::optional<FileChange>& change) {
    std::string problem;
    if (call.schema.is_object()) {
        const std::vector<SchemaIssue> issues = JsonSchema(call.schema).validate(edited);
        if (!issues.empty()) {
            problem = format_issues(call.tool, issues);
            co_return problem;
        }
    }
    CallPreview preview = co_await approval_.preview(call.preview, call.tool, edited.get_object());
    if (preview.problem.empty()) {
        if (preview.change)
            prompter_.print(change_text(*preview.change, style_, prompter_.size().columns));
        change = std::move(preview.change);
        co_return problem;
    }
    problem = std::move(preview.problem);
    // The tool compares the file with the last preview, which must be that of the call as it is shown. The file may have
    // changed since the question.
    CallPreview original = co_await approval_.preview(call.preview, call.tool, call.args);
    if (original.change && (!call.change || original.change->diff != call.change->diff)) {
        call.change = std::move(original.change);
        view = view_of(call, style_, prompter_.size());
        prompter_.print(view.opening());
    }
    co_return problem;
}

Task<> ApprovalDialog::add_rule(ApprovalRule rule) {
    approval_.add_rule(rule);
    if (!save_rule_) co_return;
    Choices choices;
    choices.text = TerminalView("  always in this session; save it permanently?");
    choices.all = yes_and_no();
    choices.on_enter = 'n';
    const std::optional<Chosen> chosen = co_await prompter_.choose(std::move(choices));
    const bool saves = chosen && chosen->key == 'y';
    if (saves) save_rule_(rule.text());
    explain(saves
                ? TerminalView("saved in the configuration; /permissions lists and withdraws rules")
                : TerminalView("for this session only; /permissions lists and withdraws rules"));
}

}  // namespace cubepi::app
