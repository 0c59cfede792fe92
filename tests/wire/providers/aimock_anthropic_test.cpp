#include <cubepi/provider/anthropic.hpp>

#include "aimock.hpp"

// AnthropicProvider against aimock.

namespace cubepi {
namespace {

class AnthropicAimock : public wire::AimockTest {
protected:
    static AnthropicProvider provider(std::vector<std::pair<std::string, std::string>> headers = {},
                                      int retries = 0) {
        AnthropicOptions options;
        options.api_key = "sk-ant-test-key";
        options.base_url = url;
        options.extra_headers = std::move(headers);
        options.retry.max_retries = retries;
        options.retry.base_delay = std::chrono::milliseconds(1);
        return AnthropicProvider(std::move(options));
    }

    static AssistantMessage ask(const AnthropicProvider& from, std::string text,
                                std::shared_ptr<const ToolDefinitions> tools = {}) {
        return AimockTest::ask(from.model("claude-sonnet-4-5"), std::move(text), std::move(tools));
    }
};

TEST_F(AnthropicAimock, Text) {
    const AssistantMessage message = ask(provider(), "hello");
    EXPECT_EQ(message.text(), "Hello from the mock, nice to meet you.");
    EXPECT_EQ(message.stop_reason, "stop");
    EXPECT_FALSE(message.response_id.empty());
    ASSERT_TRUE(message.usage);
    EXPECT_TRUE(message.usage->output_tokens);  // the mock says 0
    const Json seen = journal();
    ASSERT_EQ(seen.as_array().size(), 1u);
    EXPECT_EQ(seen.at_pointer("/0/path"), Json("/v1/messages"));
    EXPECT_TRUE(seen.at_pointer("/0/headers").as_object().contains("x-api-key"));
    EXPECT_EQ(seen.at_pointer("/0/headers/anthropic-version"), Json("2023-06-01"));
}

TEST_F(AnthropicAimock, D13_ThinkingAndItsReplay) {
    const AnthropicProvider anthropic = provider();
    const BoundModel model = anthropic.model("claude-sonnet-4-5");
    const AssistantMessage answer = AimockTest::ask(model, "think");
    ASSERT_EQ(answer.content.size(), 2u);
    const auto& thinking = std::get<ThinkingContent>(answer.content[0]);
    EXPECT_EQ(thinking.thinking, "Let me see.");
    EXPECT_EQ(answer.text(), "Yes.");
    MessageList messages{user_message("think"), answer, user_message("hello")};
    EXPECT_EQ(run(model.generate(std::move(messages))).stop_reason, "stop");
}

TEST_F(AnthropicAimock, ToolsAndTheirResults) {
    const AnthropicProvider anthropic = provider();
    MessageList messages{user_message("weather in Paris?")};
    const BoundModel model = anthropic.model("claude-sonnet-4-5");
    const AssistantMessage asked = run(model.generate(messages, {}, weather_tool()));
    ASSERT_EQ(asked.tool_calls().size(), 1u);
    EXPECT_EQ(asked.tool_calls()[0]->id, "call_w");
    EXPECT_EQ(asked.tool_calls()[0]->arguments, JsonObject({{"city", "Paris"}}));
    EXPECT_EQ(asked.stop_reason, "tool_use");
    messages.push_back(asked);
    ToolResultMessage result;
    result.tool_call_id = "call_w";
    result.tool_name = "weather";
    result.content.emplace_back(TextContent{"21.5"});
    messages.push_back(std::move(result));
    EXPECT_EQ(run(model.generate(messages, {}, weather_tool())).text(), "It is 21.5 degrees.");
}

TEST_F(AnthropicAimock, ParallelTools) {
    const AssistantMessage message = ask(provider(), "both", weather_tool());
    EXPECT_EQ(message.text(), "Doing both.");
    ASSERT_EQ(message.tool_calls().size(), 2u);
    EXPECT_EQ(message.tool_calls()[0]->arguments, JsonObject({{"city", "Paris"}}));
    EXPECT_EQ(message.tool_calls()[1]->arguments, JsonObject({{"city", "Oslo"}}));
}

TEST_F(AnthropicAimock, D9_RateLimitWithRetryAfter) {
    const AssistantMessage message = ask(provider(), "limited");
    ASSERT_TRUE(message.error);
    EXPECT_EQ(message.error->type, "RateLimited");
    EXPECT_EQ(message.error->provider_code, "rate_limit_error");
    EXPECT_EQ(message.error->retry_after, 7);
    EXPECT_EQ(message.error->status_code, 429);
}

TEST_F(AnthropicAimock, D15_ServerErrorsAreRetried) {
    const AssistantMessage message = ask(provider({}, 2), "broken");
    ASSERT_TRUE(message.error);
    EXPECT_EQ(message.error->type, "ProviderUnavailable");
    EXPECT_EQ(journal().as_array().size(), 3u);
}

TEST_F(AnthropicAimock, D15_ChaosBeforeTheAnswer) {
    const AssistantMessage dropped = ask(provider({{"x-aimock-chaos-drop", "1"}}), "hello");
    EXPECT_EQ(dropped.error->status_code, 500);
    const AssistantMessage limited = ask(provider({{"x-aimock-chaos-ratelimit", "1"}}), "hello");
    EXPECT_EQ(limited.error->code, ErrorCode::rate_limited);
    const AssistantMessage malformed = ask(provider({{"x-aimock-chaos-malformed", "1"}}), "hello");
    EXPECT_EQ(malformed.error->code, ErrorCode::protocol);
    const AssistantMessage gone = ask(provider({{"x-aimock-chaos-disconnect", "1"}}, 1), "hello");
    EXPECT_EQ(gone.error->code, ErrorCode::disconnected);
    EXPECT_EQ(gone.error->type, "ProviderUnavailable");
}

TEST_F(AnthropicAimock, D9_DisconnectInMidStreamKeepsTheText) {
    const AssistantMessage message = ask(provider({}, 2), "cut");
    ASSERT_EQ(message.stop_reason, "error") << message.text();
    ASSERT_TRUE(message.error);
    EXPECT_EQ(message.error->code, ErrorCode::disconnected);
    EXPECT_FALSE(message.text().empty());
    EXPECT_EQ(journal().as_array().size(), 1u);
}

TEST_F(AnthropicAimock, WhatTheEndpointDoesNotKnow) {
    const AssistantMessage message = ask(provider(), "nobody has written an answer to this");
    ASSERT_EQ(message.stop_reason, "error") << message.text();
    EXPECT_EQ(message.error->status_code, 404);
    EXPECT_TRUE(message.content.empty());
}

}  // namespace
}  // namespace cubepi
