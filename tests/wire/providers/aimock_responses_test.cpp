#include <cubepi/provider/openai_responses.hpp>

#include "aimock.hpp"

// Features of OpenAIResponsesProvider, against aimock; those of all providers are in aimock_surfaces_test.cpp.

namespace cubepi::wire {
namespace {

class AimockResponses : public AimockTest {
protected:
    static BoundModel model(std::string id = "gpt-4.1", bool server_state = false) {
        auto options = options_for<OpenAIResponsesOptions>(url + "/v1", {});
        options.server_state = server_state;
        return OpenAIResponsesProvider(std::move(options)).model(id);
    }
};

TEST_F(AimockResponses, TheKeyIsAHeader) {
    EXPECT_EQ(ask(model(), "hello").stop_reason, "stop");
    const Json seen = journal();
    EXPECT_EQ(seen.at_pointer("/0/path"), Json("/v1/responses"));
    EXPECT_TRUE(seen.at_pointer("/0/headers").as_object().contains("authorization"));
}

TEST_F(AimockResponses, D13_SendsSealedReasoningBack) {
    const BoundModel thinker = model("gpt-5.1");
    MessageList messages{user_message("think")};
    const AssistantMessage first = run(thinker.generate(messages));
    ASSERT_EQ(first.content.size(), 2u);
    const auto& thinking = std::get<ThinkingContent>(first.content[0]);
    EXPECT_EQ(thinking.thinking, "Let me see.");
    const Json* item = thinking.extra.find("reasoning_item");
    ASSERT_TRUE(item);
    EXPECT_TRUE(item->as_object().contains("encrypted_content"));
    messages.push_back(first);
    messages.push_back(user_message("hello"));
    const AssistantMessage second = run(thinker.generate(messages));
    EXPECT_EQ(second.stop_reason, "stop") << second.error_message.str();
}

TEST_F(AimockResponses, ACallHasTwoIds) {
    const AssistantMessage message = ask(model(), "weather in Paris?", weather_tool());
    ASSERT_EQ(message.tool_calls().size(), 1u);
    EXPECT_TRUE(message.tool_calls()[0]->id.str().starts_with("call_w|fc"));
}

TEST_F(AimockResponses, D57_ContinuesFromAResponseOrSendsTheWholeHistory) {
    const BoundModel remembering = model("gpt-4.1", true);
    MessageList messages{user_message("weather in Paris?")};
    const AssistantMessage first = run(remembering.generate(messages, {}, weather_tool()));
    ASSERT_EQ(first.tool_calls().size(), 1u);
    messages.push_back(first);
    messages.push_back(weather_result(*first.tool_calls()[0]));
    const AssistantMessage second = run(remembering.generate(messages, {}, weather_tool()));
    EXPECT_EQ(second.text(), "It is 21.5 degrees.");
    // The mock stores no responses: it rejects a result without its call.
    const Json seen = journal();
    ASSERT_EQ(seen.as_array().size(), 3u);
    EXPECT_EQ(seen.at_pointer("/1/response/status"), Json(404));
    EXPECT_EQ(seen.at_pointer("/2/response/status"), Json(200));
}

}  // namespace
}  // namespace cubepi::wire
