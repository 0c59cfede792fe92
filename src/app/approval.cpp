#include "approval.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "config/paths.hpp"
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
            value.is_string() ? std::string(value.get_string()) : boost::json::serialize(value);
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

Approval::Approval(ApprovalPolicy policy, std::shared_ptr<Asker> asker, Style style,
                   Options options)
    : policy_(std::move(policy)),
      asker_(std::move(asker)),
      style_(style),
      options_(std::move(options)) {}

Task<std::optional<BeforeToolCallResult>> Approval::before_tool_call(
    BeforeToolCallContext& context) {
    ApprovalDecision decision = policy_.decide(context.tool, context.args);
    std::optional<BeforeToolCallResult> result;
    if (decision.allowed || options_.allow_all) co_return result;
    if (!asker_) {
        result = blocked(
            "Refused: there is no terminal to ask at. The person can allow such calls with --yes, "
            "or "
            "with 'allow' in the configuration file.",
            "policy_deny");
        co_return result;
    }
    co_return co_await ask(context, std::move(decision));
}

bool Approval::allows_fetch(const std::string& url) const {
    if (options_.allow_all) return true;
    return policy_.decide("fetch", ToolRisk::network, JsonObject{{"url", url}}).allowed;
}

bool Approval::show(const BeforeToolCallContext& context, const ApprovalDecision& decision) const {
    if (options_.before_question) options_.before_question();
    const std::string dim(style_.dim());
    const std::string off(style_.off());
    const Excerpt args = arguments_for_people(context.tool_call.name.str(), context.args, style_,
                                              decision.question, false);
    std::string text =
        std::string(style_.yellow()) + "? " + off + printable(decision.question) + "\n" + args.text;
    if (context.tool.name == "shell" && decision.question.find(shell_warning) == std::string::npos)
        text += dim + "  " + std::string(shell_warning) + off + "\n";
    if (decision.always)
        text += dim + "  always adds: " + printable(decision.always->text()) + off + "\n";
    asker_->say(text);
    return args.cut;
}

Task<std::optional<BeforeToolCallResult>> Approval::ask(const BeforeToolCallContext& context,
                                                        ApprovalDecision decision) {
    const bool cut = show(context, decision);
    std::string prompt = "  [y]es  [n]o  ";
    if (decision.always) prompt += "[a]lways  ";
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
        if ((word == "a" || word == "always") && decision.always) {
            co_await add_rule(*decision.always);
            co_return approved();
        }
        if (word == "v" || word == "view") {
            const Excerpt all = arguments_for_people(context.tool_call.name.str(), context.args,
                                                     style_, decision.question, true);
            asker_->say(all.text);
        } else if (word == "e" || word == "edit") {
            std::optional<BeforeToolCallResult> edited = co_await edit(context);
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

Task<std::optional<BeforeToolCallResult>> Approval::edit(const BeforeToolCallContext& context) {
    std::optional<BeforeToolCallResult> result;
    std::string shown = boost::json::serialize(context.args);
    std::optional<std::string> text = co_await asker_->read("  arguments > ", std::move(shown));
    if (!text) co_return result;
    boost::system::error_code failed;
    const Json edited = boost::json::parse(*text, failed);
    if (failed || !edited.is_object()) {
        asker_->say(std::string(style_.red()) + "  That is no JSON object." +
                    std::string(style_.off()) + "\n");
        co_return result;
    }
    result.emplace();
    result->edited_args = edited.get_object();
    result->hitl_trace =
        JsonObject{{"decision", "edit"}, {"original_args", context.args}, {"edited_args", edited}};
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
