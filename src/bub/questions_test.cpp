#include <bub/questions.hpp>

#include <gtest/gtest.h>

#include <utility>

#include <cubepi/core/error.hpp>

namespace bub {
namespace {

cubepi::HitlRequest approval() {
    cubepi::ApproveRequest payload;
    payload.tool_name = "rm";
    payload.tool_call_id = "c1";
    payload.args = {{"path", "/tmp/x"}};
    cubepi::HitlRequest request;
    request.question_id = "c1";
    request.request_id = "0123456789";
    request.payload = std::move(payload);
    return request;
}

cubepi::HitlRequest question(std::size_t count = 1) {
    cubepi::AskRequest payload;
    for (std::size_t i = 0; i < count; ++i) {
        cubepi::HitlQuestion one;
        one.key = "k" + std::to_string(i);
        one.prompt = "Which?";
        payload.questions.push_back(std::move(one));
    }
    cubepi::HitlRequest request;
    request.question_id = "q1";
    request.request_id = "9876543210";
    request.payload = std::move(payload);
    return request;
}

Answer parsed(const char* text) {
    Envelope message(text);
    note_answer(message);
    if (!message.answer) ADD_FAILURE() << text << " is not an answer";
    return message.answer.value_or(Answer());
}

Json value_of(const char* text, const cubepi::HitlRequest& request) {
    return answer_value(parsed(text), request);
}

TEST(Questions, B24_Commands_AreAnswers) {
    EXPECT_EQ(parsed(",approve c1").question, "c1");
    EXPECT_EQ(parsed(",approve c1").action, AnswerAction::approve);
    EXPECT_EQ(parsed(",approve").question, "");
    const Answer denied = parsed(",deny  c1   not today, please");
    EXPECT_EQ(denied.action, AnswerAction::deny);
    EXPECT_EQ(denied.text, "not today, please");
    EXPECT_EQ(parsed(",abandon").action, AnswerAction::abandon);
    EXPECT_EQ(parsed(",answer q1 teal").text, "teal");
    for (const char* other : {"", "hello", ",help", ",approved c1", "approve c1"}) {
        Envelope message(other);
        note_answer(message);
        EXPECT_FALSE(message.answer) << other;
    }
}

TEST(Questions, D242_AnswersOfOperators_DifferByTheirMarks) {
    Envelope reply = Envelope().on("chat", "1");
    reply.answer.emplace().question = "q1";
    reply.context["answer_mark"] = "3fa29c41";
    note_answer(reply);
    EXPECT_EQ(reply.answer->place, "chat:1") << "the mark of a user";
    reply.from_operator = true;
    note_answer(reply);
    note_answer(reply);
    EXPECT_EQ(reply.answer->place, "chat:1, answer 3fa29c41");
}

TEST(Questions, B24_MessageBeforeQuestionWasShown_IsOlder) {
    cubepi::HitlRequest request;
    request.created_at = 100;
    Envelope message("thanks");
    EXPECT_FALSE(is_older(message, request)) << "it was not received by a channel";
    for (const auto& [arrived, older] : {std::pair{90.0, true}, {100.5, true}, {102.0, false}}) {
        message.context[arrived_key] = arrived;
        EXPECT_EQ(is_older(message, request), older) << arrived;
    }
}

TEST(Questions, B24_AnswerOfChannel_IsNotReadFromText) {
    Envelope reply = Envelope(",deny c1").on("chat", "1");
    reply.context["sender_id"] = "ann";
    reply.answer.emplace().question = "q1";
    reply.answer->text = "teal";
    note_answer(reply);
    EXPECT_EQ(reply.answer->action, AnswerAction::answer);
    EXPECT_EQ(reply.answer->question, "q1");
    EXPECT_EQ(reply.answer->user, "ann");
    EXPECT_EQ(reply.answer->place, "chat:1");
    EXPECT_EQ(answer_value(*reply.answer, question()), (JsonObject{{"k0", "teal"}}));
    Answer button;
    button.value = JsonObject{{"decision", "approve"}};
    EXPECT_EQ(answer_value(button, approval()), (JsonObject{{"decision", "approve"}}));
}

TEST(Questions, Answers_AreConvertedByKindOfQuestion) {
    EXPECT_EQ(value_of(",approve c1", approval()), (JsonObject{{"decision", "approve"}}));
    EXPECT_EQ(value_of(",deny c1 no", approval()),
              (JsonObject{{"decision", "deny"}, {"reason", "no"}}));
    EXPECT_EQ(value_of(",answer q1 teal blue", question()), (JsonObject{{"k0", "teal blue"}}));
    EXPECT_EQ(value_of(R"(,answer q1 {"k0": "a", "k1": "b"})", question(2)),
              (JsonObject{{"k0", "a"}, {"k1", "b"}}));
    cubepi::HitlRequest confirm;
    confirm.payload = cubepi::ConfirmRequest{"Sure?", nullptr, {}};
    EXPECT_EQ(value_of(",answer q yes", confirm), Json(true));
    EXPECT_EQ(value_of(",approve q", confirm), Json(true));
    EXPECT_EQ(value_of(",deny q", confirm), Json(false));
}

/// Two parts: one choice, and several.
cubepi::HitlRequest form() {
    cubepi::HitlRequest request = question(2);
    auto& parts = std::get<cubepi::AskRequest>(request.payload).questions;
    for (cubepi::HitlQuestion& part : parts) {
        part.options.emplace();
        for (const char* value : {"a", "b", "c, d"}) {
            cubepi::HitlOption option;
            option.value = value;
            option.label = std::string("label ") + value;
            part.options->push_back(std::move(option));
        }
    }
    parts.back().multi_select = true;
    return request;
}

TEST(Questions, Lines_AnswerSeveralPartsAndChoices) {
    const JsonObject expected{{"k0", "b"}, {"k1", JsonArray{"a", "b"}}};
    EXPECT_EQ(value_of(",answer q1\nk0: b\nk1: a, b", form()), expected);
    EXPECT_EQ(value_of(",answer q1 k1 :label a,label b\n\n k0: label b\n", form()), expected);
    EXPECT_EQ(value_of(",answer q1 k1: c, d", form()), (JsonObject{{"k1", JsonArray{"c, d"}}}));
    EXPECT_THROW(value_of(",answer q1 k0: a\nother: b", form()), cubepi::Error);
    EXPECT_THROW(value_of(",answer q1 k0: a\nb", form()), cubepi::Error);
    EXPECT_EQ(question_text(question(2)),
              "k0: Which?\nk1: Which?\nAnswer with ,answer 9876543210 and a line for each:\nk0: "
              "...\nk1: ...");
}

TEST(Questions, Buttons_AnswerSeveralPartsAndChoices) {
    const auto chosen = [](std::vector<std::pair<std::size_t, std::size_t>> choices) {
        Answer pressed;
        pressed.choices = std::move(choices);
        return answer_value(pressed, form());
    };
    EXPECT_EQ(chosen({{0, 1}, {1, 0}, {1, 2}}),
              (JsonObject{{"k0", "b"}, {"k1", JsonArray{"a", "c, d"}}}));
    EXPECT_EQ(chosen({}), JsonObject());
    EXPECT_THROW(chosen({{0, 3}}), cubepi::Error);
    EXPECT_THROW(chosen({{2, 0}}), cubepi::Error);
}

TEST(Questions, UnfittingAnswer_IsRejected) {
    EXPECT_THROW(value_of(",answer c1 yes", approval()), cubepi::Error);
    EXPECT_THROW(value_of(",approve q1", question()), cubepi::Error);
    EXPECT_THROW(value_of(",answer q1 teal", question(2)), cubepi::Error);
}

TEST(Questions, CharactersThatHide_AreSpelledOut) {
    cubepi::HitlRequest asked = approval();
    auto& call = std::get<cubepi::ApproveRequest>(asked.payload);
    call.tool_name = "r\u200Bm";
    call.args = {{"path", "a\u202Eb\u2066c\u2028d\u00A0e\x7F\xFF"}};
    asked.extra["agent_path"] = cubepi::JsonArray{"help\u2029er"};
    const std::string text = question_text(asked);
    EXPECT_TRUE(
        text.starts_with("The sub-agent help<U+2029>er asks: Run r<U+200B>m {\"path\":\"a<U+202E>b"
                         "<U+2066>c<U+2028>d<U+00A0>e^?"))
        << text;
}

TEST(Questions, RemarksOfRules_ComeBeforeTheCall) {
    cubepi::HitlRequest asked = approval();
    auto& call = std::get<cubepi::ApproveRequest>(asked.payload);
    call.tool_name = "shell";
    call.args = {{"command", "rm x"}, {"without_sandbox", true}};
    call.details =
        JsonObject{{"question",
                    "Run this command once without the sandbox: rm x\nKnown: rm deletes files.\n"
                    "The path leads to \u202Ey.\nAlways needs approval: the rule 'x'."}};
    const std::string run =
        "Run shell once without the sandbox {\"command\":\"rm x\",\"without_sandbox\":true}?";
    EXPECT_EQ(question_summary(asked),
              "Known: rm deletes files.\nThe path leads to <U+202E>y.\nAlways needs approval: the "
              "rule 'x'.\n" +
                  run);
    asked.extra["target"] = "z";
    EXPECT_EQ(question_summary(asked),
              "Known: rm deletes files.\nAlways needs approval: the rule 'x'.\nThe path leads to "
              "\"z\".\n" +
                  run);
}

TEST(Questions, TextOfQuestion_SaysHowToAnswer) {
    EXPECT_EQ(question_text(approval()),
              "Run rm {\"path\":\"/tmp/x\"}?\nAnswer with ,approve 0123456789 or ,deny "
              "0123456789 REASON");
    EXPECT_EQ(question_text(question()), "Which?\nAnswer with ,answer 9876543210 TEXT");
}

}  // namespace
}  // namespace bub
