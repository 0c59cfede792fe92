#include <cubepi/provider/openai.hpp>

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cubepi/core/task_scope.hpp>
#include <cubepi/net/network_error.hpp>
#include <cubepi/testing/manual_clock.hpp>
#include <cubepi/testing/memory_transport.hpp>

#include "test_streams.hpp"

namespace cubepi {
namespace {

using namespace std::chrono_literals;
using testing::ManualClock;
using testing::MemoryResponse;

std::string text_chunk(const std::string& text) {
    return R"({"id":"r1","choices":[{"index":0,"delta":{"content":")" + text + R"("}}]})";
}
const std::string finish_chunk =
    R"({"id":"r1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]})";

MemoryResponse answer(const std::string& text) {
    return MemoryResponse(200)
        .with_event(text_chunk(text))
        .with_event(finish_chunk)
        .with_event("[DONE]");
}
MemoryResponse refusal(int status,
                       const std::string& body = R"({"error":{"message":"try again"}})") {
    return MemoryResponse(status, body).with_header("content-type", "application/json");
}

/// A provider at a server in memory.
struct Fixture : MemoryEndpoint {
    explicit Fixture(std::vector<MemoryResponse> answers, OpenAIOptions options = {})
        : MemoryEndpoint(std::move(answers)) {
        if (options.api_key.empty()) options.api_key = "sk-secret-key";
        provider = std::make_shared<OpenAIProvider>(std::move(options));
    }

    MessageStream stream(StreamOptions options = StreamOptions()) const {
        MessageList messages{user_message("x")};
        return provider->model("gpt-4.1").stream(std::move(messages), {}, {},
                                                 std::move(options).runtime(runtime));
    }
    std::vector<StreamEvent> events(StreamOptions options = StreamOptions()) const {
        return read(stream(std::move(options)));
    }

    std::shared_ptr<OpenAIProvider> provider;
};

TEST(OpenAIProvider, Call_SendsOneRequestAndStreamsTheAnswer) {
    Fixture it({answer("Hi")});
    const auto events = it.events();
    EXPECT_EQ(spelled(events), "start text_start text_delta(Hi) text_end done");
    const AssistantMessage message = events.back().partial.get();
    EXPECT_EQ(message.provider_id, "openai");
    EXPECT_EQ(message.model_id, "gpt-4.1");
    EXPECT_EQ(message.response_id, "r1");
    EXPECT_TRUE(message.timestamp);
    ASSERT_EQ(it.transport->requests().size(), 1u);
    const HttpRequest request = it.transport->requests()[0];
    EXPECT_EQ(request.url, "https://api.openai.com/v1/chat/completions");
    EXPECT_EQ(request.headers.get("authorization"), "Bearer sk-secret-key");
    EXPECT_EQ(it.transport->open_exchanges(), 0u);
}

TEST(OpenAIProvider, D14_InvalidUtf8_IsReplacedWithANotice) {
    Fixture it({answer("Hi")});
    MessageList messages{user_message("a\xFF z")};
    MessageStream stream = it.provider->model("gpt-4.1").stream(
        std::move(messages), {}, {}, StreamOptions().runtime(it.runtime));
    const auto events = it.read(std::move(stream));
    EXPECT_EQ(spelled(events),
              "notice(request_changed) start text_start text_delta(Hi) text_end done");
    const std::string body = it.transport->requests()[0].body;
    EXPECT_NE(body.find("a\xEF\xBF\xBD z"), std::string::npos) << body;
}

TEST(OpenAIProvider, Numbers_AreSentInDecimalNotation) {
    Fixture it({answer("Hi")});
    BoundModel warm = it.provider->model("gpt-4.1");
    Model spec = warm.spec();
    spec.temperature = 0.7;
    MessageStream stream =
        BoundModel(it.provider, std::move(spec))
            .stream({user_message("x")}, {}, {}, StreamOptions().runtime(it.runtime));
    (void)it.read(std::move(stream));
    const std::string body = it.transport->requests()[0].body;
    EXPECT_NE(body.find("\"temperature\":0.7"), std::string::npos) << body;
}

TEST(OpenAIProvider, StreamWithoutPull_SendsNothing) {
    Fixture it({answer("Hi")});
    const MessageStream stream = it.stream();
    EXPECT_TRUE(it.transport->requests().empty());
}

TEST(OpenAIProvider, D15_FailureBeforeContent_IsRetriedWithANotice) {
    Fixture it({refusal(503), refusal(429).with_header("retry-after-ms", "40"), answer("Hi")});
    const auto began = it.clock->now();
    const auto events = it.events();
    EXPECT_EQ(spelled(events),
              "notice(retry) notice(retry) start text_start text_delta(Hi) text_end done");
    EXPECT_EQ(it.transport->requests().size(), 3u);
    EXPECT_EQ(events[1].notice->details.at("delay_ms"), Json(40));
    EXPECT_EQ(events[0].notice->details.at("status_code"), Json(503));
    EXPECT_GE(it.clock->now() - began, 375ms);
}

TEST(OpenAIProvider, D15_ExhaustedRetries_FailTheCall) {
    Fixture it({refusal(500), refusal(500), refusal(500)});
    const auto events = it.events();
    EXPECT_EQ(spelled(events), "notice(retry) notice(retry) error");
    const AssistantMessage message = events.back().partial.get();
    ASSERT_TRUE(message.error);
    EXPECT_EQ(message.error->code, ErrorCode::unavailable);
    EXPECT_EQ(message.error_message,
              "[openai/gpt-4.1 @ https://api.openai.com/v1] ProviderUnavailable: HTTP 500: try "
              "again (after 2 retries)");
}

TEST(OpenAIProvider, D15_RateLimit_IsRetriedForAMinute) {
    const auto limited = [] { return std::vector<MemoryResponse>(40, refusal(429)); };
    Fixture it(limited());
    const auto began = it.clock->now();
    EXPECT_EQ(it.events().back().type, StreamEventType::error);
    EXPECT_GT(it.clock->now() - began, 45s);
    EXPECT_LE(it.clock->now() - began, 60s);
    EXPECT_LT(it.transport->requests().size(), 20u);

    Fixture brief(limited(), {.retry = {.rate_limit_time = 0ms}});
    (void)brief.events();
    EXPECT_EQ(brief.transport->requests().size(), 3u);
    Fixture never(limited(), {.retry = {.max_retries = 0}});
    (void)never.events();
    EXPECT_EQ(never.transport->requests().size(), 1u);
    // A server that states the delay in a header, or that the quota is used up.
    for (const MemoryResponse& last :
         {refusal(429).with_header("retry-after", "0.2"),
          refusal(429,
                  R"({"error":{"code":"insufficient_quota","message":"Check your plan."}})")}) {
        Fixture stated(std::vector<MemoryResponse>(40, last));
        (void)stated.events();
        EXPECT_EQ(stated.transport->requests().size(), 3u);
    }
}

TEST(OpenAIProvider, D15_Outage_IsRetriedForTheConfiguredTime) {
    const RetryPolicy patient{.outage_time = 60s};
    const auto failures = [](const MemoryResponse& failure) {
        return std::vector<MemoryResponse>(40, failure);
    };
    const auto refused = [](bool transient) {
        return MemoryResponse::failing(NetworkError(ErrorCode::connect, "llm.example:443",
                                                    transient, "Cannot connect to llm.example"));
    };
    for (const MemoryResponse& failure :
         {refusal(500), refusal(529).with_header("retry-after", "0"), refused(true),
          MemoryResponse(200).with_failure(
              NetworkError(ErrorCode::disconnected, "llm.example:443", true, "Reset"))}) {
        Fixture it(failures(failure), {.base_url = "https://llm.example/v1", .retry = patient});
        const auto began = it.clock->now();
        const auto events = it.events();
        EXPECT_EQ(events.back().type, StreamEventType::error);
        EXPECT_GT(it.clock->now() - began, 45s);
        EXPECT_LE(it.clock->now() - began, 60s);
        EXPECT_LT(it.transport->requests().size(), 20u);
        ASSERT_GT(events.size(), 4u);
        EXPECT_GT(events[4].notice->details.at("delay_ms").as_int64(), 5000);
        EXPECT_NE(events[4].notice->text.find("(5, for at most 60 s)"), std::string::npos)
            << events[4].notice->text;
    }
    Fixture explained({refusal(500), answer("Hi")}, {.retry = patient});
    EXPECT_TRUE(explained.events()[0].notice->text.starts_with("HTTP 500: try again; trying "));
    // Not what waiting cannot end, and not after content.
    for (const MemoryResponse& failure :
         {refused(false), refusal(400), refusal(503).with_header("x-should-retry", "false")}) {
        Fixture it(failures(failure), {.base_url = "https://llm.example/v1", .retry = patient});
        (void)it.events();
        EXPECT_EQ(it.transport->requests().size(), 1u);
    }
    Fixture begun(failures(MemoryResponse(200)
                               .with_event(text_chunk("Hi"))
                               .with_failure(NetworkError(ErrorCode::disconnected,
                                                          "llm.example:443", true, "Reset"))),
                  {.retry = patient});
    (void)begun.events();
    EXPECT_EQ(begun.transport->requests().size(), 1u);
    Fixture local(failures(refused(true)),
                  {.base_url = "http://127.0.0.1:11434/v1", .retry = patient});
    (void)local.events();
    EXPECT_EQ(local.transport->requests().size(), 3u) << "no server runs there";
}

TEST(OpenAIProvider, D15_DelayInText_IsHonored) {
    const std::string body =
        R"({"error":{"message":"Limit 30000, Used 29000. Please try again in 2.5s. Visit the page.","code":"rate_limit_exceeded"}})";
    for (const MemoryResponse& first :
         {refusal(429, body), MemoryResponse(200).with_event(body),
          MemoryResponse(200).with_event(
              R"({"id":"r","choices":[{"index":0,"delta":{"content":""},"finish_reason":"error",)" +
              body.substr(1, body.size() - 2) + "}]}"),
          refusal(400, R"({"__type":"ThrottlingException","message":"Try again in 2500 ms"})")}) {
        Fixture it({first, answer("Hi")});
        const auto began = it.clock->now();
        const auto events = it.events();
        ASSERT_EQ(spelled(events), "notice(retry) start text_start text_delta(Hi) text_end done");
        EXPECT_EQ(events[0].notice->details.at("delay_ms"), Json(2500));
        EXPECT_EQ(it.clock->now() - began, 2500ms);
    }
    // Next to no time does not cause many requests a second.
    Fixture soon(
        {refusal(429, R"({"error":{"message":"Please try again in 6ms."}})"), answer("Hi")});
    const auto began = soon.clock->now();
    EXPECT_TRUE(spelled(soon.events()).ends_with("done"));
    EXPECT_GT(soon.clock->now() - began, 300ms);
    Fixture late({refusal(429, R"({"error":{"message":"Please try again in 7m12.5s."}})")});
    EXPECT_EQ(spelled(late.events()), "error");
}

TEST(OpenAIProvider, D89_RequiredThinking_IsReturned) {
    for (const char* text :
         {"The `reasoning_content` in the thinking mode must be passed back to the API.",
          "thinking is enabled but reasoning_content is missing in message at index 2"}) {
        const MemoryResponse refused =
            refusal(400, R"({"error":{"message":")" + std::string(text) + R"("}})");
        Fixture it({refused, answer("Hi"), refused, refused});
        AssistantMessage earlier;
        ThinkingContent thinking;
        thinking.thinking = "Hm";
        earlier.content.emplace_back(thinking);
        earlier.content.emplace_back(TextContent{"A"});
        const MessageList messages{user_message("x"), earlier, user_message("y")};
        const auto ask = [&] {
            return it.read(it.provider->model("local").stream(messages, {}, {},
                                                              StreamOptions().runtime(it.runtime)));
        };
        EXPECT_TRUE(spelled(ask()).ends_with("done")) << text;
        const auto requests = it.transport->requests();
        ASSERT_EQ(requests.size(), 2u);
        EXPECT_EQ(requests[0].body.find("reasoning_content"), std::string::npos);
        EXPECT_NE(requests[1].body.find(R"("reasoning_content":"Hm")"), std::string::npos);
        // The second refusal of the same request is final.
        EXPECT_TRUE(spelled(ask()).ends_with("error"));
        EXPECT_EQ(it.transport->requests().size(), 4u);
    }
}

TEST(OpenAIProvider, D16_CompleteAnswerWithoutEnd_EndsSoon) {
    const std::string usage =
        R"({"id":"r1","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":3}})";
    const auto complete = [] {
        return MemoryResponse(200).with_event(text_chunk("Hi")).with_event(finish_chunk);
    };
    MemoryResponse pings = complete();
    for (int i = 0; i < 100; ++i)
        pings = MemoryResponse(pings).with_delay(1s).with_piece(": ping\n\n");
    const MemoryResponse silent = complete().with_stall();
    const MemoryResponse late = complete().with_delay(1s).with_event(usage).with_stall();
    for (const auto& [response, tokens] :
         {std::pair{pings, 0}, std::pair{silent, 0}, std::pair{late, 9}}) {
        for (const auto idle : {120s, 0s}) {
            Fixture it({response}, {.idle_timeout = idle});
            const auto began = it.clock->now();
            const auto events = it.events();
            EXPECT_EQ(spelled(events), "start text_start text_delta(Hi) text_end done");
            EXPECT_LE(it.clock->now() - began, 4s);
            const AssistantMessage message = events.back().partial.get();
            EXPECT_EQ(message.usage.value_or(Usage()).input_tokens.value_or(0), tokens);
        }
    }
}

TEST(OpenAIProvider, D16_IdleTimeout_SaysWhatWasReceived) {
    MemoryResponse pings = MemoryResponse(200);
    for (int i = 0; i < 10; ++i)
        pings = MemoryResponse(pings).with_delay(20s).with_piece(": ping\n\n");
    const MemoryResponse silent = MemoryResponse(200).with_stall();
    for (const auto& [response, words] :
         {std::pair{pings, "only keep-alives or events without content received for 120 s"},
          std::pair{silent, "no data received for 120 s"}}) {
        Fixture it({response});
        const AssistantMessage message = it.events().back().partial.get();
        EXPECT_NE(message.error_message.str().find(words), std::string::npos)
            << message.error_message.str();
    }
}

TEST(OpenAIProvider, D15_PermanentFailure_IsNotRetried) {
    Fixture it({refusal(401)});
    EXPECT_EQ(spelled(it.events()), "error");
    Fixture told(
        {refusal(429).with_header("x-should-retry", "false").with_header("retry-after", "3600")});
    const auto events = told.events();
    EXPECT_EQ(spelled(events), "error");
    EXPECT_EQ(events[0].partial.get().error->retry_after, 3600);
}

TEST(OpenAIProvider, D15_ConnectFailuresAndEmptyAnswers_AreRetried) {
    Fixture it({MemoryResponse::failing(
                    NetworkError(ErrorCode::connect, "h:443", true, "h:443: connection refused")),
                MemoryResponse(200),
                MemoryResponse(200).with_failure(
                    NetworkError(ErrorCode::disconnected, "h:443", true, "reset"))},
               {.retry = {.max_retries = 2}});
    const auto events = it.events();
    EXPECT_EQ(spelled(events), "notice(retry) notice(retry) error");
    EXPECT_EQ(events.back().partial.get().error->code, ErrorCode::disconnected);
}

TEST(OpenAIProvider, D15_FailureAfterContent_IsNotRetried) {
    Fixture it({MemoryResponse(200)
                    .with_event(text_chunk("Hal"))
                    .with_failure(NetworkError(ErrorCode::disconnected, "h", true, "reset"))});
    const auto events = it.events();
    EXPECT_EQ(spelled(events), "start text_start text_delta(Hal) error");
    const AssistantMessage message = events.back().partial.get();
    EXPECT_EQ(message.text(), "Hal");
    EXPECT_EQ(message.error->type, "ProviderUnavailable");
}

TEST(OpenAIProvider, D15_StreamErrorBeforeContent_IsRetried) {
    Fixture it({MemoryResponse(200).with_event(R"({"error":{"message":"overloaded","code":503}})"),
                answer("Hi")});
    EXPECT_EQ(spelled(it.events()), "notice(retry) start text_start text_delta(Hi) text_end done");
    Fixture after_start(
        {MemoryResponse(200)
             .with_event(R"({"id":"old","choices":[]})")
             .with_failure(NetworkError(ErrorCode::disconnected, "h", true, "reset")),
         answer("Hi")});
    const auto events = after_start.events();
    EXPECT_EQ(spelled(events), "start notice(retry) text_start text_delta(Hi) text_end done");
    EXPECT_EQ(events.back().partial.get().response_id, "r1");
}

TEST(OpenAIProvider, FailureAfterFinishReason_IsIgnored) {
    Fixture it({MemoryResponse(200)
                    .with_event(text_chunk("Hi"))
                    .with_event(finish_chunk)
                    .with_failure(NetworkError(ErrorCode::disconnected, "h", true, "reset"))});
    EXPECT_EQ(spelled(it.events()), "start text_start text_delta(Hi) text_end done");
    Fixture silent(
        {MemoryResponse(200).with_event(text_chunk("Hi")).with_event(finish_chunk).with_stall()});
    EXPECT_EQ(spelled(silent.events()), "start text_start text_delta(Hi) text_end done");
}

TEST(OpenAIProvider, D16_KeepAlives_DoNotRestartTheIdleTimeout) {
    Fixture it({MemoryResponse(200)
                    .with_event(text_chunk("a"))
                    .with_delay(100s)
                    .with_piece(": ping\n\n")
                    .with_delay(100s)
                    .with_piece(": ping\n\n")
                    .with_delay(1h)});
    const auto began = it.clock->now();
    const auto events = it.events();
    EXPECT_EQ(spelled(events), "start text_start text_delta(a) error");
    EXPECT_EQ(it.clock->now() - began, 120s);
    const AssistantMessage message = events.back().partial.get();
    EXPECT_EQ(message.error->code, ErrorCode::timeout);
    EXPECT_NE(message.error_message.str().find("idle timeout"), std::string::npos);
    EXPECT_EQ(it.transport->open_exchanges(), 0u);
}

TEST(OpenAIProvider, D16_Content_RestartsTheIdleTimeout) {
    Fixture it({MemoryResponse(200)
                    .with_event(text_chunk("a"))
                    .with_delay(100s)
                    .with_event(text_chunk("b"))
                    .with_delay(100s)
                    .with_event(text_chunk("c"))
                    .with_delay(100s)
                    .with_event(finish_chunk)});
    EXPECT_EQ(it.events().back().partial.get().text(), "abc");
}

TEST(OpenAIProvider, D16_Timeouts_ArePassedToTheTransport) {
    Fixture it({MemoryResponse::never(), MemoryResponse::never(), MemoryResponse::never()});
    const auto events = it.events();
    EXPECT_EQ(events.back().partial.get().error->code, ErrorCode::timeout);
    EXPECT_EQ(it.transport->requests()[0].timeouts.first_byte, 120s);
    EXPECT_EQ(it.transport->requests()[0].timeouts.connect, 10s);
}

/// Pulls until no event is available, then aborts from outside.
Task<std::vector<StreamEvent>> pull_and_abort(MessageStream stream, std::stop_source stop,
                                              ManualClock& clock, int advances) {
    std::vector<StreamEvent> events;
    TaskGroup<std::vector<StreamEvent>> group(co_await this_executor);
    group.spawn(read_all(std::move(stream)));
    for (int i = 0; i < 20; ++i) co_await yield_now();
    for (int i = 0; i < advances; ++i) {
        clock.advance_to_next();
        for (int j = 0; j < 20; ++j) co_await yield_now();
    }
    stop.request_stop();
    const std::exception_ptr failure = co_await group.join_failure();
    if (failure) std::rethrow_exception(failure);
    std::vector<Outcome<std::vector<StreamEvent>>> outcomes = group.take();
    co_return std::move(outcomes[0].value());
}

std::vector<StreamEvent> aborted_events(const Fixture& it) {
    std::stop_source stop;
    MessageStream stream = it.stream(StreamOptions().stop_token(stop.get_token()));
    return run(pull_and_abort(std::move(stream), stop, *it.clock, 0));
}

TEST(OpenAIProvider, D7_AbortInAnyPhase_ClosesTheExchange) {
    const auto expect_aborted = [](const Fixture& it, const std::string& before) {
        const auto events = aborted_events(it);
        EXPECT_EQ(spelled(events), before + "error");
        const AssistantMessage message = events.back().partial.get();
        EXPECT_EQ(message.stop_reason, "aborted");
        EXPECT_EQ(message.error_message, "Request was aborted");
        EXPECT_EQ(it.transport->open_exchanges(), 0u);
        EXPECT_EQ(it.clock->pending_sleepers(), 0u);
    };
    expect_aborted(Fixture({MemoryResponse::never()}), "");
    expect_aborted(Fixture({MemoryResponse(200).with_stall()}), "");
    expect_aborted(Fixture({MemoryResponse(200).with_event(text_chunk("a")).with_stall()}),
                   "start text_start text_delta(a) ");
    expect_aborted(Fixture({refusal(503)}), "notice(retry) ");
    expect_aborted(Fixture({MemoryResponse(500).with_stall()}), "");
}

/// A body without interrupt(), like that of a custom transport.
class PlainBody final : public HttpBody {
public:
    explicit PlainBody(std::unique_ptr<HttpBody> inner) : inner_(std::move(inner)) {}
    Task<bool> read(std::string& out) override { return inner_->read(out); }
    bool read_ready(std::string& out) override { return inner_->read_ready(out); }

private:
    std::unique_ptr<HttpBody> inner_;
};

class PlainTransport final : public HttpTransport {
public:
    explicit PlainTransport(std::shared_ptr<HttpTransport> inner) : inner_(std::move(inner)) {}
    Task<HttpResponse> send(HttpRequest request) override {
        HttpResponse response = co_await inner_->send(std::move(request));
        response.body = std::make_unique<PlainBody>(std::move(response.body));
        co_return response;
    }

private:
    std::shared_ptr<HttpTransport> inner_;
};

TEST(OpenAIProvider, D7_UninterruptibleBody_IsCancelled) {
    const auto begun = MemoryResponse(200).with_event(text_chunk("a")).with_stall();
    for (const bool abort : {true, false}) {
        Fixture it({begun});
        it.runtime = std::make_shared<const Runtime>(
            Runtime(*it.runtime).with_transport(std::make_shared<PlainTransport>(it.transport)));
        const auto events = abort ? aborted_events(it) : it.events();
        EXPECT_EQ(spelled(events), "start text_start text_delta(a) error");
        const AssistantMessage message = events.back().partial.get();
        EXPECT_EQ(message.stop_reason, abort ? "aborted" : "error");
        EXPECT_EQ(message.error_message.str().find("idle timeout") == std::string::npos, abort);
        EXPECT_EQ(it.transport->open_exchanges(), 0u);
    }
}

TEST(OpenAIProvider, D7_AbortBeforeFirstPull_SendsNothing) {
    Fixture it({answer("Hi")});
    std::stop_source stop;
    stop.request_stop();
    EXPECT_EQ(spelled(it.events(StreamOptions().stop_token(stop.get_token()))), "error");
    EXPECT_TRUE(it.transport->requests().empty());
}

TEST(OpenAIProvider, D7_AbortAtAnyEvent_KeepsReceivedText) {
    for (std::size_t at = 1; at <= 5; ++at) {
        Fixture it({MemoryResponse(200)
                        .with_event(text_chunk("a"))
                        .with_event(text_chunk("b"))
                        .with_event(text_chunk("c"))
                        .with_event(finish_chunk)
                        .with_event("[DONE]")});
        std::stop_source stop;
        MessageStream stream = it.stream(StreamOptions().stop_token(stop.get_token()));
        std::string seen;
        for (std::size_t i = 0; i < at; ++i) seen += run(stream.next())->delta;
        stop.request_stop();
        const AssistantMessage message = run(stream.result());
        EXPECT_EQ(message.stop_reason, "aborted") << at;
        EXPECT_TRUE(message.text().starts_with(seen)) << at;
        EXPECT_EQ(it.transport->open_exchanges(), 0u) << at;
    }
}

TEST(OpenAIProvider, D34_Abort_DropsTheStreamingCall) {
    Fixture it(
        {MemoryResponse(200)
             .with_event(
                 R"({"choices":[{"delta":{"content":"ok","tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x"}}]}}]})")
             .with_stall()});
    const AssistantMessage message = aborted_events(it).back().partial.get();
    EXPECT_EQ(message.text(), "ok");
    EXPECT_FALSE(message.has_tool_calls());
}

TEST(OpenAIProvider, D7_CancelledConsumer_ClosesTheExchange) {
    Fixture it({MemoryResponse(200).with_event(text_chunk("a")).with_stall()});
    run([](const Fixture& on) -> Task<> {
        TaskScope scope(co_await this_executor, ScopePolicy::collect);
        scope.spawn(read_all(on.stream()));
        for (int i = 0; i < 20; ++i) co_await yield_now();
        EXPECT_EQ(on.transport->open_exchanges(), 1u);
        scope.cancel();
        co_await scope.join_failure();
    }(it));
    EXPECT_EQ(it.transport->open_exchanges(), 0u);
    EXPECT_EQ(it.clock->pending_sleepers(), 0u);
}

TEST(OpenAIProvider, D7_DroppedStream_ClosesTheExchange) {
    Fixture it({MemoryResponse(200).with_event(text_chunk("a")).with_stall()});
    {
        MessageStream stream = it.stream();
        run(stream.next());
        EXPECT_EQ(it.transport->open_exchanges(), 1u);
    }
    EXPECT_EQ(it.transport->open_exchanges(), 0u);
}

TEST(OpenAIProvider, Hooks_ChangeTheRequestAndSeeTheAnswer) {
    Fixture it({refusal(503), answer("Hi")});
    std::string log;
    auto payload = [&log](JsonObject body, Model) -> Task<std::optional<JsonObject>> {
        log += "payload ";
        body["seed"] = 7;
        JsonObject extra;
        extra["top_k"] = 3;
        body["extra_body"] = std::move(extra);
        std::optional<JsonObject> changed(std::move(body));
        co_return changed;
    };
    auto response = [&log](ProviderResponse seen, Model) -> Task<> {
        log += std::to_string(seen.status) + " ";
        co_return;
    };
    it.provider->subscribe_request([&log](const RequestPayload& body, const ProviderCall&) {
        log += body.built()->contains("seed") ? "request " : "unchanged ";
    });
    it.events(StreamOptions().on_payload(payload).on_response(response));
    EXPECT_EQ(log, "payload request 503 200 ");
    const Json sent = boost::json::parse(it.transport->requests()[1].body);
    EXPECT_EQ(sent.at("seed"), Json(7));
    EXPECT_EQ(sent.at("top_k"), Json(3));
    EXPECT_FALSE(sent.get_object().contains("extra_body"));
}

TEST(OpenAIProvider, Observers_ReceiveACompletion) {
    Fixture it({answer("Hi")});
    Json body;
    it.provider->subscribe_response(
        [&](const ProviderOutcome& told, const ProviderCall&) { body = told.body(); });
    it.events();
    EXPECT_EQ(body.at("object"), Json("chat.completion"));
    EXPECT_EQ(body.at_pointer("/choices/0/message/content"), Json("Hi"));
}

TEST(OpenAIProvider, ThrowingHook_FailsTheCall) {
    Fixture it({answer("Hi")});
    auto hook = [](JsonObject, Model) -> Task<std::optional<JsonObject>> {
        throw std::runtime_error("no");
    };
    const auto events = it.events(StreamOptions().on_payload(hook));
    EXPECT_EQ(spelled(events), "error");
    EXPECT_EQ(events.back().error_message(), "hook on_payload failed: no");
    EXPECT_TRUE(it.transport->requests().empty());
}

TEST(OpenAIProvider, HookException_KeepsItsCodeWithoutRetry) {
    for (const ErrorCode code : {ErrorCode::disconnected, ErrorCode::rate_limited,
                                 ErrorCode::unavailable, ErrorCode::not_found}) {
        Fixture it({answer("Hi")});
        auto hook = [code](ProviderResponse, Model) -> Task<> { throw Error(code, "no"); };
        const auto events = it.events(StreamOptions().on_response(hook));
        EXPECT_EQ(spelled(events), "error");
        EXPECT_EQ(events.back().error_message(), "hook on_response failed: no");
        const AssistantMessage failed = events.back().partial.get();
        ASSERT_TRUE(failed.error);
        EXPECT_EQ(failed.error->code, code);
        EXPECT_EQ(failed.error->type, "HookError");
        EXPECT_EQ(it.transport->requests().size(), 1u);
    }
}

TEST(OpenAIProvider, MissingKey_NamesTheVariable) {
    Fixture it({answer("Hi")});
    OpenAIProvider keyless{OpenAIOptions()};
    MessageList messages{user_message("x")};
    const AssistantMessage message = run(
        keyless.model("gpt-4.1").generate(messages, {}, {}, StreamOptions().runtime(it.runtime)));
    EXPECT_EQ(message.error->code, ErrorCode::auth);
    EXPECT_NE(message.error_message.str().find("OPENAI_API_KEY"), std::string::npos);
    EXPECT_TRUE(it.transport->requests().empty());
}

TEST(OpenAIProvider, OtherServers_GetRequestsWithoutAKey) {
    for (const std::string host :
         {"localhost:11434", "box.lan", "host.docker.internal:8080", "172.20.1.2", "100.64.0.1:1",
          "[fd00::1]:8000", "llm.example.com"}) {
        Fixture it({answer("Hi")});
        OpenAIProvider keyless{OpenAIOptions{.base_url = "http://" + host + "/v1/"}};
        MessageList messages{user_message("x")};
        EXPECT_EQ(
            run(keyless.model("m").generate(messages, {}, {}, StreamOptions().runtime(it.runtime)))
                .text(),
            "Hi");
        EXPECT_EQ(it.transport->requests()[0].url, "http://" + host + "/v1/chat/completions");
        EXPECT_EQ(it.transport->requests()[0].headers.find("authorization"), nullptr);
    }
}

TEST(OpenAIProvider, D58_ErrorText_NeverContainsTheKey) {
    Fixture it(
        {refusal(401, R"({"error":{"message":"Incorrect API key provided: sk-secret-key."}})")});
    const std::string text = it.events().back().error_message();
    EXPECT_EQ(text.find("sk-secret-key"), std::string::npos);
    EXPECT_NE(text.find("***"), std::string::npos);
}

TEST(OpenAIProvider, QueryInBaseUrl_FollowsThePath) {
    Fixture it({answer("Hi")},
               {.base_url = "https://me.openai.azure.com/openai/v1?api-version=preview"});
    it.events();
    EXPECT_EQ(it.transport->requests()[0].url,
              "https://me.openai.azure.com/openai/v1/chat/completions?api-version=preview");
    EXPECT_THROW(OpenAIProvider{OpenAIOptions{.base_url = "api.openai.com"}}, Error);
}

// The programs of examples/ send requests with such a model.
TEST(OpenAIProvider, BaseUrlInEnvironment_IsValidated) {
    setenv("OPENAI_BASE_URL", "localhost:8080", 1);
    EXPECT_THROW(openai_model("m"), Error);
    setenv("OPENAI_BASE_URL", "http://localhost:8080/v1", 1);
    EXPECT_EQ(openai_model("m").spec().id, "m");
    unsetenv("OPENAI_BASE_URL");
    EXPECT_EQ(openai_model("m").spec().id, "m");
}

}  // namespace
}  // namespace cubepi
