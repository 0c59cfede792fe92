#include "sender_policy.hpp"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <bub/questions.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/support/json_member.hpp>

#include "../config/paths.hpp"

namespace cubepi::app {

namespace {

ApprovalRule parse_rule(const std::string& text) {
    try {
        return ApprovalRule::parse(text);
    } catch (const Error& error) {
        throw Error(ErrorCode::invalid_argument,
                    config_path().string() + ": gateway.rules: '" + text + "': " + error.what());
    }
}

/// A rule with its parsed permissions.
struct ParsedRule {
    SenderRule rule;
    std::vector<ApprovalRule> allow;
};

bub::SenderRules rules_for(const std::vector<ParsedRule>& all, const std::string& workspace,
                           const bub::Envelope& message) {
    bub::SenderRules rules;
    rules.allow = ToolRules(workspace);
    const std::string user = bub::sender_of(message);
    for (const ParsedRule& one : all) {
        if (!one.rule.matches(message.channel.value_or(""), message.chat_id.value_or(""), user))
            continue;
        for (const ApprovalRule& allowed : one.allow) rules.allow.allow(allowed);
        rules.refuse.insert(rules.refuse.end(), one.rule.refuse.begin(), one.rule.refuse.end());
    }
    return rules;
}

bool is_approver(const std::vector<Approver>& approvers, const bub::Envelope& message) {
    const std::string user = bub::sender_of(message);
    if (user.empty()) return false;
    return std::any_of(approvers.begin(), approvers.end(), [&](const Approver& one) {
        return one.user == user && one.channel == message.channel.value_or("");
    });
}

/// The user whose message started the turn answers its questions of the kind `ask`.
bool was_asked(const bub::Envelope& message, const HitlRequest& request) {
    if (!std::holds_alternative<AskRequest>(request.payload)) return false;
    const JsonObject* const asker = detail::object_member(request.extra, bub::asker_key);
    const std::string user = bub::sender_of(message);
    return asker && !user.empty() && detail::string_member(*asker, "user") == user &&
           detail::string_member(*asker, "channel") == message.channel.value_or("");
}

}  // namespace

bub::TurnQuestions sender_policy(const GatewaySettings& settings) {
    auto parsed = std::make_shared<std::vector<ParsedRule>>();
    for (const SenderRule& rule : settings.rules) {
        ParsedRule one;
        one.rule = rule;
        for (const std::string& text : rule.allow) one.allow.push_back(parse_rule(text));
        parsed->push_back(std::move(one));
    }
    bub::TurnQuestions questions;
    questions.timeout = settings.question_timeout;
    // Rules that name a directory do not match in workspaces of sessions.
    const std::string workspace =
        settings.shared_workspace ? settings.root.string() : std::string();
    questions.rules = [parsed, workspace](const bub::Envelope& message) {
        return rules_for(*parsed, workspace, message);
    };
    questions.may_answer = [approvers = settings.approvers](const bub::Envelope& message,
                                                            const HitlRequest& request) {
        return is_approver(approvers, message) || was_asked(message, request);
    };
    return questions;
}

}  // namespace cubepi::app
