#include "granted_rules.hpp"

#include <algorithm>
#include <string_view>
#include <utility>
#include <variant>

#include <bub/questions.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/support/json_member.hpp>

namespace cubepi::app {

namespace {

/// As JSON: a chat or a user may have any name.
std::string name_of(std::string_view channel, std::string_view chat, std::string_view user) {
    return boost::json::serialize(JsonArray{channel, chat, user});
}

std::string asker_of(const HitlRequest& request) {
    const JsonObject* const asker = detail::object_member(request.extra, bub::asker_key);
    if (!asker) throw Error(ErrorCode::invalid_argument, "the question has no user");
    return name_of(detail::string_member(*asker, "channel"), detail::string_member(*asker, "chat"),
                   detail::string_member(*asker, "user"));
}

}  // namespace

ApprovalRule GrantedRules::offered_by(const HitlRequest& request) {
    const auto* const approve = std::get_if<ApproveRequest>(&request.payload);
    const JsonObject* const details = approve ? approve->details.if_object() : nullptr;
    const std::string rule = details ? detail::text_member(*details, "rule") : "";
    if (rule.empty())
        throw Error(ErrorCode::invalid_argument,
                    "no rule can allow this call; approve it without 'always'");
    return ApprovalRule::parse(rule);
}

bool GrantedRules::add(const HitlRequest& request, const ApprovalRule& rule) {
    std::string asker = asker_of(request);
    const std::lock_guard lock(mutex_);
    if (!rules_.contains(asker) && rules_.size() >= most_askers)
        throw Error(ErrorCode::limit,
                    "too many users have rules of operators; write them into "
                    "gateway.rules, and run: cubepi gateway reload");
    std::vector<ApprovalRule>& rules = rules_[std::move(asker)];
    if (std::find(rules.begin(), rules.end(), rule) != rules.end()) return false;
    if (rules.size() >= most_of_asker)
        throw Error(ErrorCode::limit,
                    "the user has too many rules of operators; write them into "
                    "gateway.rules, and run: cubepi gateway reload");
    rules.push_back(rule);
    return true;
}

void GrantedRules::withdraw(const HitlRequest& request, const ApprovalRule& rule) {
    const std::string asker = asker_of(request);
    const std::lock_guard lock(mutex_);
    const auto found = rules_.find(asker);
    if (found == rules_.end()) return;
    std::erase(found->second, rule);
    if (found->second.empty()) rules_.erase(found);
}

void GrantedRules::add_to(ToolRules& rules, const bub::Envelope& message) const {
    const std::string asker = name_of(message.channel.value_or(""), message.chat_id.value_or(""),
                                      bub::sender_of(message));
    const std::lock_guard lock(mutex_);
    const auto found = rules_.find(asker);
    if (found == rules_.end()) return;
    for (const ApprovalRule& rule : found->second) rules.allow(rule);
}

}  // namespace cubepi::app
