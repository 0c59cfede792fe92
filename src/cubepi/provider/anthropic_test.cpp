#include <cubepi/provider/anthropic.hpp>

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

const std::string begin_event =
    R"({"type":"message_start","message":{"id":"msg_1","usage":{"input_tokens":3,"output_tokens":1}}})";
std::string start_event(const std::string& block, int index = 0) {
    return R"({"type":"content_block_start","index":)" + std::to_string(index) +
           R"(,"content_block":)" + block + "}";
}
std::string delta_event(const std::string& members, int index = 0) {
    return R"({"type":"content_block_delta","index":)" + std::to_string(index) + R"(,"delta":{)" +
           members + "}}";
}
std::string text_event(const std::string& text, int index = 0) {
    return delta_event(R"("type":"text_delta","text":")" + text + "\"", index);
}
const std::string ping_event = R"({"type":"ping"})";
const std::string end_event =
    R"({"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}})";
const std::string stop_event = R"({"type":"message_stop"})";

MemoryResponse answer(const std::string& text) {
    return MemoryResponse(200)
        .with_event(begin_event)
        .with_event(start_event(R"({"type":"text","text":""})"))
        .with_event(text_event(text))
        .with_event(R"({"type":"content_block_stop","index":0})")
        .with_event(end_event)
        .with_event(stop_event);
}
MemoryResponse refusal(int status, const std::string& kind, const std::string& text = "no") {
    return MemoryResponse(status, R"({"type":"error","error":{"type":")" + kind +
                                      R"(","message":")" + text + R"("},"request_id":"req_1"})")
        .with_header("content-type", "application/json");
}

/// A provider at a server in memory.
struct Fixture : MemoryEndpoint {
    explicit Fixture(std::vector<MemoryResponse> answers, AnthropicOptions options = {})
        : MemoryEndpoint(std::move(answers)) {
        if (options.api_key.empty() && options.auth_token.empty())
            options.api_key = "sk-ant-secret";
        provider = std::make_shared<AnthropicProvider>(std::move(options));
    }

    MessageStream stream(MessageList messages = {}, StreamOptions options = StreamOptions()) const {
        if (messages.empty()) messages.push_back(user_message("x"));
        return provider->model("claude-sonnet-4-5")
            .stream(std::move(messages), {}, {}, std::move(options).runtime(runtime));
    }
    std::vector<StreamEvent> events(MessageList messages = {}) const {
        return read(stream(std::move(messages)));
    }
    AssistantMessage message(MessageList messages = {}) const {
        return events(std::move(messages)).back().partial.get();
    }

    std::shared_ptr<AnthropicProvider> provider;
};

TEST(AnthropicProvider, Call_SendsOneRequestAndStreamsTheAnswer) {
    Fixture it({answer("Hi")});
    const auto events = it.events();
    EXPECT_EQ(spelled(events), "start text_start text_delta(Hi) text_end done");
    const AssistantMessage message = events.back().partial.get();
    EXPECT_EQ(message.provider_id, "anthropic");
    EXPECT_EQ(message.model_id, "claude-sonnet-4-5");
    EXPECT_EQ(message.response_id, "msg_1");
    EXPECT_TRUE(message.timestamp);
    ASSERT_EQ(it.transport->requests().size(), 1u);
    const HttpRequest request = it.transport->requests()[0];
    EXPECT_EQ(request.url, "https://api.anthropic.com/v1/messages");
    EXPECT_EQ(request.headers.get("x-api-key"), "sk-ant-secret");
    EXPECT_EQ(request.headers.get("anthropic-version"), "2023-06-01");
    EXPECT_FALSE(request.headers.find("anthropic-beta"));
    EXPECT_FALSE(request.headers.find("authorization"));
    EXPECT_EQ(it.transport->open_exchanges(), 0u);
}

TEST(AnthropicProvider, Gateway_GetsTokensBetasAndPaths) {
    Fixture it({answer("Hi")}, {.auth_token = "tok-secret",
                                .base_url = "https://gateway.example/anthropic/v1/",
                                .provider_id = "gateway",
                                .betas = {"one-2026-01-01", "two-2026-01-01"},
                                .extra_headers = {{"x-team", "7"}}});
    EXPECT_EQ(it.message().provider_id, "gateway");
    const HttpRequest request = it.transport->requests()[0];
    EXPECT_EQ(request.url, "https://gateway.example/anthropic/v1/messages");
    EXPECT_EQ(request.headers.get("authorization"), "Bearer tok-secret");
    EXPECT_FALSE(request.headers.find("x-api-key"));
    EXPECT_EQ(request.headers.get("anthropic-beta"), "one-2026-01-01,two-2026-01-01");
    EXPECT_EQ(request.headers.get("x-team"), "7");
}

TEST(AnthropicProvider, MissingKey_IsACallErrorWithAdvice) {
    AnthropicProvider provider{AnthropicOptions()};
    MessageList messages{user_message("x")};
    const AssistantMessage message =
        run(provider.model("claude-sonnet-4-5").generate(std::move(messages)));
    EXPECT_EQ(message.error->code, ErrorCode::auth);
    EXPECT_NE(message.error_message.str().find("ANTHROPIC_API_KEY"), std::string::npos);
    EXPECT_THROW(AnthropicProvider({.base_url = "api.anthropic.com"}), Error);
}

TEST(AnthropicProvider, D13_StoredThinking_IsSentBack) {
    MemoryResponse thinking =
        MemoryResponse(200)
            .with_event(begin_event)
            .with_event(start_event(R"({"type":"redacted_thinking","data":"EmwK/+="})"))
            .with_event(R"({"type":"content_block_stop","index":0})")
            .with_event(start_event(R"({"type":"thinking","thinking":"","signature":""})", 1))
            .with_event(delta_event(R"("type":"thinking_delta","thinking":" H\u00e4m\n ")", 1))
            .with_event(delta_event(R"("type":"signature_delta","signature":"Eq/+=\u003d")", 1))
            .with_event(R"({"type":"content_block_stop","index":1})")
            .with_event(start_event(R"({"type":"text","text":""})", 2))
            .with_event(text_event("Ok", 2))
            .with_event(end_event)
            .with_event(stop_event);
    Fixture it({std::move(thinking), answer("Bye")});
    const Message first = it.message();
    // As it comes back from a store.
    const Message loaded = message_from_json(parse_json(boost::json::serialize(to_json(first))));
    EXPECT_EQ(it.message({user_message("x"), loaded, user_message("y")}).text(), "Bye");
    const Json sent = parse_json(it.transport->requests()[1].body);
    EXPECT_EQ(sent.at_pointer("/messages/1/content"), parse_json(R"([
        {"type": "redacted_thinking", "data": "EmwK/+="},
        {"type": "thinking", "thinking": " H\u00e4m\n ", "signature": "Eq/+=="},
        {"type": "text", "text": "Ok"}])"));
}

TEST(AnthropicProvider, D9_Failures_KeepTheirCodes) {
    const auto failure = [](MemoryResponse response) {
        Fixture it({std::move(response)}, {.retry = {.max_retries = 0}});
        return *it.message().error;
    };
    EXPECT_EQ(failure(refusal(401, "authentication_error")).type, "ProviderAuthFailed");
    EXPECT_EQ(failure(refusal(401, "authentication_error")).provider_code, "authentication_error");
    EXPECT_EQ(failure(refusal(400, "invalid_request_error")).provider_code, "");
    EXPECT_EQ(failure(refusal(400, "invalid_request_error")).type, "ProviderBadRequest");
    EXPECT_EQ(failure(refusal(404, "not_found_error", "model: claude-9 not found")).type,
              "ModelNotFound");
    EXPECT_EQ(failure(refusal(529, "overloaded_error")).type, "ProviderUnavailable");
    const ErrorInfo full = failure(refusal(400, "invalid_request_error",
                                           "prompt is too long: 210000 tokens > 200000 maximum"));
    EXPECT_EQ(full.type, "ContextLengthExceeded");
    EXPECT_EQ(full.context_window, 200000);
}

TEST(AnthropicProvider, D15_ErrorBeforeContent_IsRetried) {
    MemoryResponse overloaded =
        MemoryResponse(200)
            .with_event(begin_event)
            .with_event(
                R"({"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}})");
    Fixture it({refusal(529, "overloaded_error"), std::move(overloaded), answer("Hi")});
    EXPECT_EQ(spelled(it.events()),
              "notice(retry) start notice(retry) text_start text_delta(Hi) text_end done");
    EXPECT_EQ(it.transport->requests().size(), 3u);
}

TEST(AnthropicProvider, D15_ErrorAfterContent_IsNotRetried) {
    Fixture it({MemoryResponse(200)
                    .with_event(begin_event)
                    .with_event(start_event(R"({"type":"text","text":""})"))
                    .with_event(text_event("Hal"))
                    .with_failure(NetworkError(ErrorCode::disconnected, "h", true, "reset"))});
    const AssistantMessage message = it.message();
    EXPECT_EQ(message.text(), "Hal");
    EXPECT_EQ(message.error->code, ErrorCode::disconnected);
    EXPECT_EQ(*message.usage->input_tokens, 3);
    EXPECT_EQ(it.transport->requests().size(), 1u);
}

TEST(AnthropicProvider, D16_Pings_AreNotContent) {
    MemoryResponse response = MemoryResponse(200).with_event(begin_event);
    for (int i = 0; i < 8; ++i)
        response = MemoryResponse(response).with_delay(20s).with_event(ping_event);
    Fixture it({MemoryResponse(response).with_stall()},
               {.retry = {.max_retries = 0}, .idle_timeout = 90s});
    const AssistantMessage message = it.message();
    EXPECT_EQ(message.error->code, ErrorCode::timeout);
    EXPECT_NE(message.error_message.str().find("idle timeout"), std::string::npos);
}

TEST(AnthropicProvider, D7_D34_Abort_KeepsTheTextAndDropsOpenCalls) {
    std::stop_source stop;
    Fixture it(
        {MemoryResponse(200)
             .with_event(begin_event)
             .with_event(start_event(R"({"type":"text","text":""})"))
             .with_event(text_event("Hal"))
             .with_event(R"({"type":"content_block_stop","index":0})")
             .with_event(start_event(R"({"type":"tool_use","id":"c","name":"f","input":{}})", 1))
             .with_event(delta_event(R"("type":"input_json_delta","partial_json":"{\"a")", 1))
             .with_call([&stop] { stop.request_stop(); })
             .with_stall()});
    const auto events = testing::run_advancing(
        *it.clock, read_all(it.stream({}, StreamOptions().stop_token(stop.get_token()))));
    const AssistantMessage message = events.back().partial.get();
    EXPECT_EQ(message.stop_reason, "aborted");
    EXPECT_EQ(message.text(), "Hal");
    EXPECT_TRUE(message.tool_calls().empty());
    EXPECT_EQ(*message.usage->input_tokens, 3);
    EXPECT_EQ(message.response_id, "");
}

TEST(AnthropicProvider, D58_ErrorText_NeverContainsTheKey) {
    Fixture it({refusal(401, "authentication_error", "invalid x-api-key: sk-ant-secret")});
    EXPECT_EQ(it.message().error_message.str().find("sk-ant-secret"), std::string::npos);
}

TEST(AnthropicProvider, Hook_MayChangeTheBody) {
    Fixture it({answer("Hi")});
    PayloadHook hook = [](JsonObject payload, Model) -> Task<std::optional<JsonObject>> {
        JsonObject extra;
        extra["inference_geo"] = "eu";
        payload["extra_body"] = std::move(extra);
        payload["top_k"] = 5;
        std::optional<JsonObject> changed(std::move(payload));
        co_return changed;
    };
    testing::run_advancing(*it.clock,
                           read_all(it.stream({}, StreamOptions().on_payload(std::move(hook)))));
    const Json sent = parse_json(it.transport->requests()[0].body);
    EXPECT_EQ(sent.at("top_k"), Json(5));
    EXPECT_EQ(sent.at("inference_geo"), Json("eu"));
    EXPECT_FALSE(sent.as_object().contains("extra_body"));
}

TEST(AnthropicProvider, Observers_SeeTheUnstreamedAnswer) {
    Fixture it({answer("Hi")});
    Json body;
    std::string finish_reason;
    const ObserverHandle handle =
        it.provider->subscribe_response([&](const ProviderOutcome& outcome, const ProviderCall&) {
            body = outcome.body();
            finish_reason = outcome.details.finish_reason;
            EXPECT_GE(outcome.ended, outcome.started);
        });
    it.events();
    EXPECT_EQ(body.at_pointer("/content/0/text"), Json("Hi"));
    EXPECT_EQ(body.at("stop_reason"), Json("end_turn"));
    EXPECT_EQ(finish_reason, "end_turn");
    EXPECT_EQ(body.at_pointer("/usage/output_tokens"), Json(2));
}

TEST(AnthropicProvider, ResponseFormat_IsTakenOnlyByKnownEndpoints) {
    const AnthropicProvider own({.api_key = "k"});
    Model model;
    model.id = "claude-sonnet-4-5";
    EXPECT_TRUE(own.takes_response_format(model));
    const AnthropicProvider other({.base_url = "https://api.deepseek.com/anthropic"});
    EXPECT_FALSE(other.takes_response_format(model));
    CapabilityDescriptor told;
    told.response_format = true;
    const AnthropicProvider configured({.base_url = "https://gateway.example", .capability = told});
    EXPECT_TRUE(configured.takes_response_format(model));
}

// The programs of examples/ send requests with such a model.
TEST(AnthropicProvider, EnvironmentVariables_MakeAModel) {
    setenv("ANTHROPIC_BASE_URL", "localhost:8080", 1);
    EXPECT_THROW(anthropic_model("m"), Error);
    setenv("ANTHROPIC_BASE_URL", "http://localhost:8080/v1", 1);
    EXPECT_EQ(anthropic_model("m").spec().id, "m");
    unsetenv("ANTHROPIC_BASE_URL");
    EXPECT_EQ(anthropic_model("m").spec().id, "m");
}

// Compaction by the endpoint.

MemoryResponse compacted_answer() {
    return MemoryResponse(200)
        .with_event(begin_event)
        .with_event(start_event(R"({"type":"compaction"})"))
        .with_event(delta_event(R"("type":"compaction_delta","content":"They spoke of )"
                                R"(rivers.")"))
        .with_event(R"({"type":"content_block_stop","index":0})")
        .with_event(start_event(R"({"type":"text","text":""})", 1))
        .with_event(text_event("Hi", 1))
        .with_event(R"({"type":"content_block_stop","index":1})")
        .with_event(R"({"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{)"
                    R"("input_tokens":20,"output_tokens":2,"iterations":[)"
                    R"({"type":"compaction","input_tokens":60000,"output_tokens":300},)"
                    R"({"type":"message","input_tokens":20,"output_tokens":2}]}})")
        .with_event(stop_event);
}

struct Compacting : Fixture {
    explicit Compacting(AnthropicOptions options = {},
                        std::vector<MemoryResponse> answers = {compacted_answer(), answer("Yes")})
        : Fixture(std::move(answers), std::move(options)) {}

    AssistantMessage ask(StreamOptions options = StreamOptions()) {
        messages.push_back(user_message("x"));
        auto made = read(
            provider->model(model).stream(messages, {}, {}, std::move(options).runtime(runtime)));
        messages.push_back(made.back().partial.get());
        return *messages.back().assistant();
    }
    JsonObject body() const {
        return boost::json::parse(transport->requests().back().body).as_object();
    }
    std::string beta() const {
        return std::string(transport->requests().back().headers.get("anthropic-beta"));
    }

    std::string model = "claude-opus-4-7";
    MessageList messages;
};

TEST(AnthropicProvider, D141_CompactionByTheEndpoint_ReturnsWithTheHistory) {
    Compacting it({.betas = {"one-2026-01-01"}});
    const AssistantMessage made = it.ask(StreamOptions().compact_at(1000));
    EXPECT_EQ(it.body().at("context_management"),
              boost::json::parse(R"({"edits":[{"type":"compact_20260112",)"
                                 R"("trigger":{"type":"input_tokens","value":50000}}]})"));
    EXPECT_EQ(it.beta(), "one-2026-01-01,compact-2026-01-12");
    EXPECT_TRUE(has_compacted(made));
    EXPECT_EQ(made.usage->input_tokens, 60020);
    EXPECT_EQ(made.usage->output_tokens, 302);
    const AssistantMessage next = it.ask();
    EXPECT_FALSE(has_compacted(next));
    EXPECT_FALSE(it.body().contains("context_management"));
    EXPECT_EQ(it.beta(), "one-2026-01-01,compact-2026-01-12") << "the block needs it";
    EXPECT_EQ(it.body().at("messages").at(1).at("content").at(0),
              boost::json::parse(R"({"type":"compaction","content":"They spoke of rivers."})"));
}

TEST(AnthropicProvider, D141_ContextEditing_IsAskedForAndStored) {
    const MemoryResponse edited =
        MemoryResponse(200)
            .with_event(begin_event)
            .with_event(start_event(R"({"type":"text","text":""})"))
            .with_event(text_event("Hi"))
            .with_event(R"({"type":"content_block_stop","index":0})")
            .with_event(
                R"({"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{)"
                R"("input_tokens":20,"output_tokens":2},"context_management":{"applied_edits":[)"
                R"({"type":"clear_tool_uses_20250919","cleared_tool_uses":3,)"
                R"("cleared_input_tokens":4000}]}})")
            .with_event(stop_event);
    Compacting it({.clear_tool_results_at = 30'000}, {edited, answer("Yes")});
    const AssistantMessage made = it.ask(StreamOptions().compact_at(100'000));
    EXPECT_EQ(it.body().at("context_management"),
              boost::json::parse(R"({"edits":[{"type":"clear_tool_uses_20250919",)"
                                 R"("trigger":{"type":"input_tokens","value":30000}},)"
                                 R"({"type":"compact_20260112",)"
                                 R"("trigger":{"type":"input_tokens","value":100000}}]})"));
    EXPECT_EQ(it.beta(), "compact-2026-01-12,context-management-2025-06-27");
    EXPECT_FALSE(has_compacted(made)) << "it stands for nothing";
    EXPECT_EQ(
        made.extra.find("context_management")->at_pointer("/applied_edits/0/cleared_input_tokens"),
        Json(4000));
    EXPECT_EQ(it.ask().extra.find("context_management"), nullptr);
    EXPECT_EQ(it.beta(), "context-management-2025-06-27");
    EXPECT_FALSE(it.body().at("messages").at(1).as_object().contains("context_management"));
}

TEST(AnthropicProvider, D141_OtherEndpointsAndModels_AreNotAsked) {
    Compacting other({.base_url = "https://gateway.example"});
    (void)other.ask(StreamOptions().compact_at(100'000));
    EXPECT_FALSE(other.body().contains("context_management"));
    EXPECT_EQ(other.beta(), "");
    Compacting old;
    old.model = "claude-sonnet-4-5";
    (void)old.ask(StreamOptions().compact_at(100'000));
    EXPECT_FALSE(old.body().contains("context_management"));
    (void)old.ask();
    EXPECT_EQ(boost::json::serialize(old.body()).find("compaction"), std::string::npos)
        << "it receives the whole history";
    EXPECT_EQ(old.beta(), "");
}

}  // namespace
}  // namespace cubepi
