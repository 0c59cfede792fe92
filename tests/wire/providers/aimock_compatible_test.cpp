#include <cubepi/provider/openai.hpp>

#include "aimock.hpp"

// OpenAIProvider against the other OpenAI-compatible surfaces of aimock: OpenRouter's and BytePlus Ark's. They differ by
// path, and OpenRouter by the form of ids, usage and errors.

namespace cubepi::wire {
namespace {

struct Surface {
    std::string name;
    std::string path;
    std::string model;
};

class AimockCompatible : public AimockTest, public ::testing::WithParamInterface<Surface> {
protected:
    static OpenAIProvider provider(int retries = 0,
                                   std::vector<std::pair<std::string, std::string>> headers = {}) {
        OpenAIOptions options;
        options.api_key = "sk-test-key";
        options.base_url = url + GetParam().path;
        options.provider_id = GetParam().name;
        options.extra_headers = std::move(headers);
        options.retry.max_retries = retries;
        options.retry.base_delay = std::chrono::milliseconds(1);
        return OpenAIProvider(std::move(options));
    }
    static BoundModel model(int retries = 0) { return provider(retries).model(GetParam().model); }
};

TEST_P(AimockCompatible, Text) {
    const AssistantMessage message = ask(model(), "hello");
    EXPECT_EQ(message.text(), "Hello from the mock, nice to meet you.");
    EXPECT_EQ(message.stop_reason, "stop");
    EXPECT_EQ(message.provider_id, GetParam().name);
    ASSERT_TRUE(message.usage);
    EXPECT_GT(*message.usage->output_tokens, 0);
    EXPECT_EQ(journal().at_pointer("/0/body/model"), Json(GetParam().model));
}

TEST_P(AimockCompatible, ReasoningIsThinking) {
    const AssistantMessage message = ask(model(), "think");
    ASSERT_EQ(message.content.size(), 2u);
    EXPECT_EQ(std::get<ThinkingContent>(message.content[0]).thinking, "Let me see.");
    EXPECT_EQ(message.text(), "Yes.");
}

TEST_P(AimockCompatible, ToolsAndTheirResults) {
    MessageList messages{user_message("weather in Paris?")};
    const AssistantMessage first = run(model().generate(messages, {}, weather_tool()));
    ASSERT_EQ(first.tool_calls().size(), 1u);
    EXPECT_EQ(first.tool_calls()[0]->arguments, JsonObject({{"city", "Paris"}}));
    messages.push_back(first);
    ToolResultMessage result;
    result.tool_call_id = first.tool_calls()[0]->id;
    result.tool_name = "weather";
    result.content.emplace_back(TextContent{"21.5"});
    messages.push_back(std::move(result));
    EXPECT_EQ(run(model().generate(messages, {}, weather_tool())).text(), "It is 21.5 degrees.");
}

TEST_P(AimockCompatible, D9_LimitsAndFailuresAreTyped) {
    const AssistantMessage limited = ask(model(), "limited");
    ASSERT_TRUE(limited.error);
    EXPECT_EQ(limited.error->code, ErrorCode::rate_limited);
    EXPECT_EQ(limited.error->retry_after, 7);
    const AssistantMessage failed = ask(model(2), "broken");
    ASSERT_TRUE(failed.error);
    EXPECT_EQ(failed.error->code, ErrorCode::unavailable);
    const AssistantMessage torn = ask(model(), "torn text 6.");
    ASSERT_TRUE(torn.error);
    EXPECT_EQ(torn.error->code, ErrorCode::disconnected);
    EXPECT_FALSE(torn.text().empty());
}

TEST_P(AimockCompatible, D15_ChaosBeforeTheAnswer) {
    const auto under = [](const char* header) {
        const OpenAIProvider struck = provider(0, {{header, "1"}});
        return ask(struck.model(GetParam().model), "hello");
    };
    EXPECT_EQ(under("x-aimock-chaos-drop").error->code, ErrorCode::unavailable);
    EXPECT_EQ(under("x-aimock-chaos-ratelimit").error->code, ErrorCode::rate_limited);
    EXPECT_EQ(under("x-aimock-chaos-malformed").error->code, ErrorCode::protocol);
    EXPECT_EQ(under("x-aimock-chaos-disconnect").error->code, ErrorCode::disconnected);
}

INSTANTIATE_TEST_SUITE_P(Surfaces, AimockCompatible,
                         ::testing::Values(Surface{"openrouter", "/api/v1", "openai/gpt-4.1"},
                                           Surface{"ark", "/api/v3", "doubao-seed-1-6"}),
                         [](const ::testing::TestParamInfo<Surface>& info) {
                             return info.param.name;
                         });

}  // namespace
}  // namespace cubepi::wire
