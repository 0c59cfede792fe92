#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cubepi/core/error.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/hitl/in_memory_channel.hpp>
#include <cubepi/mcp/elicitation.hpp>
#include <cubepi/schema/json_text.hpp>
#include <cubepi/schema/parse_json.hpp>

namespace cubepi {
namespace {

using ::testing::HasSubstr;

JsonObject form(const std::string& properties, const std::string& required = "[]") {
    return parse_json(R"({"message":"Fill in","requestedSchema":{"type":"object","properties":)" +
                      properties + R"(,"required":)" + required + "}}")
        .as_object();
}

std::vector<HitlQuestion> questions(const JsonObject& params) {
    return detail::elicitation_questions("server", params);
}

TEST(McpElicitation, Properties_BecomeQuestions) {
    const auto asked = questions(form(
        R"({"name":{"type":"string","title":"Name","description":"Your name"},
            "ok":{"type":"boolean","default":true},
            "color":{"type":"string","enum":["r","g"],"enumNames":["Red","Green"]},
            "size":{"type":"string","oneOf":[{"const":"s","title":"Small"},{"const":"l","title":"Large"}]},
            "days":{"type":"array","items":{"anyOf":[{"const":"mo","title":"Monday"}]}}})",
        R"(["name","ok"])"));
    ASSERT_EQ(asked.size(), 5U);
    EXPECT_EQ(asked[0].prompt, "The server server asks: Fill in\nName: Your name");
    EXPECT_TRUE(asked[0].required);
    EXPECT_FALSE(asked[0].options);
    EXPECT_EQ(asked[1].prompt, "ok (default: true)");
    EXPECT_FALSE(asked[1].required);
    EXPECT_EQ(asked[1].options->size(), 2U);
    EXPECT_EQ((*asked[2].options)[1].label, "Green");
    EXPECT_EQ((*asked[2].options)[1].value, "g");
    EXPECT_EQ((*asked[3].options)[0].label, "Small");
    EXPECT_TRUE(asked[4].multi_select);
    EXPECT_EQ((*asked[4].options)[0].value, "mo");
}

TEST(McpElicitation, Answers_GetTypesAndDefaults) {
    const JsonObject params = form(
        R"({"age":{"type":"integer"},"ok":{"type":"boolean"},"score":{"type":"number","default":9.5},
            "name":{"type":"string","default":"Ann"}})");
    JsonObject answers;
    answers["age"] = "42";
    answers["ok"] = "true";
    answers["name"] = "";
    EXPECT_EQ(json_text(detail::elicitation_content(params, answers)),
              R"({"age":42,"ok":true,"score":9.5,"name":"Ann"})");
    answers["age"] = "old";
    EXPECT_THROW((void)detail::elicitation_content(params, answers), Error);
}

TEST(McpElicitation, D136_HugeDefaults_AreRefused) {
    std::string items = "{}";
    for (int i = 0; i < 400; ++i) items += ",{}";
    const JsonObject params =
        form(R"({"a":{"type":"array","default":[)" + items +
             R"(],"items":{"properties":{"p":{"$ref":"#/properties/d"}}}},)" +
             R"("d":{"type":"string","default":")" + std::string(40'000, 'x') + "\"}}");
    EXPECT_THROW((void)detail::elicitation_content(params, {}), Error);
}

TEST(McpElicitation, OversizedForms_AreRefused) {
    std::string many = "{";
    for (int i = 0; i < 17; ++i)
        many += (i > 0 ? ",\"p" : "\"p") + std::to_string(i) + R"(":{"type":"string"})";
    EXPECT_THROW((void)questions(form(many + "}")), Error);
    EXPECT_THROW((void)questions(form(R"({"p":7})")), Error);
    EXPECT_THROW((void)questions(JsonObject()), Error);
    EXPECT_THROW((void)questions(form(R"({"p":{"type":"string","title":")" +
                                      std::string(100000, 'x') + "\"}}")),
                 Error);
}

TEST(McpElicitation, ControlCharacters_AreRemovedFromTexts) {
    const auto asked = questions(form(R"({"p":{"type":"string","title":"a\u001b[31mb"}})"));
    EXPECT_EQ(asked[0].prompt.find('\x1b'), std::string::npos);
}

Task<> answer_in_turn(std::shared_ptr<InMemoryChannel> channel, HitlRequestStream requests,
                      std::vector<std::string> answers) {
    for (std::string& text : answers) {
        const std::optional<HitlRequest> request = co_await requests.next();
        if (text == "cancel") {
            co_await channel->cancel(request->request_id);
        } else {
            JsonObject answer;
            answer["age"] = std::move(text);
            co_await channel->answer(request->request_id, std::move(answer));
        }
    }
}

Task<> store(Task<JsonObject> task, JsonObject* out) { *out = co_await std::move(task); }

std::string outcome(std::vector<std::string> answers) {
    const auto channel = std::make_shared<InMemoryChannel>();
    JsonObject result;
    std::vector<Task<>> both;
    both.push_back(answer_in_turn(channel, channel->subscribe(), std::move(answers)));
    both.push_back(store(
        ask_mcp_elicitation(channel, "server", form(R"({"age":{"type":"integer"}})", R"(["age"])")),
        &result));
    run(when_all(std::move(both)));
    return json_text(result);
}

TEST(McpElicitation, AnswerThatDoesNotFit_IsAskedAgain) {
    EXPECT_EQ(outcome({"old", "7"}), R"({"action":"accept","content":{"age":7}})");
    EXPECT_EQ(outcome({"a", "b", "c"}), R"({"action":"cancel"})");
}

TEST(McpElicitation, CancelledQuestion_IsCancelledAtTheServer) {
    EXPECT_EQ(outcome({"cancel"}), R"({"action":"cancel"})");
}

TEST(McpElicitation, UrlMode_IsDeclinedWithoutQuestion) {
    JsonObject params;
    params["mode"] = "url";
    params["url"] = "https://example.com";
    const auto channel = std::make_shared<InMemoryChannel>();
    EXPECT_EQ(json_text(run(ask_mcp_elicitation(channel, "server", std::move(params)))),
              R"({"action":"decline"})");
}

}  // namespace
}  // namespace cubepi
