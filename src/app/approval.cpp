#include "approval.hpp"

#include <string>
#include <utility>

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

}  // namespace

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

void Approval::show(const BeforeToolCallContext& context, const ApprovalDecision& decision) const {
    if (options_.before_question) options_.before_question();
    const std::string dim(style_.dim());
    const std::string off(style_.off());
    std::string text = std::string(style_.yellow()) + "? " + off + printable(decision.question) +
                       "\n" + dim + "  " + context.tool_call.name.str() + " " +
                       one_line(boost::json::serialize(context.args), 300) + off + "\n";
    if (context.tool.name == "shell") text += dim + "  " + std::string(shell_warning) + off + "\n";
    if (decision.always)
        text += dim + "  always adds: " + printable(decision.always->text()) + off + "\n";
    asker_->say(text);
}

Task<std::optional<BeforeToolCallResult>> Approval::ask(const BeforeToolCallContext& context,
                                                        ApprovalDecision decision) {
    show(context, decision);
    const std::string prompt =
        decision.always ? "  [y]es  [n]o  [a]lways  [e]dit > " : "  [y]es  [n]o  [e]dit > ";
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
        if (word == "e" || word == "edit") {
            std::optional<BeforeToolCallResult> edited = co_await edit(context);
            if (edited) co_return edited;
        }
    }
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
