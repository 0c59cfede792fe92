#include "approval.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include <cubepi/core/offload.hpp>
#include <cubepi/schema/json_text.hpp>

#include "../config/paths.hpp"
#include "../render/question_view.hpp"
#include "../terminal/diff_view.hpp"
#include "../terminal/framed_text.hpp"
#include "../terminal/safe_json.hpp"

namespace cubepi::app {

namespace {

BeforeToolCallResult blocked(std::string reason, std::string_view decision) {
    BeforeToolCallResult result;
    result.block = true;
    result.reason = std::move(reason);
    result.hitl_trace = JsonObject{{"decision", decision}, {"reason", result.reason}};
    return result;
}

std::optional<BeforeToolCallResult> approved() {
    BeforeToolCallResult result;
    result.hitl_trace = JsonObject{{"decision", "human_approve"}};
    return result;
}

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

struct Previewed {
    std::optional<FileChange> change = {};
    std::string problem = {};
};

/// Drops the preview of a call that is not made: one that is refused, or whose question is aborted.
class Forgotten {
public:
    Forgotten(std::shared_ptr<FilePreviews> previews, std::string tool_call_id)
        : previews_(std::move(previews)), id_(std::move(tool_call_id)) {}
    ~Forgotten() {
        if (previews_) previews_->forget(id_);
    }
    Forgotten(const Forgotten&) = delete;
    Forgotten& operator=(const Forgotten&) = delete;
    void release() noexcept { previews_ = nullptr; }

private:
    std::shared_ptr<FilePreviews> previews_;
    const std::string id_;
};

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

Approval::Approval(ToolRules policy, std::shared_ptr<Prompter> prompter, Style style,
                   Options options)
    : policy_(std::move(policy)),
      prompter_(std::move(prompter)),
      style_(style),
      options_(std::move(options)) {}

Task<ApprovalDecision> Approval::decide(const BeforeToolCallContext& context) const {
    const Json* path = context.args.if_contains("path");
    const bool resolves = options_.write_target && path && path->is_string() &&
                          context.tool.risk_level != ToolRisk::read_only;
    if (!resolves) co_return policy_.decide(context.tool, context.args);
    const auto runtime = options_.runtime ? options_.runtime : Runtime::standard();
    auto work = [find = options_.write_target, given = std::string(path->get_string())] {
        std::optional<std::string> target;
        try {
            target = find(given);
        } catch (const Error&) {
            // The tool says what is wrong with the path; until then it is not known where it leads.
        }
        return target;
    };
    const std::optional<std::string> target = co_await offload(*runtime->workers, std::move(work));
    co_return policy_.decide(context.tool.name.str(), context.tool.risk_level, context.args,
                             target);
}

Task<std::optional<BeforeToolCallResult>> Approval::before_tool_call(
    BeforeToolCallContext& context) {
    ApprovalDecision decision = co_await decide(context);
    std::optional<BeforeToolCallResult> result;
    if (decision.allowed || options_.allow_all) co_return result;
    if (!prompter_ || !prompter_->can_ask()) {
        result = blocked(std::string("Refused: ") +
                             (prompter_ ? "cubepi runs in the background and cannot ask."
                                        : "there is no terminal to ask the user.") +
                             " The user can allow such calls with --yes, or with 'allow' in the "
                             "configuration file.",
                         "policy_deny");
        co_return result;
    }
    Question question{context, std::move(decision)};
    co_return co_await ask(question);
}

bool Approval::allows_fetch(const std::string& url) const {
    if (options_.allow_all) return true;
    return policy_.decide("fetch", ToolRisk::network, JsonObject{{"url", url}}).allowed;
}

QuestionView Approval::view_of(const Question& question) const {
    const QuestionView::Call call{question.context.tool.name.str(), question.context.args,
                                  question.decision, question.change ? &*question.change : nullptr};
    return QuestionView(call, style_, prompter_->size());
}

Task<void> Approval::preview(Question& question, JsonObject args) {
    if (!options_.previews || !FilePreviews::covers(question.context.tool.name)) co_return;
    const auto runtime = options_.runtime ? options_.runtime : Runtime::standard();
    auto work = [previews = options_.previews, id = question.context.tool_call.id.str(),
                 tool = question.context.tool.name.str(), args = std::move(args)] {
        Previewed previewed;
        try {
            previewed.change = previews->preview(id, tool, args);
        } catch (const Error& error) {
            previewed.problem = error.what();
        }
        return previewed;
    };
    Previewed previewed = co_await offload(*runtime->workers, std::move(work));
    question.change = std::move(previewed.change);
    question.problem = std::move(previewed.problem);
}

Task<std::optional<BeforeToolCallResult>> Approval::ask(Question& question) {
    co_await preview(question, question.context.args);
    std::optional<BeforeToolCallResult> result;
    if (!question.problem.empty()) {
        result.emplace();
        result->result = AgentToolResult::error(question.problem);
        co_return result;
    }
    Forgotten forgotten(options_.previews, question.context.tool_call.id.str());
    result = co_await answer(question);
    if (!result || !result->block) forgotten.release();
    co_return result;
}

Task<std::optional<BeforeToolCallResult>> Approval::answer(Question& question) {
    co_await prompter_->prepare();
    QuestionView view = view_of(question);
    prompter_->say(view.opening());
    for (;;) {
        TerminalText prompt = prompt_of(view, question.decision);
        std::optional<std::string> answer = co_await prompter_->read(std::move(prompt));
        if (!answer) {
            std::optional<BeforeToolCallResult> refused(
                blocked("Refused: the input has ended.", "human_deny"));
            co_return refused;
        }
        const std::string word = lower(*answer);
        if (word == "n" || word == "no") {
            std::optional<BeforeToolCallResult> refused(
                blocked("The user refused this call.", "human_deny"));
            co_return refused;
        }
        if (!view.complete()) {
            view_more(view, word);
            continue;
        }
        if (word == "y" || word == "yes") co_return approved();
        if ((word == "a" || word == "always") && question.decision.always) {
            co_await add_rule(*question.decision.always);
            co_return approved();
        }
        if (word == "e" || word == "edit") {
            std::optional<BeforeToolCallResult> edited = co_await edit(question, view);
            if (edited) co_return edited;
        } else {
            explain(
                word == "a" || word == "always"
                    ? TerminalView(
                          "This call cannot be allowed by a rule: answer y to allow it once, or n.")
                    : TerminalView("Answer y, n, or one of the other letters."));
        }
    }
}

/// Shows more of the call; everything is shown before consent is accepted.
void Approval::view_more(QuestionView& view, const std::string& answer) const {
    if (answer == "v" || answer == "view") {
        prompter_->say(view.next_page());
    } else if (answer == "w" || answer == "whole") {
        prompter_->say(view.rest());
    } else {
        explain(
            "This call is not shown completely: v shows the next rows, w all of them, n refuses.");
    }
}

void Approval::explain(TerminalView text) const {
    prompter_->say("  " + style_.dim() + text + style_.off() + "\n");
}

Task<std::optional<BeforeToolCallResult>> Approval::edit(Question& question, QuestionView& view) {
    std::optional<BeforeToolCallResult> result;
    const JsonObject& original = question.context.args;
    std::string shown = safe_json(original);
    TerminalText prompt("  arguments > ");
    std::optional<std::string> text = co_await prompter_->read(std::move(prompt), std::move(shown));
    if (!text) co_return result;
    boost::system::error_code failed;
    Json edited = boost::json::parse(*text, failed);
    std::string problem;
    if (failed || !edited.is_object()) {
        problem = "The arguments must be a JSON object.";
    } else if (const auto issues = question.context.tool.parameters.validate(edited);
               !issues.empty()) {
        problem = format_issues(question.context.tool.name, issues);
    } else {
        // The tool compares the file with the one of this preview.
        const std::optional<FileChange> before = question.change;
        co_await preview(question, edited.get_object());
        problem = std::exchange(question.problem, {});
        if (!problem.empty()) {
            // The file may have changed since the question.
            co_await preview(question, original);
            const bool differs =
                !question.change || !before || question.change->diff != before->diff;
            if (differs && question.change) {
                view = view_of(question);
                prompter_->say(view.opening());
            }
        } else if (question.change) {
            prompter_->say(change_text(*question.change, style_, prompter_->size().columns));
        }
    }
    if (!problem.empty()) {
        prompter_->say(style_.red() +
                       framed(problem, prompter_->size().columns, Frame{"  ", "  ┊ "}) +
                       style_.off());
        co_return result;
    }
    result.emplace();
    result->edited_args = edited.get_object();
    result->hitl_trace =
        JsonObject{{"decision", "edit"}, {"original_args", original}, {"edited_args", edited}};
    co_return result;
}

Task<void> Approval::add_rule(ApprovalRule rule) {
    policy_.allow(rule);
    if (!options_.save_rule) co_return;
    TerminalText prompt("  for this session; save it permanently? [y/N] > ");
    const std::optional<std::string> answer = co_await prompter_->read(std::move(prompt));
    if (answer && lower(*answer) == "y") options_.save_rule(rule.text());
}

}  // namespace cubepi::app
