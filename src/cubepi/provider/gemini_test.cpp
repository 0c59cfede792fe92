#include <cubepi/provider/gemini.hpp>

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cubepi/core/message_json.hpp>
#include <cubepi/net/network_error.hpp>
#include <cubepi/schema/parse_json.hpp>

#include "test_streams.hpp"

namespace cubepi {
namespace {

using namespace std::chrono_literals;
using testing::MemoryResponse;

std::string chunk(const std::string& parts, const std::string& end = {}) {
    return R"({"candidates":[{"content":{"role":"model","parts":[)" + parts + "]}" + end +
           R"(}],"usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":2},"responseId":"r1"})";
}
const std::string stop = R"(,"finishReason":"STOP")";

MemoryResponse answer(const std::string& parts) {
    return MemoryResponse(200).with_event(chunk(parts)).with_event(chunk("", stop));
}
MemoryResponse refusal(int status, const std::string& kind, const std::string& text = "no") {
    return MemoryResponse(status, R"({"error":{"code":)" + std::to_string(status) +
                                      R"(,"message":")" + text + R"(","status":")" + kind +
                                      R"("}})")
        .with_header("content-type", "application/json");
}

/// A provider at a server in memory.
struct Fixture : MemoryEndpoint {
    explicit Fixture(std::vector<MemoryResponse> answers, GeminiOptions options = {})
        : MemoryEndpoint(std::move(answers)) {
        if (options.api_key.empty()) options.api_key = "AIza-secret";
        provider = std::make_shared<GeminiProvider>(std::move(options));
    }

    MessageStream stream(MessageList messages = {}, StreamOptions options = StreamOptions()) const {
        if (messages.empty()) messages.push_back(user_message("x"));
        return provider->model("gemini-3.8-flash")
            .stream(std::move(messages), {}, {}, std::move(options).runtime(runtime));
    }
    std::vector<StreamEvent> events(MessageList messages = {}) const {
        return read(stream(std::move(messages)));
    }
    AssistantMessage message(MessageList messages = {}) const {
        return events(std::move(messages)).back().partial.get();
    }

    std::shared_ptr<GeminiProvider> provider;
};

TEST(GeminiProvider, Call_SendsOneRequestAndStreamsTheAnswer) {
    Fixture it({answer(R"({"text":"Hi"})")});
    const auto events = it.events();
    EXPECT_EQ(spelled(events), "start text_start text_delta(Hi) text_end done");
    const AssistantMessage message = events.back().partial.get();
    EXPECT_EQ(message.provider_id, "gemini");
    EXPECT_EQ(message.model_id, "gemini-3.8-flash");
    EXPECT_EQ(message.response_id, "r1");
    ASSERT_EQ(it.transport->requests().size(), 1u);
    const HttpRequest request = it.transport->requests()[0];
    EXPECT_EQ(request.url,
              "https://generativelanguage.googleapis.com/v1beta/models/"
              "gemini-3.8-flash:streamGenerateContent?alt=sse");
    EXPECT_EQ(request.headers.get("x-goog-api-key"), "AIza-secret");
    EXPECT_EQ(it.transport->open_exchanges(), 0u);
}

TEST(GeminiProvider, BaseUrl_MayHavePathAndQuery) {
    Fixture it({answer(R"({"text":"Hi"})")},
               {.base_url = "https://gateway.example/google/?team=7"});
    it.message();
    EXPECT_EQ(it.transport->requests()[0].url,
              "https://gateway.example/google/v1beta/models/"
              "gemini-3.8-flash:streamGenerateContent?alt=sse&team=7");
}

TEST(GeminiProvider, MissingKey_IsACallErrorWithAdvice) {
    GeminiProvider provider{GeminiOptions()};
    MessageList messages{user_message("x")};
    const AssistantMessage message =
        run(provider.model("gemini-3.8-flash").generate(std::move(messages)));
    EXPECT_EQ(message.error->code, ErrorCode::auth);
    EXPECT_NE(message.error_message.str().find("GEMINI_API_KEY"), std::string::npos);
    EXPECT_THROW(GeminiProvider({.base_url = "googleapis.com"}), Error);
}

TEST(GeminiProvider, D13_StoredAnswer_IsSentBackWithItsSignatures) {
    const std::string parts =
        R"({"text":"Hm","thought":true},{"text":"So","thoughtSignature":"a/+="},)"
        R"({"functionCall":{"id":"c1","name":"f","args":{"x":1.5}},"thoughtSignature":"b="})";
    Fixture it({answer(parts), answer(R"({"text":"Bye"})")});
    const Message first = it.message();
    // As it comes back from a store.
    const Message loaded = message_from_json(parse_json(boost::json::serialize(to_json(first))));
    EXPECT_EQ(it.message({user_message("x"), loaded, user_message("y")}).text(), "Bye");
    const Json sent = parse_json(it.transport->requests()[1].body);
    EXPECT_EQ(sent.at_pointer("/contents/1/parts"), parse_json(R"([
        {"text": "So", "thoughtSignature": "a/+="},
        {"functionCall": {"id": "c1", "name": "f", "args": {"x": 1.5}},
         "thoughtSignature": "b="}])"));
}

TEST(GeminiProvider, D89_RefusedSignature_IsRetriedWithout) {
    Fixture it({refusal(400, "INVALID_ARGUMENT", "Thought signature is not valid."),
                answer(R"({"text":"Hi"})")});
    AssistantMessage earlier;
    ToolCall call;
    call.id = "c1";
    call.name = "f";
    call.extra["gemini_members"] = JsonObject{{"thoughtSignature", "old"}};
    earlier.content.emplace_back(call);
    earlier.provider_id = "gemini";
    EXPECT_EQ(it.message({user_message("x"), earlier, user_message("y")}).text(), "Hi");
    EXPECT_EQ(it.transport->requests()[1].body.find("\"old\""), std::string::npos);
}

TEST(GeminiProvider, D9_Failures_KeepTheirCodes) {
    const auto failure = [](MemoryResponse response) {
        Fixture it({std::move(response)}, {.retry = {.max_retries = 0}});
        return *it.message().error;
    };
    EXPECT_EQ(failure(refusal(401, "UNAUTHENTICATED")).type, "ProviderAuthFailed");
    EXPECT_EQ(
        failure(refusal(400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key."))
            .type,
        "ProviderAuthFailed");
    EXPECT_EQ(failure(refusal(403, "PERMISSION_DENIED")).type, "ProviderBadRequest");
    EXPECT_EQ(
        failure(refusal(404, "NOT_FOUND", "models/x is not found for API version v1beta")).type,
        "ModelNotFound");
    EXPECT_EQ(failure(refusal(429, "RESOURCE_EXHAUSTED")).type, "RateLimited");
    EXPECT_EQ(failure(refusal(503, "UNAVAILABLE")).type, "ProviderUnavailable");
    EXPECT_EQ(failure(refusal(400, "INVALID_ARGUMENT",
                              "The input token count (1200000) exceeds the maximum number of "
                              "tokens allowed (1048576)."))
                  .type,
              "ContextLengthExceeded");
}

TEST(GeminiProvider, D15_ErrorInStreamBeforeContent_IsRetried) {
    MemoryResponse overloaded = MemoryResponse(200).with_event(
        R"({"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}})");
    Fixture it({std::move(overloaded), answer(R"({"text":"Hi"})")});
    EXPECT_EQ(spelled(it.events()), "notice(retry) start text_start text_delta(Hi) text_end done");
}

TEST(GeminiProvider, D7_Abort_KeepsTheText) {
    std::stop_source stopping;
    Fixture it({MemoryResponse(200)
                    .with_event(chunk(R"({"text":"Hal"})"))
                    .with_call([&stopping] { stopping.request_stop(); })
                    .with_stall()});
    const auto events = testing::run_advancing(
        *it.clock, read_all(it.stream({}, StreamOptions().stop_token(stopping.get_token()))));
    const AssistantMessage message = events.back().partial.get();
    EXPECT_EQ(message.stop_reason, "aborted");
    EXPECT_EQ(message.text(), "Hal");
    EXPECT_EQ(message.response_id, "");
}

TEST(GeminiProvider, D58_ErrorText_NeverContainsTheKey) {
    Fixture it({refusal(401, "UNAUTHENTICATED", "API key AIza-secret is not valid")});
    EXPECT_EQ(it.message().error_message.str().find("AIza-secret"), std::string::npos);
}

TEST(GeminiProvider, ResponseFormat_IsTakenByVersionThree) {
    const GeminiProvider own({.api_key = "k"});
    Model model;
    model.id = "gemini-3.8-flash";
    EXPECT_TRUE(own.takes_response_format(model));
    EXPECT_FALSE(GeminiProvider({.base_url = "http://box:1"}).takes_response_format(model));
    model.id = "gemini-2.5-pro";
    EXPECT_FALSE(own.takes_response_format(model));
}

TEST(GeminiProvider, EnvironmentVariables_MakeAModel) {
    setenv("GEMINI_BASE_URL", "localhost:8080", 1);
    EXPECT_THROW(gemini_model("m"), Error);
    unsetenv("GEMINI_BASE_URL");
    EXPECT_EQ(gemini_model("m").spec().id, "m");
}

}  // namespace
}  // namespace cubepi
