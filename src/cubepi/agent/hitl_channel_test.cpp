#include <cubepi/agent/hitl_channel.hpp>

#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cubepi {
namespace {

using ::testing::HasSubstr;

HitlRequest approve_request() {
    ApproveRequest call;
    call.tool_name = "rm";
    call.tool_call_id = "c1";
    HitlRequest request;
    request.question_id = "c1";
    request.payload = std::move(call);
    return request;
}

HitlRequest ask_request() {
    HitlQuestion color;
    color.key = "color";
    color.options.emplace();
    for (const char* value : {"teal", "red"}) {
        HitlOption option;
        option.value = value;
        color.options->push_back(std::move(option));
    }
    HitlQuestion note;
    note.key = "note";
    note.required = false;
    HitlQuestion sizes;
    sizes.key = "sizes";
    sizes.required = false;
    sizes.multi_select = true;
    AskRequest ask;
    ask.questions = {color, note, sizes};
    HitlRequest request;
    request.question_id = "q";
    request.payload = std::move(ask);
    return request;
}

std::string rejection(const HitlRequest& request, Json answer) {
    try {
        check_answer(request, std::move(answer));
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::bad_answer);
        return error.what();
    }
    return "";
}

TEST(CheckAnswer, D17_Confirmation_IsABoolean) {
    HitlRequest request;
    request.question_id = "q";
    EXPECT_EQ(check_answer(request, Json(true)), Json(true));
    for (const Json& answer : {Json("yes"), Json(1), Json(nullptr), Json(JsonObject())})
        EXPECT_THAT(rejection(request, answer), HasSubstr("expected true or false"));
}

TEST(CheckAnswer, D17_Decision_IsNormalized) {
    const HitlRequest request = approve_request();
    const Json approve = check_answer(request, boost::json::parse(R"({"decision": "approve",
        "reason": null, "edited_args": null, "other": 1})"));
    EXPECT_EQ(approve, Json(JsonObject{{"decision", "approve"}}));
    const Json deny = check_answer(request, Json(to_json(ApproveAnswer::deny("too risky"))));
    EXPECT_EQ(approve_answer_from_json(deny).decision, ApproveDecision::deny);
    EXPECT_EQ(approve_answer_from_json(deny).reason, "too risky");
}

TEST(CheckAnswer, D17_InvalidDecision_IsRejected) {
    const HitlRequest request = approve_request();
    EXPECT_THAT(rejection(request, Json(true)), HasSubstr("'decision'"));
    EXPECT_THAT(rejection(request, Json(JsonObject())), HasSubstr("'decision'"));
    EXPECT_THAT(rejection(request, Json(JsonObject{{"decision", "maybe"}})),
                HasSubstr("\"approve\", \"deny\" or \"edit\""));
    EXPECT_THAT(rejection(request, Json(JsonObject{{"decision", "deny"}, {"reason", 3}})),
                HasSubstr("'reason' must be a text"));
    EXPECT_THAT(rejection(request, Json(JsonObject{{"decision", "edit"}})),
                HasSubstr("'edited_args' must be an object"));
    EXPECT_THAT(rejection(request, Json(JsonObject{{"decision", "approve"},
                                                   {"edited_args", JsonObject{{"path", "x"}}}})),
                HasSubstr("requires the decision \"edit\""));
}

TEST(CheckAnswer, D36_EditedArguments_AreValidatedByTheToolSchema) {
    HitlRequest request = approve_request();
    request.extra["input_schema"] = boost::json::parse(R"({"type": "object",
        "properties": {"path": {"type": "string"}, "force": {"type": "boolean", "default": false}},
        "required": ["path"]})");
    EXPECT_THAT(rejection(request, Json(to_json(ApproveAnswer::edit({{"path", JsonArray()}})))),
                HasSubstr("- path: "));
    const Json edit =
        check_answer(request, Json(to_json(ApproveAnswer::edit({{"path", "/tmp/y"}}))));
    EXPECT_EQ(*approve_answer_from_json(edit).edited_args,
              (JsonObject{{"path", "/tmp/y"}, {"force", false}}));
}

TEST(CheckAnswer, D17_AnswersToQuestions_AreCheckedByKey) {
    const HitlRequest request = ask_request();
    const Json good(JsonObject{{"color", "red"}, {"note", "x"}, {"sizes", JsonArray{"s", "m"}}});
    EXPECT_EQ(check_answer(request, good), good);
    EXPECT_THAT(rejection(request, Json("red")), HasSubstr("expected an object"));
    EXPECT_THAT(rejection(request, Json(JsonObject{{"note", "x"}})),
                HasSubstr("'color' is required"));
    EXPECT_THAT(rejection(request, Json(JsonObject{{"color", "blue"}})),
                HasSubstr("'color' must be one of: teal, red"));
    EXPECT_THAT(rejection(request, Json(JsonObject{{"colour", "red"}})),
                HasSubstr("'colour' is not the key of a question; the keys are 'color', 'note'"));
    EXPECT_THAT(rejection(request, Json(JsonObject{{"color", "red"}, {"note", 4}})),
                HasSubstr("'note' must be a text"));
    EXPECT_THAT(rejection(request, Json(JsonObject{{"color", "red"}, {"sizes", JsonArray{1}}})),
                HasSubstr("'sizes' must be a list of texts"));
    EXPECT_THAT(rejection(request, Json(JsonObject())), HasSubstr("the request stays open"));
}

TEST(CheckAnswer, OptionWithInput_AllowsAnyText) {
    HitlRequest request = ask_request();
    std::get<AskRequest>(request.payload).questions[0].options->back().allow_input = true;
    const Json answer(JsonObject{{"color", "blue"}});
    EXPECT_EQ(check_answer(request, answer), answer);
}

}  // namespace
}  // namespace cubepi
