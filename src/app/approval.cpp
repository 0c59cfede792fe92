#include "approval.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include <cubepi/core/offload.hpp>
#include <cubepi/schema/json_text.hpp>

#include "config/paths.hpp"
#include "terminal/diff_view.hpp"
#include "terminal/text_width.hpp"

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

constexpr std::size_t shown_lines = 12;
constexpr std::size_t shown_diff_lines = 24;
constexpr std::size_t command_lines = 200;
constexpr std::size_t longest_line = 4000;

struct Excerpt {
    std::string text = {};
    bool cut = false;
};

/// `lines` of a value at most, each with `sign` in front; 0: all.
void add_lines(Excerpt& excerpt, std::string_view value, std::size_t lines, std::string_view sign,
               std::string_view off) {
    std::string text = printable(value);
    if (text.ends_with('\n')) text.pop_back();
    std::size_t count = 0;
    for (std::size_t at = 0; at <= text.size(); ++count) {
        const std::size_t end = std::min(text.find('\n', at), text.size());
        if (lines > 0 && count == lines) {
            const auto left =
                1 + std::count(text.begin() + static_cast<std::ptrdiff_t>(at), text.end(), '\n');
            excerpt.text +=
                "    … and " + std::to_string(left) + (left == 1 ? " line" : " lines") + " more\n";
            excerpt.cut = true;
            return;
        }
        std::string line = text.substr(at, end - at);
        if (lines > 0 && line.size() > longest_line) {
            line = shortened(line, longest_line);
            excerpt.cut = true;
        }
        excerpt.text += "    " + std::string(sign) + line + std::string(off) + "\n";
        at = end + 1;
    }
}

/// What a tool is called with, for people.
Excerpt arguments_for_people(const std::string& tool, const JsonObject& args, const Style& style,
                             std::string_view question, bool all) {
    Excerpt excerpt;
    const std::size_t lines = all ? 0 : tool == "shell" ? command_lines : shown_lines;
    const std::string red = std::string(style.red()) + "- ";
    const std::string green = std::string(style.green()) + "+ ";
    for (const auto& [key, value] : args) {
        const std::string name = printable(std::string_view(key));
        const std::string text =
            value.is_string() ? std::string(value.get_string()) : json_text(value);
        // What the question says already, and what is switched off, would only hide the rest.
        const bool off = value.is_null() || (value.is_bool() && !value.get_bool());
        const bool said = value.is_string() && question.find(text) != std::string_view::npos;
        if (!all && (off || said)) continue;
        if (tool == "edit" && (name == "old_text" || name == "new_text")) {
            add_lines(excerpt, text, lines, name == "old_text" ? red : green, style.off());
        } else if (text.find('\n') == std::string::npos && text.size() < longest_line) {
            excerpt.text += std::string(style.dim()) + "  " + name + ": " +
                            std::string(style.off()) + printable(text) + "\n";
        } else {
            excerpt.text +=
                std::string(style.dim()) + "  " + name + ":" + std::string(style.off()) + "\n";
            add_lines(excerpt, text, lines, {}, {});
        }
    }
    return excerpt;
}

/// "replaces 8 lines of src/calc.py (+5 -8)"
std::string change_title(const FileChange& change) {
    std::string title = visible(change.summary());
    if (change.compared && change.kind != FileChange::Kind::creates)
        title += " (+" + std::to_string(change.added) + " -" + std::to_string(change.removed) + ")";
    return title;
}

/// The change of a file, for people: `lines` lines at most; 0: all.
Excerpt change_for_people(const FileChange& change, const JsonObject& args, const Style& style,
                          std::size_t lines) {
    Excerpt excerpt;
    const std::string dim(style.dim());
    const std::string off(style.off());
    if (!change.compared) {
        excerpt.text = dim + "  No diff: the file is binary or too large to compare." + off + "\n";
        const Excerpt given =
            arguments_for_people(change.kind == FileChange::Kind::edits ? "edit" : "write", args,
                                 style, change.path, lines == 0);
        excerpt.text += given.text;
        excerpt.cut = given.cut;
    } else if (change.diff.empty()) {
        excerpt.text = dim + "  The content stays the same." + off + "\n";
    } else {
        DiffView view = diff_view(change.diff, change.hidden, style, lines);
        excerpt.text = std::move(view.text);
        // What the preview itself has left out cannot be viewed either.
        excerpt.cut = view.cut;
    }
    return excerpt;
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

ApprovalPolicy policy_of(const std::vector<std::string>& rules) {
    ApprovalPolicy policy;
    try {
        for (const std::string& rule : rules) policy.allow(ApprovalRule::parse(rule));
    } catch (const Error& error) {
        throw Error(error.code(), "'allow' in " + config_path().string() + ": " + error.what());
    }
    return policy;
}

std::vector<std::string> unused_rules(const std::vector<std::string>& rules) {
    std::vector<std::string> notes;
    const ApprovalPolicy policy = policy_of(rules);
    for (const ApprovalRule& rule : policy.rules()) {
        const std::string problem = rule.problem();
        if (problem.empty()) continue;
        notes.push_back("The rule '" + rule.text() + "' in " + config_path().string() +
                        " allows nothing: " + problem + ".");
    }
    return notes;
}

Approval::Approval(ApprovalPolicy policy, std::shared_ptr<Asker> asker, Style style,
                   Options options)
    : policy_(std::move(policy)),
      asker_(std::move(asker)),
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
    if (!asker_ || !asker_->can_ask()) {
        result = blocked(std::string("Refused: ") +
                             (asker_ ? "cubepi runs in the background and cannot ask."
                                     : "there is no terminal to ask at.") +
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

bool Approval::show(const Question& question) const {
    const std::string dim(style_.dim());
    const std::string off(style_.off());
    const AgentTool& tool = question.context.tool;
    const ApprovalDecision& decision = question.decision;
    std::string text = std::string(style_.yellow()) + "? " + off;
    bool cut = false;
    if (question.change) {
        text += tool.name.str() + " " + change_title(*question.change) + "\n";
        const Excerpt shown =
            change_for_people(*question.change, question.context.args, style_, shown_diff_lines);
        text += shown.text;
        cut = shown.cut;
    } else {
        const Excerpt args = arguments_for_people(tool.name.str(), question.context.args, style_,
                                                  decision.question, false);
        text += printable(decision.question) + "\n" + args.text;
        cut = args.cut;
    }
    if (tool.name == "shell" && decision.question.find(shell_warning) == std::string::npos)
        text += dim + "  " + std::string(shell_warning) + off + "\n";
    if (decision.always)
        text += dim + "  always adds: " + printable(decision.always->text()) + off + "\n";
    asker_->say(text);
    return cut;
}

void Approval::show_all(const Question& question) const {
    asker_->say(question.change
                    ? change_for_people(*question.change, question.context.args, style_, 0).text
                    : arguments_for_people(question.context.tool.name.str(), question.context.args,
                                           style_, question.decision.question, true)
                          .text);
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
    co_await asker_->prepare();
    const bool cut = show(question);
    std::string prompt = "  [y]es  [n]o  ";
    if (question.decision.always) prompt += "[a]lways  ";
    prompt += cut ? "[e]dit  [v]iew > " : "[e]dit > ";
    for (;;) {
        std::optional<std::string> answer = co_await asker_->read(prompt);
        if (!answer) {
            std::optional<BeforeToolCallResult> refused(
                blocked("Refused: the input has ended.", "human_deny"));
            co_return refused;
        }
        const std::string word = lower(*answer);
        if (word == "y" || word == "yes") co_return approved();
        if (word == "n" || word == "no") {
            std::optional<BeforeToolCallResult> refused(
                blocked("The person refused this call.", "human_deny"));
            co_return refused;
        }
        if ((word == "a" || word == "always") && question.decision.always) {
            co_await add_rule(*question.decision.always);
            co_return approved();
        }
        if (word == "v" || word == "view") {
            show_all(question);
        } else if (word == "e" || word == "edit") {
            std::optional<BeforeToolCallResult> edited = co_await edit(question);
            if (edited) co_return edited;
        } else {
            explain(word == "a" || word == "always"
                        ? "No rule can stand for this call: answer y for this once, or n."
                        : "Answer y, n, or one of the other letters.");
        }
    }
}

void Approval::explain(std::string_view text) const {
    asker_->say(std::string(style_.dim()).append("  ").append(text).append(style_.off()) + "\n");
}

Task<std::optional<BeforeToolCallResult>> Approval::edit(Question& question) {
    std::optional<BeforeToolCallResult> result;
    const JsonObject& original = question.context.args;
    std::string shown = json_text(original);
    std::optional<std::string> text = co_await asker_->read("  arguments > ", std::move(shown));
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
            if (differs && question.change) show(question);
        } else if (question.change) {
            show_all(question);
        }
    }
    if (!problem.empty()) {
        asker_->say(std::string(style_.red()) + "  " + printable(problem) +
                    std::string(style_.off()) + "\n");
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
    const std::optional<std::string> answer =
        co_await asker_->read("  for this session; save it for good? [y/N] > ");
    if (answer && lower(*answer) == "y") options_.save_rule(rule.text());
}

}  // namespace cubepi::app
