// All providers against the third-party mock @copilotkit/aimock, which implements their protocols: real HTTP on loopback. Its journal
// records requests.

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/core/run.hpp>
#include <cubepi/net/http_client.hpp>
#include <cubepi/provider/anthropic.hpp>
#include <cubepi/provider/openai.hpp>
#include <cubepi/provider/openai_images.hpp>
#include <cubepi/provider/openai_responses.hpp>
#include <cubepi/provider/provider.hpp>

#include "../net/child_process.hpp"
#include "source_tree.hpp"

namespace cubepi::wire {
namespace {

std::string mocks_directory() {
    const char* given = std::getenv("CUBEPI_MOCKS_DIR");
    return given ? given : cubepi::testing::source_path("tools/mocks");
}

/// The configuration of a test's provider.
struct Given {
    std::vector<std::pair<std::string, std::string>> headers = {};
    int retries = 0;
};

template <class Options>
Options options_for(std::string base_url, Given given) {
    Options options;
    options.api_key = "sk-test-key";
    options.base_url = std::move(base_url);
    options.extra_headers = std::move(given.headers);
    options.retry.max_retries = given.retries;
    options.retry.base_delay = std::chrono::milliseconds(1);
    return options;
}

/// One server for all tests of a suite. Its answers are in aimock_server.mjs.
class AimockTest : public ::testing::Test {
protected:
    static void SetUpTestSuite() {
        const std::string script =
            cubepi::testing::source_path("tests/wire/providers/aimock_server.mjs");
        server = std::make_unique<ChildProcess>(
            std::vector<std::string>{"node", script, mocks_directory()});
        const std::string line = server->read_line();
        ASSERT_FALSE(line.empty())
            << "aimock did not start: run tools/setup, which installs it in tools/mocks";
        url = std::string(boost::json::parse(line).at("url").as_string());
    }
    static void TearDownTestSuite() { server.reset(); }

    void SetUp() override { control("POST", "/__aimock/reset/journal"); }

    static Json control(const std::string& method, const std::string& path) {
        HttpRequest request(method, url + path);
        const auto exchange = [](HttpRequest asked) -> Task<std::string> {
            HttpClient client;
            HttpResponse response = co_await client.send(std::move(asked));
            std::string body;
            for (bool more = true; more;) more = co_await response.body->read(body);
            co_return body;
        };
        const std::string body = run(exchange(std::move(request)));
        boost::json::error_code ignored;
        return boost::json::parse(body, ignored);
    }

    static Json journal() { return control("GET", "/__aimock/journal"); }

    static AssistantMessage ask(const BoundModel& model, std::string text,
                                std::shared_ptr<const ToolDefinitions> tools = {}) {
        MessageList messages{user_message(std::move(text))};
        return run(model.generate(std::move(messages), "Be brief.", std::move(tools)));
    }

    static std::shared_ptr<const ToolDefinitions> weather_tool() {
        ToolDefinition tool;
        tool.name = "weather";
        tool.description = "Weather of a city.";
        tool.parameters = std::make_shared<const Json>(boost::json::parse(
            R"({"type":"object","properties":{"city":{"type":"string"}},"required":["city"]})"));
        ToolDefinitions tools;
        tools.push_back(std::move(tool));
        return std::make_shared<const ToolDefinitions>(std::move(tools));
    }

    static Message weather_result(const ToolCall& call) {
        ToolResultMessage result;
        result.tool_call_id = call.id;
        result.tool_name = "weather";
        result.content.emplace_back(TextContent{"21.5"});
        return result;
    }

    static inline std::unique_ptr<ChildProcess> server;
    static inline std::string url;
};

// Common features of every protocol and every compatible surface of aimock (OpenRouter's and BytePlus Ark's differ from
// OpenAI's by path, and OpenRouter's by the form of ids, usage and errors).

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

TEST_P(Aimock, Prompt_ReturnsText) {
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

TEST_P(Aimock, ThinkingModel_ReturnsThinkingAndText) {
    const AssistantMessage message = ask(model(), "think");
    ASSERT_EQ(message.content.size(), 2u);
    EXPECT_EQ(std::get<ThinkingContent>(message.content[0]).thinking, "Let me see.");
    EXPECT_EQ(message.text(), "Yes.");
}

TEST_P(Aimock, ToolResult_ContinuesTheConversation) {
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

TEST_P(Aimock, ParallelTools_AreAllCalled) {
    const AssistantMessage message = ask(model(), "both", weather_tool());
    EXPECT_EQ(message.text(), "Doing both.");
    ASSERT_EQ(message.tool_calls().size(), 2u);
    EXPECT_EQ(message.tool_calls()[0]->arguments, JsonObject({{"city", "Paris"}}));
    EXPECT_EQ(message.tool_calls()[1]->arguments, JsonObject({{"city", "Oslo"}}));
}

TEST_P(Aimock, D9_RateLimit_ReportsRetryAfter) {
    const AssistantMessage message = ask(model(), "limited");
    ASSERT_TRUE(message.error);
    EXPECT_EQ(message.error->type, "RateLimited");
    EXPECT_EQ(message.error->code, ErrorCode::rate_limited);
    EXPECT_EQ(message.error->provider_code, GetParam().limited);
    EXPECT_EQ(message.error->retry_after, 7);
    EXPECT_EQ(message.error->status_code, 429);
}

TEST_P(Aimock, D15_ServerErrors_AreRetried) {
    const AssistantMessage message = ask(with_retries(2), "broken");
    ASSERT_TRUE(message.error);
    EXPECT_EQ(message.error->type, "ProviderUnavailable");
    EXPECT_EQ(message.error->code, ErrorCode::unavailable);
    EXPECT_EQ(journal().as_array().size(), 3u);
}

TEST_P(Aimock, D15_ChaosBeforeAnswer_FailsWithItsCode) {
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

TEST_P(Aimock, D9_DisconnectInMidStream_PreservesTheText) {
    const AssistantMessage message = ask(with_retries(2), "cut");
    ASSERT_EQ(message.stop_reason, "error") << message.text();
    ASSERT_TRUE(message.error);
    EXPECT_EQ(message.error->code, ErrorCode::disconnected);
    EXPECT_EQ(message.error->type, "ProviderUnavailable");
    EXPECT_FALSE(message.text().empty());
    EXPECT_EQ(journal().as_array().size(), 1u);
    expect_next_prompt_works("cut", message);
}

TEST_P(Aimock, D9_TruncatedText_IsStored) {
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

TEST_P(Aimock, D4_TruncatedCall_DoesNotRun) {
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

TEST_P(Aimock, UnknownPrompt_FailsWithStatus404) {
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

// Features of one protocol.

class AimockAnthropic : public AimockTest {
protected:
    static BoundModel model() {
        return AnthropicProvider(options_for<AnthropicOptions>(url, {})).model("claude-sonnet-4-5");
    }
};

TEST_F(AimockAnthropic, KeyAndVersion_AreHeaders) {
    EXPECT_EQ(ask(model(), "hello").stop_reason, "stop");
    const Json seen = journal();
    EXPECT_EQ(seen.at_pointer("/0/path"), Json("/v1/messages"));
    EXPECT_TRUE(seen.at_pointer("/0/headers").as_object().contains("x-api-key"));
    EXPECT_EQ(seen.at_pointer("/0/headers/anthropic-version"), Json("2023-06-01"));
}

TEST_F(AimockAnthropic, D13_Thinking_IsSentBack) {
    const AssistantMessage answer = ask(model(), "think");
    ASSERT_EQ(answer.content.size(), 2u);
    MessageList messages{user_message("think"), answer, user_message("hello")};
    EXPECT_EQ(run(model().generate(std::move(messages))).stop_reason, "stop");
}

class AimockChat : public AimockTest {
protected:
    static BoundModel model() {
        return OpenAIProvider(options_for<OpenAIOptions>(url + "/v1", {})).model("gpt-4.1");
    }
};

TEST_F(AimockChat, D14_UnconfiguredParameters_AreNotSent) {
    EXPECT_EQ(ask(model(), "hello").stop_reason, "stop");
    const Json seen = journal();
    const Json& body = seen.at_pointer("/0/body");
    EXPECT_EQ(body.at_pointer("/messages/0"),
              boost::json::parse(R"({"role":"system","content":"Be brief."})"));
    EXPECT_EQ(body.at_pointer("/stream_options/include_usage"), Json(true));
    EXPECT_FALSE(body.as_object().contains("temperature"));
    EXPECT_FALSE(body.as_object().contains("max_tokens"));
    // The journal of a mock may mask it, but it must have been present.
    EXPECT_TRUE(seen.at_pointer("/0/headers").as_object().contains("authorization"));
}

TEST_F(AimockChat, Results_FollowTheirCall) {
    MessageList messages{user_message("weather in Paris?")};
    messages.push_back(run(model().generate(messages, {}, weather_tool())));
    const std::vector<const ToolCall*> calls = messages.back().assistant()->tool_calls();
    ASSERT_EQ(calls.size(), 1u);
    messages.push_back(weather_result(*calls[0]));
    EXPECT_EQ(run(model().generate(messages, {}, weather_tool())).stop_reason, "stop");
    const Json second = journal().at_pointer("/1/body");
    EXPECT_EQ(second.at_pointer("/messages/1/tool_calls/0/id"), Json("call_w"));
    EXPECT_EQ(second.at_pointer("/messages/2"),
              boost::json::parse(R"({"role":"tool","tool_call_id":"call_w","content":"21.5"})"));
    EXPECT_EQ(second.at_pointer("/tools/0/function/name"), Json("weather"));
}

class AimockResponses : public AimockTest {
protected:
    static BoundModel model(std::string id = "gpt-4.1", bool server_state = false) {
        auto options = options_for<OpenAIResponsesOptions>(url + "/v1", {});
        options.server_state = server_state;
        return OpenAIResponsesProvider(std::move(options)).model(id);
    }
};

TEST_F(AimockResponses, Key_IsAHeader) {
    EXPECT_EQ(ask(model(), "hello").stop_reason, "stop");
    const Json seen = journal();
    EXPECT_EQ(seen.at_pointer("/0/path"), Json("/v1/responses"));
    EXPECT_TRUE(seen.at_pointer("/0/headers").as_object().contains("authorization"));
}

TEST_F(AimockResponses, D13_SealedReasoning_IsSentBack) {
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

TEST_F(AimockResponses, Call_HasTwoIds) {
    const AssistantMessage message = ask(model(), "weather in Paris?", weather_tool());
    ASSERT_EQ(message.tool_calls().size(), 1u);
    EXPECT_TRUE(message.tool_calls()[0]->id.str().starts_with("call_w|fc"));
}

TEST_F(AimockResponses, D57_UnknownResponse_SendsTheWholeHistory) {
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

class AimockImages : public AimockTest {
protected:
    static OpenAIImagesProvider images() {
        OpenAIImagesOptions options;
        options.api_key = "sk-test";
        options.base_url = url + "/v1";
        options.retry.base_delay = std::chrono::milliseconds(1);
        return OpenAIImagesProvider(std::move(options));
    }
    static AssistantImages draw(ImagesContext context, ImagesOptions options = {}) {
        OpenAIImagesProvider provider = images();
        return run(provider.generate_images(provider.model("gpt-image-2"), std::move(context),
                                            std::move(options)));
    }
    static ImagesContext prompt(std::string text) {
        ImagesContext context;
        context.prompt = std::move(text);
        return context;
    }
};

TEST_F(AimockImages, Prompt_CreatesAnImage) {
    const AssistantImages drawn = draw(prompt("teapot"));
    ASSERT_EQ(drawn.images().size(), 2U);
    EXPECT_EQ(drawn.images()[0]->source, "QUJD");
    EXPECT_EQ(drawn.images()[1]->source, "https://cdn.example/2.png");
    const Json calls = journal();
    ASSERT_EQ(calls.as_array().size(), 1U);
    EXPECT_EQ(calls.as_array()[0].at("path"), Json("/v1/images/generations"));
}

TEST_F(AimockImages, InputImage_IsEdited) {
    ImagesContext context = prompt("teapot");
    context.input_images.push_back(ImageContent{.source = "QUJD", .media_type = "image/png"});
    EXPECT_EQ(draw(std::move(context)).images().size(), 2U);
    EXPECT_EQ(journal().as_array().at(0).at("path"), Json("/v1/images/edits"));
}

TEST_F(AimockImages, D15_RateLimits_AreTypedAndRetried) {
    int retries = 0;
    ImagesOptions options = ImagesOptions().on_event(
        [&](const ImagesEvent& event) { retries += event.notice.code == "retry" ? 1 : 0; });
    OpenAIImagesOptions patient;
    patient.api_key = "sk-test";
    patient.base_url = url + "/v1";
    patient.retry.max_retries = 0;
    OpenAIImagesProvider provider(std::move(patient));
    try {
        run(provider.generate_images(provider.model("m"), prompt("no paint"), options));
        FAIL() << "no failure";
    } catch (const ProviderError& error) {
        EXPECT_EQ(error.code(), ErrorCode::rate_limited) << error.what();
    }
    EXPECT_EQ(retries, 0);
    EXPECT_THROW(draw(prompt("spilt"), options), ProviderError);
    EXPECT_EQ(retries, 2);
}

}  // namespace
}  // namespace cubepi::wire
