// The messages of questions, and what becomes of their answers.

#include <gtest/gtest.h>

#include <bub/channel/telegram/questions.hpp>
#include <bub/questions.hpp>
#include <cubepi/core/error.hpp>

namespace bub::telegram {
namespace {

using cubepi::HitlRequest;

HitlRequest approval(std::string id = "c1") {
    HitlRequest request;
    request.question_id = std::move(id);
    cubepi::ApproveRequest payload;
    payload.tool_name = "shell";
    payload.args = JsonObject{{"command", "rm x"}};
    request.payload = std::move(payload);
    request.extra[asker_key] = JsonObject{{"session", "telegram:7"}};
    return request;
}

HitlRequest ask(std::vector<std::string> options) {
    HitlRequest request;
    request.question_id = "q.0";
    cubepi::HitlQuestion question;
    question.key = "color";
    question.prompt = "Which?";
    question.options.emplace();
    for (std::string& option : options) {
        cubepi::HitlOption made;
        made.label = option;
        made.value = "value of " + option;
        question.options->push_back(std::move(made));
    }
    cubepi::AskRequest payload;
    payload.questions.push_back(std::move(question));
    request.payload = std::move(payload);
    return request;
}

std::string data_of(const OutgoingText& card, std::size_t row, std::size_t column) {
    return std::string(card.keyboard.at(row).as_array().at(column).at("callback_data").as_string());
}

TEST(TelegramQuestions, TheKeyOfALongIdFitsIntoAButton) {
    const HitlRequest request =
        approval("call_" + std::string(200, 'x') + "|fc_" + std::string(90, 'y'));
    const OutgoingText card = question_card(to_json(request));
    EXPECT_LE(data_of(card, 0, 0).size(), 64u);
    const std::optional<QuestionMark> mark = question_in(card.text.text);
    ASSERT_TRUE(mark.has_value());
    EXPECT_TRUE(mark->approves);
    EXPECT_EQ(mark->key, short_question_key(request));
    EXPECT_TRUE(names_question(mark->key, request));
    EXPECT_TRUE(names_question(request.question_id, request));
    EXPECT_FALSE(names_question(mark->key, approval("c2")));
}

TEST(TelegramQuestions, TheSameIdInAnotherSessionHasAnotherKey) {
    HitlRequest other = approval();
    other.extra[asker_key] = JsonObject{{"session", "telegram:8"}};
    EXPECT_NE(short_question_key(other), short_question_key(approval()));
}

TEST(TelegramQuestions, ButtonsApproveAndDeny) {
    const OutgoingText card = question_card(to_json(approval()));
    Envelope yes;
    ASSERT_TRUE(answer_with_button(data_of(card, 0, 0), JsonArray(), yes));
    EXPECT_EQ(given_answer(yes)->action, AnswerAction::approve);
    EXPECT_TRUE(names_question(given_answer(yes)->question_id, approval()));
    Envelope no;
    ASSERT_TRUE(answer_with_button(data_of(card, 0, 1), JsonArray(), no));
    EXPECT_EQ(given_answer(no)->action, AnswerAction::deny);
}

TEST(TelegramQuestions, ButtonsChooseAnOption) {
    const HitlRequest request = ask({"red", "teal"});
    const OutgoingText card = question_card(to_json(request));
    ASSERT_EQ(card.keyboard.size(), 2u);
    Envelope answer;
    ASSERT_TRUE(answer_with_button(data_of(card, 1, 0), JsonArray(), answer));
    const Json value = answer_value(*given_answer(answer), request);
    EXPECT_EQ(value.at("color"), "value of teal");
    answer.rest[answer_choice_key] = 5;
    EXPECT_THROW((void)answer_value(*given_answer(answer), request), cubepi::Error);
}

TEST(TelegramQuestions, ManyOptionsHaveNoButtons) {
    const HitlRequest request = ask(std::vector<std::string>(9, "option"));
    EXPECT_TRUE(question_card(to_json(request)).keyboard.empty());
}

TEST(TelegramQuestions, LabelsAreCutAtACharacter) {
    std::string label;
    for (int times = 0; times < 40; ++times) label += "\u00E4";
    const OutgoingText card = question_card(to_json(ask({label})));
    const std::string text(card.keyboard.at(0).as_array().at(0).at("text").as_string());
    EXPECT_TRUE(text.ends_with("\u00E4\u2026")) << text;
}

TEST(TelegramQuestions, ForeignButtonsAreNotAnswers) {
    for (const char* data : {"", "over", "y:", "y:zzzzzzzzzz", "x:0123456789", "o:0123456789",
                             "o9x:0123456789", "y:0123456789a", "o-1:0123456789"}) {
        Envelope answer;
        EXPECT_FALSE(answer_with_button(data, JsonArray(), answer)) << data;
    }
}

TEST(TelegramQuestions, RepliesAnswer) {
    const std::optional<QuestionMark> mark =
        question_in(question_card(to_json(approval())).text.text);
    ASSERT_TRUE(mark.has_value());
    Envelope yes;
    answer_with_text(*mark, " Yes ", yes);
    EXPECT_EQ(given_answer(yes)->action, AnswerAction::approve);
    Envelope no;
    answer_with_text(*mark, "no", no);
    EXPECT_EQ(given_answer(no)->action, AnswerAction::deny);
    Envelope other;
    answer_with_text(*mark, "maybe", other);
    EXPECT_THROW((void)answer_value(*given_answer(other), approval()), cubepi::Error);
}

TEST(TelegramQuestions, OnlyTheLastLineMarksAQuestion) {
    EXPECT_FALSE(question_in("Question 0123456789\nand more").has_value());
    EXPECT_FALSE(question_in("Question 012345678").has_value());
    EXPECT_FALSE(question_in("").has_value());
    EXPECT_TRUE(question_in("text\nQuestion 0123456789\n").has_value());
}

TEST(TelegramQuestions, ALongCallIsShortened) {
    HitlRequest request = approval();
    std::get<cubepi::ApproveRequest>(request.payload).args["command"] = std::string(20'000, 'x');
    const OutgoingText card = question_card(to_json(request));
    EXPECT_LE(utf16_length(card.text.text), max_message_units);
    EXPECT_TRUE(question_in(card.text.text).has_value());
}

}  // namespace
}  // namespace bub::telegram
