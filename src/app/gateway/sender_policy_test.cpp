// B25, B26: who may do what outside of a terminal.

#include "gateway_instance.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include <bub/channel/debounce.hpp>
#include <bub/questions.hpp>
#include <cubepi/core/error.hpp>

namespace cubepi::app {
namespace {

bub::Envelope from(const std::string& channel, const std::string& chat, const std::string& user) {
    bub::Envelope message = bub::Envelope("text").on(channel, chat);
    if (!user.empty()) message.context["sender_id"] = user;
    return message;
}

HitlRequest asked_by(const std::string& channel, const std::string& user, bool approval) {
    HitlRequest request;
    if (approval) {
        request.payload = ApproveRequest();
    } else {
        request.payload = AskRequest();
    }
    request.extra[bub::asker_key] = JsonObject{{"channel", channel}, {"user", user}};
    return request;
}

SenderRule rule(const std::string& chat, const std::string& user, const std::string& allow) {
    SenderRule made;
    made.channel = "telegram";
    made.chat = chat;
    made.user = user;
    if (!allow.empty()) made.allow.push_back(allow);
    return made;
}

TEST(SenderPolicy, B26_WithoutARuleNothingIsAllowed) {
    const bub::TurnQuestions questions = sender_policy(GatewaySettings());
    const bub::SenderRules rules = questions.rules(from("telegram", "1", "42"));
    EXPECT_TRUE(rules.allow.rules().empty());
    EXPECT_TRUE(rules.refuse.empty());
}

TEST(SenderPolicy, B26_RulesApplyByChannelChatAndUser) {
    GatewaySettings settings;
    settings.rules = {rule("", "42", "shell: git status"), rule("1", "", "write: *")};
    settings.rules.back().refuse = {"fetch"};
    const bub::TurnQuestions questions = sender_policy(settings);
    EXPECT_EQ(questions.rules(from("telegram", "1", "42")).allow.rules().size(), 2u);
    EXPECT_EQ(questions.rules(from("telegram", "2", "42")).allow.rules().size(), 1u);
    EXPECT_EQ(questions.rules(from("telegram", "1", "43")).refuse,
              std::vector<std::string>{"fetch"});
    EXPECT_TRUE(questions.rules(from("http", "1", "42")).allow.rules().empty());
    EXPECT_TRUE(questions.rules(from("telegram", "2", "")).allow.rules().empty());
}

TEST(SenderPolicy, B26_TextOfSeveralSendersHasTheRightsOfNone) {
    GatewaySettings settings;
    settings.rules = {rule("", "42", "write: *"), rule("1", "", "edit: *")};
    std::vector<bub::Envelope> both;
    both.push_back(from("telegram", "1", "43"));
    both.push_back(from("telegram", "1", "42"));
    const bub::TurnQuestions questions = sender_policy(settings);
    const bub::SenderRules rules = questions.rules(bub::merge_messages(std::move(both)));
    EXPECT_EQ(rules.allow.rules().size(), 1u) << "only the rule for the chat";
}

TEST(SenderPolicy, ARuleThatIsNotOneIsNamed) {
    GatewaySettings settings;
    settings.rules = {rule("", "", "")};
    for (const char* text : {"", "write", "write: new.txt", "shell: *"}) {
        settings.rules.front().allow = {text};
        try {
            (void)sender_policy(settings);
            ADD_FAILURE() << text << " was accepted";
        } catch (const Error& error) {
            EXPECT_NE(std::string(error.what()).find("gateway.rules"), std::string::npos);
        }
    }
}

TEST(SenderPolicy, B25_ApproversAnswerEverythingAndTheUserWhoWasAskedAnAsk) {
    GatewaySettings settings;
    Approver boss;
    boss.channel = "telegram";
    boss.user = "7";
    settings.approvers = {boss};
    const auto may = sender_policy(settings).may_answer;
    const HitlRequest approval = asked_by("telegram", "42", true);
    const HitlRequest ask = asked_by("telegram", "42", false);
    EXPECT_TRUE(may(from("telegram", "1", "7"), approval));
    EXPECT_FALSE(may(from("http", "1", "7"), approval)) << "another channel's user 7";
    EXPECT_FALSE(may(from("telegram", "1", "42"), approval));
    EXPECT_TRUE(may(from("telegram", "1", "42"), ask));
    EXPECT_FALSE(may(from("http", "1", "42"), ask));
    EXPECT_FALSE(may(from("telegram", "1", "43"), ask));
    EXPECT_FALSE(may(from("telegram", "1", ""), ask));
}

}  // namespace
}  // namespace cubepi::app
