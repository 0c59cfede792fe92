// The parts that channels share, for a service whose ids are texts.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <bub/channel/shared/access.hpp>
#include <bub/channel/shared/live_answer.hpp>
#include <bub/channel/shared/message_text.hpp>
#include <bub/channel/shared/question_cards.hpp>
#include <bub/questions.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/net/utf8.hpp>

namespace bub::shared {
namespace {

cubepi::HitlRequest which_color() {
    cubepi::HitlOption red;
    red.value = red.label = "red";
    cubepi::HitlQuestion question;
    question.key = "color";
    question.prompt = "Which?";
    question.options.emplace(1, red);
    cubepi::AskRequest ask;
    ask.questions.push_back(std::move(question));
    cubepi::HitlRequest request;
    request.request_id = "0123456789";
    request.payload = std::move(ask);
    request.extra[asker_key] = JsonObject{{"channel", "forum"}, {"user", "@ann:example.org"}};
    return request;
}

TEST(SharedParts, B24_ButtonOfAnyService_NamesTheAskedUser) {
    CardRules rules;
    rules.channel = "forum";
    const QuestionCard card = question_card(cubepi::to_json(which_color()), rules);
    const std::string data = card.buttons.at(0).at(0).data;
    EXPECT_EQ(asked_user(data), "@ann:example.org");
    const Answer answer = answer_of_button(data, card.buttons).value();
    EXPECT_EQ(answer.question, "0123456789");
    EXPECT_EQ(answer_value(answer, which_color()).at("color"), "red");
    rules.channel = "other";
    const QuestionCard elsewhere = question_card(cubepi::to_json(which_color()), rules);
    EXPECT_EQ(asked_user(elsewhere.buttons.at(0).at(0).data), "");
}

TEST(SharedParts, B15_Access_IsByListsAndGroups) {
    const Access<std::string> access({"ann"}, {"!group"}, {"olga"}, {"bob"});
    EXPECT_TRUE(access.allows("ann", "ann", false));
    EXPECT_TRUE(access.allows("olga", "olga", false));
    EXPECT_FALSE(access.allows("bob", "bob", false)) << "an approver is not a user";
    EXPECT_TRUE(access.allows("stranger", "!group", true));
    EXPECT_FALSE(access.allows("ann", "!other", true));
    EXPECT_EQ(access.approvers(), (std::set<std::string>{"bob", "olga"}));
}

TEST(SharedParts, PairingCode_RejectsTheTenthWrongOne) {
    PairingCode code("12345678");
    EXPECT_EQ(PairingCode::find(" /start 12345678 "), "12345678");
    EXPECT_FALSE(PairingCode::find("1234567a"));
    for (int i = 0; i < 9; ++i) EXPECT_FALSE(code.accepts("00000000"));
    EXPECT_TRUE(code.accepts("12345678"));
    EXPECT_THROW((void)code.accepts("00000000"), cubepi::Error);
}

/// A chat in memory whose messages can be deleted by its users.
struct FakeSender {
    struct Message {
        std::string text = {};
        std::shared_ptr<SendProgress> progress = {};
    };
    using Target = std::string;
    using Id = std::string;

    Task<Id> send(Target, Message message) {
        messages.push_back(std::move(message.text));
        co_return "$" + std::to_string(messages.size());
    }
    Task<Id> try_send(Target to, Message message) {
        return send(std::move(to), std::move(message));
    }
    Task<bool> edit(Target, Id id, Message message) {
        std::string& text = messages.at(std::stoul(id.substr(1)) - 1);
        if (text.empty()) co_return false;
        text = std::move(message.text);
        co_return true;
    }
    Task<bool> try_edit(Target to, Id id, Message message) {
        return edit(std::move(to), std::move(id), std::move(message));
    }
    Task<> try_delete(Target, Id id) {
        messages.at(std::stoul(id.substr(1)) - 1).clear();
        co_return;
    }
    std::vector<std::string> messages;  // empty: deleted
};

TEST(SharedParts, LiveAnswer_ReplacesDeletedMessages) {
    const auto sender = std::make_shared<FakeSender>();
    LiveAnswer<FakeSender>::Parts parts;
    parts.sender = sender;
    parts.clock = cubepi::Runtime::standard()->clock.get();
    LiveAnswer<FakeSender> answer(std::move(parts));
    cubepi::run(answer.finish({"one", "two"}, nullptr));
    cubepi::run(answer.finish({"one", "2", "three"}, nullptr));
    EXPECT_EQ(sender->messages, (std::vector<std::string>{"one", "2", "three"}));
    sender->messages.at(1).clear();
    cubepi::run(answer.finish({"one", "second"}, nullptr));
    EXPECT_EQ(sender->messages, (std::vector<std::string>{"one", "", "", "second"}));
}

TEST(SharedParts, LongText_IsDividedBetweenLines) {
    const std::vector<TextPart> parts = split_text("one two\nthree four", 12);
    ASSERT_EQ(parts.size(), 2u);
    EXPECT_EQ(parts[0].text, "one two");
    EXPECT_EQ(parts[1].text, "three four");
    EXPECT_EQ(shortened("one two\nthree four", 12), "one two \u2026");
    EXPECT_EQ(one_line("a\nb\u2028c"), "a b c");
}

TEST(SharedParts, BothEndsOfText_CountLeftOutBytes) {
    EXPECT_EQ(with_both_ends("as it is ", 200, ""), "as it is ");
    const std::string blanks(500, ' ');
    const std::string shown = with_both_ends("a" + blanks + "z", 200, "; see file");
    EXPECT_TRUE(shown.starts_with("a  ")) << shown;
    EXPECT_TRUE(shown.ends_with("  z")) << shown;
    EXPECT_NE(shown.find(" \u2026\n(422 bytes are left out; see file)\n\u2026 "), std::string::npos)
        << shown;
    std::string wide;
    for (int i = 0; i < 300; ++i) wide += "\U0001F600";
    const std::string cut = with_both_ends("a" + wide, 201, std::string(60, 'n'));
    EXPECT_LE(utf16_length(cut), 201u);
    EXPECT_TRUE(cubepi::is_utf8(cut));
}

}  // namespace
}  // namespace bub::shared
