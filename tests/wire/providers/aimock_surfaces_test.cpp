#include <algorithm>

#include <cubepi/provider/anthropic.hpp>
#include <cubepi/provider/openai.hpp>
#include <cubepi/provider/openai_responses.hpp>

#include "aimock.hpp"

// Common features of every protocol and every compatible surface of aimock (OpenRouter's and BytePlus Ark's differ from
// OpenAI's by path, and OpenRouter's by the form of ids, usage and errors).

namespace cubepi::wire {
namespace {

struct Surface {
    std::string name;
    std::string provider;
    std::string path;
    std::string model;
    std::string limited;  ///< the endpoint's own name for a rate limit
    BoundModel (*bind)(const Surface& surface, const std::string& url, Given given);
};

template <class Provider, class Options>
BoundModel bound(const Surface& surface, const std::string& url, Given given) {
    Options options = options_for<Options>(url + surface.path, std::move(given));
    options.provider_id = surface.provider;
    return Provider(std::move(options)).model(surface.model);
}

class Aimock : public AimockTest, public ::testing::WithParamInterface<Surface> {
protected:
    static BoundModel model(Given given = {}) {
        return GetParam().bind(GetParam(), url, std::move(given));
    }
    static BoundModel with_retries(int retries) {
        Given given;
        given.retries = retries;
        return model(std::move(given));
    }
    /// Requests one of aimock's own failures.
    static AssistantMessage struck_by(const char* header) {
        Given given;
        given.headers = {{header, "1"}};
        return ask(model(std::move(given)), "hello");
    }
    /// Checks that a conversation continues after a failed answer.
    static void expect_next_prompt_works(const std::string& text, const AssistantMessage& failed) {
        MessageList messages{user_message(text), failed, user_message("hello")};
        EXPECT_EQ(run(model().generate(messages)).text(), "Hello from the mock, nice to meet you.");
    }
};

TEST_P(Aimock, Text) {
    const AssistantMessage message = ask(model(), "hello");
    EXPECT_EQ(message.text(), "Hello from the mock, nice to meet you.");
    EXPECT_EQ(message.stop_reason, "stop");
    EXPECT_EQ(message.provider_id, GetParam().provider);
    EXPECT_FALSE(message.response_id.empty());
    ASSERT_TRUE(message.usage);
    EXPECT_TRUE(message.usage->output_tokens);  // the mock says 0 for some
    const Json seen = journal();
    ASSERT_EQ(seen.as_array().size(), 1u);
    EXPECT_EQ(seen.at_pointer("/0/body/model"), Json(GetParam().model));
}

TEST_P(Aimock, Thinking) {
    const AssistantMessage message = ask(model(), "think");
    ASSERT_EQ(message.content.size(), 2u);
    EXPECT_EQ(std::get<ThinkingContent>(message.content[0]).thinking, "Let me see.");
    EXPECT_EQ(message.text(), "Yes.");
}

TEST_P(Aimock, ToolsAndTheirResults) {
    MessageList messages{user_message("weather in Paris?")};
    const AssistantMessage asked = run(model().generate(messages, {}, weather_tool()));
    ASSERT_EQ(asked.tool_calls().size(), 1u);
    EXPECT_TRUE(asked.tool_calls()[0]->id.str().starts_with("call_w"));
    EXPECT_EQ(asked.tool_calls()[0]->arguments, JsonObject({{"city", "Paris"}}));
    EXPECT_EQ(asked.stop_reason, "tool_use");
    messages.push_back(asked);
    messages.push_back(weather_result(*asked.tool_calls()[0]));
    EXPECT_EQ(run(model().generate(messages, {}, weather_tool())).text(), "It is 21.5 degrees.");
}

TEST_P(Aimock, ParallelTools) {
    const AssistantMessage message = ask(model(), "both", weather_tool());
    EXPECT_EQ(message.text(), "Doing both.");
    ASSERT_EQ(message.tool_calls().size(), 2u);
    EXPECT_EQ(message.tool_calls()[0]->arguments, JsonObject({{"city", "Paris"}}));
    EXPECT_EQ(message.tool_calls()[1]->arguments, JsonObject({{"city", "Oslo"}}));
}

TEST_P(Aimock, D9_RateLimitWithRetryAfter) {
    const AssistantMessage message = ask(model(), "limited");
    ASSERT_TRUE(message.error);
    EXPECT_EQ(message.error->type, "RateLimited");
    EXPECT_EQ(message.error->code, ErrorCode::rate_limited);
    EXPECT_EQ(message.error->provider_code, GetParam().limited);
    EXPECT_EQ(message.error->retry_after, 7);
    EXPECT_EQ(message.error->status_code, 429);
}

TEST_P(Aimock, D15_ServerErrorsAreRetried) {
    const AssistantMessage message = ask(with_retries(2), "broken");
    ASSERT_TRUE(message.error);
    EXPECT_EQ(message.error->type, "ProviderUnavailable");
    EXPECT_EQ(message.error->code, ErrorCode::unavailable);
    EXPECT_EQ(journal().as_array().size(), 3u);
}

TEST_P(Aimock, D15_ChaosBeforeTheAnswer) {
    const std::pair<const char*, ErrorCode> failures[] = {
        {"x-aimock-chaos-drop", ErrorCode::unavailable},
        {"x-aimock-chaos-ratelimit", ErrorCode::rate_limited},
        {"x-aimock-chaos-malformed", ErrorCode::protocol},
        {"x-aimock-chaos-disconnect", ErrorCode::disconnected},
    };
    for (const auto& [header, code] : failures) {
        SCOPED_TRACE(header);
        const AssistantMessage failed = struck_by(header);
        ASSERT_TRUE(failed.error);
        EXPECT_EQ(failed.error->code, code);
        EXPECT_TRUE(failed.content.empty());
        expect_next_prompt_works("hello", failed);
    }
}

TEST_P(Aimock, D9_ADisconnectInMidStreamPreservesTheText) {
    const AssistantMessage message = ask(with_retries(2), "cut");
    ASSERT_EQ(message.stop_reason, "error") << message.text();
    ASSERT_TRUE(message.error);
    EXPECT_EQ(message.error->code, ErrorCode::disconnected);
    EXPECT_EQ(message.error->type, "ProviderUnavailable");
    EXPECT_FALSE(message.text().empty());
    EXPECT_EQ(journal().as_array().size(), 1u);
    expect_next_prompt_works("cut", message);
}

TEST_P(Aimock, D9_StoresATruncatedText) {
    const std::string whole = "abcdefghi abcdefghi abcdefghi abcdefghi abcdefghi abcdefghi ";
    std::size_t longest = 0;
    for (int n = 1; n <= 24; ++n) {
        SCOPED_TRACE(n);
        const std::string text = "torn text " + std::to_string(n) + ".";
        const AssistantMessage message = ask(model(), text);
        if (message.stop_reason == "stop") {
            // All events had been sent, six with text among them.
            EXPECT_EQ(message.text(), whole);
            EXPECT_GT(n, 6);
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

TEST_P(Aimock, D4_DoesNotRunATruncatedCall) {
    bool whole = false;
    for (int n = 1; n <= 24 && !whole; ++n) {
        SCOPED_TRACE(n);
        const std::string text = "torn call " + std::to_string(n) + ".";
        const AssistantMessage message = ask(model(), text, weather_tool());
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

TEST_P(Aimock, UnknownFeaturesOfTheEndpoint) {
    const AssistantMessage message = ask(model(), "there is no answer to this");
    ASSERT_EQ(message.stop_reason, "error") << message.text();
    EXPECT_EQ(message.error->status_code, 404);
    EXPECT_TRUE(message.content.empty());
}

constexpr auto chat = &bound<OpenAIProvider, OpenAIOptions>;
constexpr auto responses = &bound<OpenAIResponsesProvider, OpenAIResponsesOptions>;
constexpr auto anthropic = &bound<AnthropicProvider, AnthropicOptions>;

INSTANTIATE_TEST_SUITE_P(
    Surfaces, Aimock,
    ::testing::Values(
        Surface{"chat", "openai", "/v1", "gpt-4.1", "rate_limit_exceeded", chat},
        Surface{"responses", "openai", "/v1", "gpt-4.1", "rate_limit_exceeded", responses},
        Surface{"anthropic", "anthropic", "", "claude-sonnet-4-5", "rate_limit_error", anthropic},
        Surface{"openrouter", "openrouter", "/api/v1", "openai/gpt-4.1", "429", chat},
        Surface{"ark", "ark", "/api/v3", "doubao-seed-1-6", "rate_limit_exceeded", chat}),
    [](const ::testing::TestParamInfo<Surface>& info) { return info.param.name; });

}  // namespace
}  // namespace cubepi::wire
