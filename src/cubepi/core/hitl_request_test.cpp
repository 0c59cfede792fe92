#include <cubepi/core/hitl_request.hpp>

#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include <cubepi/core/error.hpp>

namespace cubepi {
namespace {

using boost::json::parse;
using boost::json::serialize;

HitlRequest same_again(std::string_view stored) {
    HitlRequest request = hitl_request_from_json(parse(stored));
    EXPECT_EQ(serialize(to_json(request)), stored);
    return request;
}

TEST(HitlRequest, ApproveBothWays) {
    const HitlRequest request = same_again(
        R"({"question_id":"c1","thread_id":"t1","payload":{"kind":"approve","tool_name":"rm",)"
        R"("tool_call_id":"c1","args":{"p":"/"},"details":null},"created_at":1.700000003E9,)"
        R"("timeout_seconds":null})");
    EXPECT_EQ(request.question_id, "c1");
    EXPECT_EQ(request.thread_id, "t1");
    EXPECT_EQ(request.created_at, 1700000003.0);
    EXPECT_EQ(request.timeout_seconds, std::nullopt);
    const auto& approve = std::get<ApproveRequest>(request.payload);
    EXPECT_EQ(approve.tool_name, "rm");
    EXPECT_EQ(approve.tool_call_id, "c1");
    EXPECT_EQ(approve.args, JsonObject({{"p", "/"}}));
}

TEST(HitlRequest, AskBothWays) {
    const HitlRequest request = same_again(
        R"({"question_id":"q.0","thread_id":null,"payload":{"kind":"ask","questions":[)"
        R"({"key":"k","prompt":"P?","options":[{"label":"L","value":"v","description":null,)"
        R"("allow_input":false},{"label":"M","value":"w","description":"why","allow_input":true}],)"
        R"("multi_select":true,"required":false},{"key":"n","prompt":"Name?","options":null,)"
        R"("multi_select":false,"required":true}]},"created_at":1E0,"timeout_seconds":6E1})");
    EXPECT_EQ(request.thread_id, std::nullopt);
    EXPECT_EQ(request.timeout_seconds, 60.0);
    const auto& ask = std::get<AskRequest>(request.payload);
    ASSERT_EQ(ask.questions.size(), 2u);
    EXPECT_TRUE(ask.questions[0].multi_select);
    EXPECT_FALSE(ask.questions[0].required);
    EXPECT_EQ(ask.questions[0].options->at(1).description, "why");
    EXPECT_TRUE(ask.questions[0].options->at(1).allow_input);
    EXPECT_FALSE(ask.questions[1].options.has_value());
}

TEST(HitlRequest, ConfirmBothWaysAndUnknownKeysSurvive) {
    const HitlRequest request = same_again(
        R"({"question_id":"q","thread_id":"t","payload":{"kind":"confirm","prompt":"Sure?",)"
        R"("details":{"n":1}},"created_at":0E0,"timeout_seconds":null,"run":{"batch":[1]}})");
    EXPECT_EQ(std::get<ConfirmRequest>(request.payload).prompt, "Sure?");
    EXPECT_EQ(request.extra, JsonObject({{"run", JsonObject{{"batch", JsonArray{1}}}}}));
}

TEST(HitlRequest, D41_UnknownKeysOfAPayloadSurviveAtEveryDepth) {
    const HitlRequest confirm = same_again(
        R"({"question_id":"q","thread_id":"t","payload":{"kind":"confirm","prompt":"Sure?",)"
        R"("details":null,"tone":{"of":["voice"]}},"created_at":0E0,"timeout_seconds":null})");
    EXPECT_EQ(std::get<ConfirmRequest>(confirm.payload).extra,
              JsonObject({{"tone", JsonObject{{"of", JsonArray{"voice"}}}}}));
    same_again(
        R"({"question_id":"c","thread_id":null,"payload":{"kind":"approve","tool_name":"rm",)"
        R"("tool_call_id":"c","args":{},"details":null,"batch":7,"digest":"d"},"created_at":0E0,)"
        R"("timeout_seconds":null,"more":true})");
    const HitlRequest ask = same_again(
        R"({"question_id":"q","thread_id":null,"payload":{"kind":"ask","questions":[)"
        R"({"key":"k","prompt":"P?","options":[{"label":"L","value":"v","description":null,)"
        R"("allow_input":false,"icon":"x"}],"multi_select":false,"required":true,"hint":null}],)"
        R"("title":"T"},"created_at":0E0,"timeout_seconds":null})");
    const HitlQuestion& question = std::get<AskRequest>(ask.payload).questions.at(0);
    EXPECT_EQ(question.extra, JsonObject({{"hint", nullptr}}));
    EXPECT_EQ(question.options->at(0).extra, JsonObject({{"icon", "x"}}));
}

TEST(HitlRequest, MissingKeysHaveTheirDefaults) {
    const HitlRequest request = hitl_request_from_json(parse(
        R"({"question_id":"q","payload":{"kind":"ask","questions":[{"key":"k","prompt":"p"}]}})"));
    const HitlQuestion& question = std::get<AskRequest>(request.payload).questions.at(0);
    EXPECT_FALSE(question.options.has_value());
    EXPECT_FALSE(question.multi_select);
    EXPECT_TRUE(question.required);
}

TEST(HitlRequest, RefusalsNameTheKey) {
    const auto expect_refused = [](std::string_view stored, std::string_view key) {
        try {
            hitl_request_from_json(parse(stored));
            ADD_FAILURE() << "read: " << stored;
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), ErrorCode::validation);
            const std::string why = error.what();
            EXPECT_NE(why.find("'" + std::string(key) + "'"), std::string::npos) << why;
        }
    };
    expect_refused("7", "request");
    expect_refused("{}", "question_id");
    expect_refused(R"({"question_id":5})", "question_id");
    expect_refused(R"({"question_id":"q"})", "payload");
    expect_refused(R"({"question_id":"q","payload":{}})", "kind");
    expect_refused(R"({"question_id":"q","payload":{"kind":"vote"}})", "kind");
    expect_refused(R"({"question_id":"q","payload":{"kind":"confirm"}})", "prompt");
    expect_refused(R"({"question_id":"q","payload":{"kind":"approve","tool_name":"t"}})",
                   "tool_call_id");
    expect_refused(
        R"({"question_id":"q","payload":{"kind":"approve","tool_name":"t","tool_call_id":"c"}})",
        "args");
    expect_refused(R"({"question_id":"q","payload":{"kind":"ask"}})", "questions");
    expect_refused(R"({"question_id":"q","payload":{"kind":"ask","questions":[1]}})", "questions");
    expect_refused(R"({"question_id":"q","payload":{"kind":"ask","questions":[{"key":"k"}]}})",
                   "prompt");
}

}  // namespace
}  // namespace cubepi
