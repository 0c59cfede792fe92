#include <cubepi/provider/openai.hpp>

#include "aimock.hpp"

// OpenAIProvider against aimock.

namespace cubepi {
namespace {

class Aimock : public wire::AimockTest {
protected:
    static OpenAIProvider provider(std::vector<std::pair<std::string, std::string>> headers = {},
                                   int retries = 0) {
        OpenAIOptions options;
        options.api_key = "sk-test-key";
        options.base_url = url + "/v1";
        options.extra_headers = std::move(headers);
        options.retry.max_retries = retries;
        options.retry.base_delay = std::chrono::milliseconds(1);
        return OpenAIProvider(std::move(options));
    }

    static AssistantMessage ask(const OpenAIProvider& from, std::string text,
                                std::shared_ptr<const ToolDefinitions> tools = {}) {
        return AimockTest::ask(from.model("gpt-4.1"), std::move(text), std::move(tools));
    }
};

TEST_F(Aimock, Text) {
    const AssistantMessage message = ask(provider(), "hello");
    EXPECT_EQ(message.text(), "Hello from the mock, nice to meet you.");
    EXPECT_EQ(message.stop_reason, "stop");
    ASSERT_TRUE(message.usage);
    EXPECT_GT(*message.usage->output_tokens, 0);
    const Json seen = journal();
    ASSERT_EQ(seen.as_array().size(), 1u);
    const Json& body = seen.at_pointer("/0/body");
    EXPECT_EQ(body.at_pointer("/messages/0"),
              boost::json::parse(R"({"role":"system","content":"Be brief."})"));
    EXPECT_EQ(body.at_pointer("/stream_options/include_usage"), Json(true));
    EXPECT_FALSE(body.as_object().contains("temperature"));
    EXPECT_FALSE(body.as_object().contains("max_tokens"));
    // The journal of a mock may mask it, but it must have been there.
    EXPECT_TRUE(seen.at_pointer("/0/headers").as_object().contains("authorization"));
}

TEST_F(Aimock, Reasoning) {
    const AssistantMessage message = ask(provider(), "think");
    ASSERT_EQ(message.content.size(), 2u);
    EXPECT_EQ(std::get<ThinkingContent>(message.content[0]).thinking, "Let me see.");
    EXPECT_EQ(message.text(), "Yes.");
}

TEST_F(Aimock, ToolsAndTheirResults) {
    const OpenAIProvider openai = provider();
    MessageList messages{user_message("weather in Paris?")};
    const BoundModel model = openai.model("gpt-4.1");
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
    const Json second = journal().at_pointer("/1/body");
    EXPECT_EQ(second.at_pointer("/messages/1/tool_calls/0/id"), Json("call_w"));
    EXPECT_EQ(second.at_pointer("/messages/2"),
              boost::json::parse(R"({"role":"tool","tool_call_id":"call_w","content":"21.5"})"));
    EXPECT_EQ(second.at_pointer("/tools/0/function/name"), Json("weather"));
}

TEST_F(Aimock, ParallelTools) {
    const AssistantMessage message = ask(provider(), "both", weather_tool());
    EXPECT_EQ(message.text(), "Doing both.");
    ASSERT_EQ(message.tool_calls().size(), 2u);
    EXPECT_EQ(message.tool_calls()[0]->arguments, JsonObject({{"city", "Paris"}}));
    EXPECT_EQ(message.tool_calls()[1]->arguments, JsonObject({{"city", "Oslo"}}));
}

TEST_F(Aimock, D9_RateLimitWithRetryAfter) {
    const AssistantMessage message = ask(provider(), "limited");
    ASSERT_TRUE(message.error);
    EXPECT_EQ(message.error->type, "RateLimited");
    EXPECT_EQ(message.error->provider_code, "rate_limit_exceeded");
    EXPECT_EQ(message.error->retry_after, 7);
    EXPECT_EQ(message.error->status_code, 429);
}

TEST_F(Aimock, D15_ServerErrorsAreRetried) {
    const AssistantMessage message = ask(provider({}, 2), "broken");
    ASSERT_TRUE(message.error);
    EXPECT_EQ(message.error->type, "ProviderUnavailable");
    EXPECT_EQ(journal().as_array().size(), 3u);
}

TEST_F(Aimock, D15_ChaosBeforeTheAnswer) {
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

TEST_F(Aimock, D9_DisconnectInMidStreamKeepsTheText) {
    const AssistantMessage message = ask(provider({}, 2), "cut");
    ASSERT_EQ(message.stop_reason, "error") << message.text();
    ASSERT_TRUE(message.error);
    EXPECT_EQ(message.error->code, ErrorCode::disconnected);
    EXPECT_FALSE(message.text().empty());
    EXPECT_EQ(journal().as_array().size(), 1u);
}

TEST_F(Aimock, WhatTheEndpointDoesNotKnow) {
    const AssistantMessage message = ask(provider(), "nobody has written an answer to this");
    ASSERT_EQ(message.stop_reason, "error") << message.text();
    EXPECT_EQ(message.error->status_code, 404);
    EXPECT_TRUE(message.content.empty());
}

}  // namespace
}  // namespace cubepi
