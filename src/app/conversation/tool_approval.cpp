#include "tool_approval.hpp"

#include <algorithm>
#include <cctype>
#include <string_view>
#include <utility>

#include <bub/questions.hpp>
#include <cubepi/core/offload.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/core/support/lower_case.hpp>
#include <cubepi/schema/json_convert.hpp>
#include <cubepi/schema/validate.hpp>

#include "../config/paths.hpp"
#include "../terminal/safe_json.hpp"
#include "../terminal/text_layout.hpp"

namespace cubepi::app {

namespace {

/// Drops the preview of a call that does not run: one that is refused, or whose question is aborted.
class PreviewGuard {
public:
    PreviewGuard(std::shared_ptr<FilePreviews> previews, std::string tool_call_id)
        : previews_(std::move(previews)), id_(std::move(tool_call_id)) {}
    ~PreviewGuard() {
        if (previews_) previews_->forget(id_);
    }
    PreviewGuard(const PreviewGuard&) = delete;
    PreviewGuard& operator=(const PreviewGuard&) = delete;
    void release() noexcept { previews_ = nullptr; }

private:
    std::shared_ptr<FilePreviews> previews_;
    const std::string id_;
};

TerminalText prompt_of(const QuestionView& view, const RuleDecision& decision) {
    if (!view.complete()) return TerminalView("  [v]iew more  [w]hole  [n]o > ");
    TerminalText prompt("  [y]es  [n]o  ");
    if (decision.always) prompt += "[a]lways  ";
    prompt += "[e]dit > ";
    return prompt;
}

}  // namespace

ToolRules policy_of(const std::vector<std::string>& rules) {
    ToolRules policy;
    try {
        for (const std::string& rule : rules) policy.allow(ApprovalRule::parse(rule));
    } catch (const Error& error) {
        throw Error(error.code(), "'allow' in " + config_path().string() + ": " + error.what());
    }
    return policy;
}

std::vector<std::string> unused_rules(const std::vector<std::string>& rules) {
    std::vector<std::string> notes;
    const ToolRules policy = policy_of(rules);
    for (const ApprovalRule& rule : policy.rules()) {
        const std::string problem = rule.problem();
        if (problem.empty()) continue;
        notes.push_back("The rule '" + rule.text() + "' in " + config_path().string() +
                        " has no effect: " + problem + ".");
    }
    return notes;
}

ToolApproval::ToolApproval(ToolRules rules, std::shared_ptr<HitlChannel> channel,
                           std::shared_ptr<const Prompter> prompter, Options options)
    : rules_(std::move(rules)),
      prompter_(std::move(prompter)),
      options_(std::move(options)),
      middleware_(std::move(channel),
                  [this](const BeforeToolCallContext& call) { return decide(call); }) {
    if (!options_.runtime) options_.runtime = Runtime::standard();
}

Task<std::optional<BeforeToolCallResult>> ToolApproval::before_tool_call(
    BeforeToolCallContext& call) {
    PreviewGuard preview(options_.previews, call.tool_call.id.str());
    std::optional<BeforeToolCallResult> result = co_await middleware_.before_tool_call(call);
    if (!result || !result->block) preview.release();
    co_return result;
}

bool ToolApproval::has_rule(const ApprovalRule& rule) const {
    const std::vector<ApprovalRule>& rules = rules_.rules();
    return std::find(rules.begin(), rules.end(), rule) != rules.end();
}

bool ToolApproval::allows_fetch(const std::string& url) const {
    if (options_.allow_all) return true;
    return rules_.decide("fetch", ToolRisk::network, JsonObject{{"url", url}}).allowed;
}

Task<CallPreview> ToolApproval::preview(std::string tool_call_id, std::string tool,
                                        JsonObject args) const {
    CallPreview made;
    if (!options_.previews || !FilePreviews::covers(tool)) co_return made;
    auto work = [previews = options_.previews, id = std::move(tool_call_id), tool = std::move(tool),
                 args = std::move(args)] {
        CallPreview preview;
        try {
            preview.change = previews->preview(id, tool, args);
        } catch (const Error& error) {
            preview.problem = error.what();
        }
        return preview;
    };
    made = co_await offload(*options_.runtime->workers, std::move(work));
    co_return made;
}

Task<ApprovalDecision> ToolApproval::decide(const BeforeToolCallContext& call) const {
    RuleDecision decision = co_await apply_rules(call);
    if (decision.allowed || options_.allow_all) co_return Approve();
    if (!decision.refusal.empty()) co_return Deny{std::move(decision.refusal)};
    if (!options_.can_wait && (!prompter_ || !prompter_->can_ask())) {
        co_return Deny{std::string("Refused: ") +
                       (prompter_ ? "cubepi runs in the background and cannot ask."
                                  : "there is no terminal to ask the user.") +
                       " The user can allow such calls with --yes, or with 'allow' in the "
                       "configuration file."};
    }
    CallPreview shown = co_await preview(call.tool_call.id.str(), call.tool.name.str(), call.args);
    if (!shown.problem.empty()) co_return Deny{std::move(shown.problem)};
    ApprovalDetails details;
    details.question = decision.question;
    if (decision.always) details.always = decision.always->text();
    details.change = std::move(shown.change);
    AskUser question;
    question.details = to_json(details);
    co_return ApprovalDecision(std::move(question));
}

Task<RuleDecision> ToolApproval::apply_rules(const BeforeToolCallContext& call) const {
    const Json* path = call.args.if_contains("path");
    const bool resolves = options_.write_target && path && path->is_string() &&
                          call.tool.risk_level != ToolRisk::read_only;
    if (!resolves) co_return rules_.decide(call.tool, call.args);
    auto work = [find = options_.write_target, given = std::string(path->get_string())] {
        std::optional<std::string> target;
        try {
            target = find(given);
        } catch (const Error&) {
            // The target is unknown. The tool reports what is wrong with the path.
        }
        return target;
    };
    const std::optional<std::string> target =
        co_await offload(*options_.runtime->workers, std::move(work));
    co_return rules_.decide(call.tool.name.str(), call.tool.risk_level, call.args, target);
}

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
    try {
        if (details.always) call.decision.always = ApprovalRule::parse(*details.always);
    } catch (const Error&) {
        // A stored request of another program: the call cannot be allowed by a rule.
    }
    call.change = std::move(details.change);
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
    if (call.decision.always && approval_.has_rule(*call.decision.always))
        co_return ApproveAnswer();
    co_await prompter_.prepare();
    QuestionView view = view_of(call, style_, prompter_.size());
    prompter_.say(view.opening());
    // The text refers to this frame.
    struct Withdrawal {
        Prompter& prompter;
        ~Withdrawal() { prompter.set_question(nullptr); }
    };
    const Withdrawal withdrawal{prompter_};
    for (;;) {
        TerminalText prompt = prompt_of(view, call.decision);
        prompter_.set_question(
            [&](ScreenSize screen) { return view_of(call, style_, screen).opening(); });
        const std::optional<std::string> answer = co_await prompter_.read(std::move(prompt));
        if (!answer) co_return std::nullopt;
        const std::string word = detail::lower_case(*answer);
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
        view = view_of(call, style_, prompter_.size());
        prompter_.say(view.opening());
    }
    co_return problem;
}

Task<> ApprovalDialog::add_rule(ApprovalRule rule) {
    approval_.add_rule(rule);
    if (!save_rule_) co_return;
    TerminalText prompt("  always in this session; save it permanently? [y/N] > ");
    const std::optional<std::string> answer = co_await prompter_.read(std::move(prompt));
    const std::string word = answer ? detail::lower_case(*answer) : "";
    const bool saves = word == "y" || word == "yes";
    if (saves) save_rule_(rule.text());
    explain(saves ? TerminalView("saved in the configuration; /rules lists and withdraws rules")
                  : TerminalView("for this session only; /rules lists and withdraws rules"));
}

}  // namespace cubepi::app
