#include <algorithm>

#include <cubepi/provider/openai_responses.hpp>

#include "aimock.hpp"

// OpenAIResponsesProvider against aimock.

namespace cubepi::wire {
namespace {

class AimockResponses : public AimockTest {
protected:
    using Headers = std::vector<std::pair<std::string, std::string>>;

    static OpenAIResponsesProvider provider(Headers headers = {}, int retries = 0,
                                            bool server_state = false) {
        OpenAIResponsesOptions options;
        options.api_key = "sk-test-key";
        options.base_url = url + "/v1";
        options.server_state = server_state;
        options.extra_headers = std::move(headers);
        options.retry.max_retries = retries;
        options.retry.base_delay = std::chrono::milliseconds(1);
        return OpenAIResponsesProvider(std::move(options));
    }
    static AssistantMessage asked(const OpenAIResponsesProvider& from, std::string text,
                                  std::shared_ptr<const ToolDefinitions> tools = {}) {
        return ask(from.model("gpt-4.1"), std::move(text), std::move(tools));
    }
    static Message result_for(const ToolCall& call) {
        ToolResultMessage result;
        result.tool_call_id = call.id;
        result.tool_name = call.name;
        result.content.emplace_back(TextContent{"21.5"});
        return result;
    }
    /// A conversation in which the answer failed goes on.
    static void expect_next_prompt_works(const std::string& text, const AssistantMessage& failed) {
        MessageList messages{user_message(text), failed, user_message("hello")};
        const BoundModel model = provider().model("gpt-4.1");
        EXPECT_EQ(run(model.generate(messages)).text(), "Hello from the mock, nice to meet you.");
    }
};

TEST_F(AimockResponses, Text) {
    const AssistantMessage message = asked(provider(), "hello");
    EXPECT_EQ(message.text(), "Hello from the mock, nice to meet you.");
    EXPECT_EQ(message.stop_reason, "stop");
    EXPECT_FALSE(message.response_id.empty());
    const Json seen = journal();
    ASSERT_EQ(seen.as_array().size(), 1u);
    EXPECT_EQ(seen.at_pointer("/0/path"), Json("/v1/responses"));
    EXPECT_TRUE(seen.at_pointer("/0/headers").as_object().contains("authorization"));
}

TEST_F(AimockResponses, D13_ReasoningComesSealedAndGoesBack) {
    const OpenAIResponsesProvider openai = provider();
    const BoundModel model = openai.model("gpt-5.1");
    MessageList messages{user_message("think")};
    const AssistantMessage first = run(model.generate(messages));
    ASSERT_EQ(first.content.size(), 2u);
    const auto& thinking = std::get<ThinkingContent>(first.content[0]);
    EXPECT_EQ(thinking.thinking, "Let me see.");
    const Json* item = thinking.extra.find("reasoning_item");
    ASSERT_TRUE(item);
    EXPECT_TRUE(item->as_object().contains("encrypted_content"));
    messages.push_back(first);
    messages.push_back(user_message("hello"));
    const AssistantMessage second = run(model.generate(messages));
    EXPECT_EQ(second.stop_reason, "stop") << second.error_message.str();
}

TEST_F(AimockResponses, ToolsAndTheirResults) {
    const BoundModel model = provider().model("gpt-4.1");
    MessageList messages{user_message("weather in Paris?")};
    const AssistantMessage first = run(model.generate(messages, {}, weather_tool()));
    ASSERT_EQ(first.tool_calls().size(), 1u);
    EXPECT_TRUE(first.tool_calls()[0]->id.starts_with("call_w|fc"));
    EXPECT_EQ(first.tool_calls()[0]->arguments, JsonObject({{"city", "Paris"}}));
    EXPECT_EQ(first.stop_reason, "tool_use");
    messages.push_back(first);
    messages.push_back(result_for(*first.tool_calls()[0]));
    EXPECT_EQ(run(model.generate(messages, {}, weather_tool())).text(), "It is 21.5 degrees.");
}

TEST_F(AimockResponses, ParallelTools) {
    const AssistantMessage message = asked(provider(), "both", weather_tool());
    EXPECT_EQ(message.text(), "Doing both.");
    ASSERT_EQ(message.tool_calls().size(), 2u);
    EXPECT_EQ(message.tool_calls()[0]->arguments, JsonObject({{"city", "Paris"}}));
    EXPECT_EQ(message.tool_calls()[1]->arguments, JsonObject({{"city", "Oslo"}}));
}

TEST_F(AimockResponses, D57_GoesOnFromAResponseAndSendsAllWhenItIsNotKnown) {
    const BoundModel model = provider({}, 0, true).model("gpt-4.1");
    MessageList messages{user_message("weather in Paris?")};
    const AssistantMessage first = run(model.generate(messages, {}, weather_tool()));
    ASSERT_EQ(first.tool_calls().size(), 1u);
    messages.push_back(first);
    messages.push_back(result_for(*first.tool_calls()[0]));
    const AssistantMessage second = run(model.generate(messages, {}, weather_tool()));
    EXPECT_EQ(second.text(), "It is 21.5 degrees.");
    // The mock keeps no responses: to a result alone it says that it does not know what is meant.
    const Json seen = journal();
    ASSERT_EQ(seen.as_array().size(), 3u);
    EXPECT_EQ(seen.at_pointer("/1/response/status"), Json(404));
    EXPECT_EQ(seen.at_pointer("/2/response/status"), Json(200));
}

TEST_F(AimockResponses, D9_RateLimitWithRetryAfter) {
    const AssistantMessage message = asked(provider(), "limited");
    ASSERT_TRUE(message.error);
    EXPECT_EQ(message.error->type, "RateLimited");
    EXPECT_EQ(message.error->provider_code, "rate_limit_exceeded");
    EXPECT_EQ(message.error->retry_after, 7);
}

TEST_F(AimockResponses, D15_ServerErrorsAreRetried) {
    const AssistantMessage message = asked(provider({}, 2), "broken");
    ASSERT_TRUE(message.error);
    EXPECT_EQ(message.error->type, "ProviderUnavailable");
    EXPECT_EQ(journal().as_array().size(), 3u);
}

TEST_F(AimockResponses, D15_ChaosBeforeTheAnswer) {
    const AssistantMessage dropped = asked(provider({{"x-aimock-chaos-drop", "1"}}), "hello");
    EXPECT_EQ(dropped.error->status_code, 500);
    const AssistantMessage limited = asked(provider({{"x-aimock-chaos-ratelimit", "1"}}), "hello");
    EXPECT_EQ(limited.error->code, ErrorCode::rate_limited);
    const AssistantMessage malformed =
        asked(provider({{"x-aimock-chaos-malformed", "1"}}), "hello");
    EXPECT_EQ(malformed.error->code, ErrorCode::protocol);
    const AssistantMessage gone = asked(provider({{"x-aimock-chaos-disconnect", "1"}}, 1), "hello");
    EXPECT_EQ(gone.error->code, ErrorCode::disconnected);
    for (const AssistantMessage& failed : {dropped, limited, malformed, gone}) {
        EXPECT_TRUE(failed.content.empty());
        expect_next_prompt_works("x", failed);
    }
}

TEST_F(AimockResponses, D9_ATextTornAtEachEventIsKeptAsFarAsItCame) {
    const std::string whole = "abcdefghi abcdefghi abcdefghi abcdefghi abcdefghi abcdefghi ";
    std::size_t longest = 0;
    for (int n = 1; n <= 24; ++n) {
        SCOPED_TRACE(n);
        const std::string text = "torn text " + std::to_string(n) + ".";
        const AssistantMessage message = asked(provider(), text);
        if (message.stop_reason == "stop") {
            // All events had been sent.
            EXPECT_EQ(message.text(), whole);
            EXPECT_GT(n, 10);
            break;
        }
        ASSERT_TRUE(message.error);
        EXPECT_EQ(message.error->code, ErrorCode::disconnected);
        EXPECT_TRUE(whole.starts_with(message.text()));
        longest = std::max(longest, message.text().size());
        expect_next_prompt_works(text, message);
    }
    EXPECT_GT(longest, 0u);
}

TEST_F(AimockResponses, D4_ACallTornAtEachEventRunsNothingHalf) {
    bool whole = false;
    for (int n = 1; n <= 24 && !whole; ++n) {
        SCOPED_TRACE(n);
        const std::string text = "torn call " + std::to_string(n) + ".";
        const AssistantMessage message = asked(provider(), text, weather_tool());
        whole = message.stop_reason == "tool_use";
        for (const ToolCall* call : message.tool_calls()) {
            if (!call->arguments.empty()) {
                EXPECT_EQ(call->arguments, JsonObject({{"city", "Paris, France"}}));
            }
        }
        if (!whole) expect_next_prompt_works(text, message);
    }
    EXPECT_TRUE(whole);
}

TEST_F(AimockResponses, WhatTheEndpointDoesNotKnow) {
    const AssistantMessage message = asked(provider(), "nobody has written an answer to this");
    ASSERT_EQ(message.stop_reason, "error") << message.text();
    EXPECT_EQ(message.error->status_code, 404);
}

}  // namespace
}  // namespace cubepi::wire
