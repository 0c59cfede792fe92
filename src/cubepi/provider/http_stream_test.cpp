#include <cubepi/provider/anthropic.hpp>
#include <cubepi/provider/openai.hpp>
#include <cubepi/provider/openai_responses.hpp>

#include <gtest/gtest.h>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/testing/manual_clock.hpp>
#include <cubepi/testing/memory_transport.hpp>

#include "test_streams.hpp"

// Tests of answers over HTTP that do not depend on the protocol.

namespace cubepi {
namespace {

using namespace std::chrono_literals;
using testing::ManualClock;
using testing::MemoryResponse;
using testing::MemoryTransport;

const std::string answer_json =
    R"({"id":"r","choices":[{"message":{"content":"Hi"},"finish_reason":"stop"}]})";
const std::string answer_events =
    "data: {\"id\":\"r\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hi\"}}]}\n\n"
    "data: {\"id\":\"r\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"
    "data: [DONE]\n\n";

MemoryResponse typed(int status, const std::string& type, const std::string& body) {
    return MemoryResponse(status, body).with_header("content-type", type);
}

struct Asked : MemoryEndpoint {
    explicit Asked(std::vector<MemoryResponse> answers, OpenAIOptions options = {})
        : MemoryEndpoint(std::move(answers)) {
        if (options.api_key.empty()) options.api_key = "sk-secret-key";
        ask(OpenAIProvider(std::move(options)).model("m"), {});
    }
    Asked(std::vector<MemoryResponse> answers, const BoundModel& model, PayloadHook on_payload = {})
        : MemoryEndpoint(std::move(answers)) {
        ask(model, std::move(on_payload));
    }

    void ask(const BoundModel& model, PayloadHook on_payload) {
        StreamOptions options = StreamOptions().runtime(runtime);
        if (on_payload) options = std::move(options).on_payload(std::move(on_payload));
        const auto began = clock->now();
        events = read(model.stream(MessageList{user_message("x")}, {}, {}, std::move(options)));
        took = clock->now() - began;
        message = events.back().partial.get();
        EXPECT_EQ(transport->open_exchanges(), 0u);
    }

    std::string header(std::size_t request, std::string_view name) const {
        return std::string(transport->requests().at(request).headers.get(name));
    }
    std::string error() const { return message.error_message.str(); }

    std::vector<StreamEvent> events;
    std::chrono::nanoseconds took{0};
    AssistantMessage message;
};

TEST(HttpStream, NonStreamedAnswer_IsRead) {
    const Asked it({typed(200, "application/json", answer_json)});
    EXPECT_EQ(spelled(it.events), "start text_start text_delta(Hi) text_end done");
}

TEST(HttpStream, BodyType_IsDeterminedByTheFirstCharacter) {
    const std::string whole = "start text_start text_delta(Hi) text_end done";
    for (const char* type : {"text/event-stream", "text/plain", "Application/JSON", ""}) {
        EXPECT_EQ(spelled(Asked({typed(200, type, " \n" + answer_json)}).events), whole) << type;
        EXPECT_EQ(spelled(Asked({typed(200, type, "\n: hello\n\n" + answer_events)}).events), whole)
            << type;
        EXPECT_EQ(spelled(Asked({typed(200, type, "\xEF\xBB\xBF" + answer_events)}).events), whole)
            << type;
        const Asked page({typed(200, type, "\n<!DOCTYPE html><html>")});
        EXPECT_EQ(page.message.error->code, ErrorCode::protocol);
        EXPECT_NE(page.error().find("base URL"), std::string::npos);
    }
    const Asked bytewise({typed(200, "text/event-stream", " \r\n " + answer_json).in_pieces_of(1)});
    EXPECT_EQ(spelled(bytewise.events), whole);
    const Asked marked({typed(200, "", "\xEF\xBB\xBF" + answer_json).in_pieces_of(1)});
    EXPECT_EQ(spelled(marked.events), whole);
}

// Answers that reach the limit of their memory: D74.

std::string chat_chunk(const std::string& delta) {
    return R"(data: {"id":"r","choices":[{"index":0,"delta":{)" + delta + "}}]}\n\n";
}
std::string call_chunk(const std::string& members) {
    return chat_chunk(R"("tool_calls":[{"index":0,)" + members + "}]");
}
const std::string text_and_call =
    chat_chunk(R"("content":"Hi")") +
    call_chunk(R"("id":"c1","function":{"name":"f","arguments":"{\"a\":[0"})");

/// The events of an answer that may take `limit` bytes.
std::vector<StreamEvent> limited_events(const std::string& body, std::size_t limit) {
    const MemoryEndpoint endpoint({typed(200, "text/event-stream", body)});
    StreamOptions options = StreamOptions().runtime(endpoint.runtime).max_answer_bytes(limit);
    const BoundModel model = OpenAIProvider({.api_key = "sk-secret-key"}).model("m");
    auto events =
        endpoint.read(model.stream(MessageList{user_message("x")}, {}, {}, std::move(options)));
    EXPECT_EQ(endpoint.transport->requests().size(), 1u);
    return events;
}

TEST(HttpStream, D74_ManyMembersOfCall_AreLimited) {
    std::string body = text_and_call;
    for (int i = 0; i < 3000; ++i) body += call_chunk("\"k" + std::to_string(i) + "\":0");
    const AssistantMessage message = limited_events(body, 1000 * 1000).back().partial.get();
    ASSERT_TRUE(message.error) << message.error_message.str();
    EXPECT_EQ(message.error->code, ErrorCode::limit) << message.error_message.str();
    EXPECT_EQ(message.text(), "Hi");
}

TEST(HttpStream, D74_AnswerFailingAtEnd_HasTextAndUsage) {
    std::string zeros;
    while (zeros.size() < (std::size_t{64} << 10U)) zeros += ",0";
    std::string body = text_and_call;
    for (int i = 0; i < 32; ++i) body += call_chunk(R"("function":{"arguments":")" + zeros + "\"}");
    body += call_chunk(R"("function":{"arguments":"]}"})") +
            "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\n"
            "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":2}}\n\n";
    for (const std::string end : {"data: [DONE]\n\n", ""}) {
        const auto events = limited_events(body + end, std::size_t{8} << 20U);
        const AssistantMessage message = events.back().partial.get();
        ASSERT_TRUE(message.error) << message.error_message.str();
        EXPECT_EQ(message.error->code, ErrorCode::limit) << message.error_message.str();
        EXPECT_EQ(message.text(), "Hi");
        ASSERT_TRUE(message.usage);
        EXPECT_EQ(message.usage->input_tokens, 5);
        EXPECT_TRUE(message.tool_calls().empty());
    }
}

TEST(HttpStream, HtmlPage_IsReported) {
    const Asked page({typed(200, "text/html", "<html>")});
    EXPECT_EQ(page.message.error->code, ErrorCode::protocol);
    EXPECT_NE(page.error().find("base URL"), std::string::npos);
}

TEST(HttpStream, D9_OtherJson_IsAnErrorWithItsText) {
    const auto anthropic = AnthropicProvider({.api_key = "sk-secret-key"}).model("m");
    const auto responses = OpenAIResponsesProvider({.api_key = "sk-secret-key"}).model("m");
    const auto chat = OpenAIProvider({.api_key = "sk-secret-key"}).model("m");
    for (const BoundModel& model : {anthropic, responses, chat}) {
        for (const char* body : {R"({"error":{"message":"No such tenant","code":"t1"}})",
                                 R"({"error":"No such tenant"})", R"({"detail":"No such tenant"})",
                                 R"({"object":"error","message":"No such tenant"})",
                                 R"({"base_resp":{"status_msg":"No such tenant"}})",
                                 R"([{"error":"No such tenant"}])"}) {
            const Asked it({typed(200, "text/event-stream", body)}, model);
            EXPECT_NE(it.error().find("No such tenant"), std::string::npos) << body << it.error();
            EXPECT_EQ(it.transport->requests().size(), 1u) << body;
        }
    }
}

TEST(HttpStream, EndlessNonStreamedBody_IsRejected) {
    MemoryResponse endless = typed(200, "application/json", "{\"a\":\"");
    const std::string megabyte(std::size_t{1} << 20, 'x');
    for (int i = 0; i < 40; ++i) endless = MemoryResponse(endless).with_piece(megabyte);
    const Asked it({std::move(endless)});
    EXPECT_EQ(it.message.error->code, ErrorCode::too_large);
}

TEST(HttpStream, D16_RefusalWithoutText_IsStillARefusal) {
    const Asked it({typed(403, "application/json", "{\"error\":").with_stall()});
    EXPECT_EQ(it.message.error->code, ErrorCode::bad_request);
    EXPECT_LE(it.took, 10s);
    MemoryResponse dripping = typed(403, "text/plain", "no");
    for (int i = 0; i < 100; ++i)
        dripping = MemoryResponse(dripping).with_delay(1s).with_piece("!");
    const Asked slow({std::move(dripping)});
    EXPECT_EQ(slow.message.error->code, ErrorCode::bad_request);
    EXPECT_LE(slow.took, 10s);
    EXPECT_NE(slow.error().find("no!!"), std::string::npos);
}

TEST(HttpStream, D7_Abort_EndsTheReadingOfARefusal) {
    std::stop_source stop;
    auto clock = std::make_shared<ManualClock>();
    auto transport = std::make_shared<MemoryTransport>(
        std::vector<MemoryResponse>{
            typed(500, "text/plain", "n").with_call([&] { stop.request_stop(); }).with_stall()},
        clock);
    auto runtime =
        std::make_shared<const Runtime>(Runtime().with_clock(clock).with_transport(transport));
    MessageList messages{user_message("x")};
    StreamOptions options =
        StreamOptions().runtime(std::move(runtime)).stop_token(stop.get_token());
    MessageStream stream = OpenAIProvider({.api_key = "sk-secret-key"})
                               .model("m")
                               .stream(std::move(messages), {}, {}, std::move(options));
    const auto began = clock->now();
    const auto events = testing::run_advancing(*clock, read_all(std::move(stream)));
    EXPECT_EQ(events.back().partial.get().stop_reason, "aborted");
    EXPECT_EQ(clock->now(), began);
    EXPECT_EQ(transport->requests().size(), 1u);
    EXPECT_EQ(transport->open_exchanges(), 0u);
}

TEST(HttpStream, D16_TotalTimeout_IncludesRetries) {
    OpenAIOptions options;
    options.total_timeout = 60s;
    const auto busy = [] { return typed(503, "text/plain", "busy").with_delay(8s); };
    const Asked it({busy(), busy(), typed(200, "text/event-stream", ": hello\n\n").with_stall()},
                   options);
    EXPECT_EQ(it.transport->requests().size(), 3u);
    EXPECT_EQ(it.took, 60s);
    EXPECT_NE(it.error().find("total"), std::string::npos);
}

TEST(HttpStream, D16_RetryBeyondTimeout_IsNotAwaited) {
    OpenAIOptions options;
    options.total_timeout = 5s;
    const Asked it({typed(503, "text/plain", "busy").with_header("retry-after", "30")}, options);
    EXPECT_EQ(it.message.error->code, ErrorCode::unavailable);
    EXPECT_EQ(it.took, 0s);
}

TEST(HttpStream, D9_InvalidRetryAfter_IsNotStored) {
    for (const char* wait : {"nan", "inf", "-1", "1e999"}) {
        const Asked it({typed(429, "application/json", R"({"error":{"message":"slow"}})")
                            .with_header("x-should-retry", "false")
                            .with_header("retry-after", wait)});
        EXPECT_EQ(it.message.error->code, ErrorCode::rate_limited);
        EXPECT_EQ(it.message.error->retry_after, std::nullopt) << wait;
    }
}

TEST(HttpStream, D58_KeyInLongText_IsRemovedBeforeTruncation) {
    // The text is cut at 2,000 bytes, in the middle of the key.
    const std::string body = std::string(1990, 'x') + " sk-secret-key " + std::string(100, 'y');
    const Asked it({typed(400, "text/plain", body)});
    EXPECT_EQ(it.error().find("sk-sec"), std::string::npos) << it.error();
}

TEST(HttpStream, D58_KeysInExtraHeaders_AreRemovedFromErrors) {
    for (const char* name : {"Authorization", "X-Goog-Api-Key", "Ocp-Apim-Subscription-Key",
                             "Cookie", "CF-Access-Client-Secret", "X-Auth-Token"}) {
        OpenAIOptions options;
        options.extra_headers = {{name, "Bearer abc-def-123"}};
        const Asked it({typed(401, "text/plain", "bad key abc-def-123")}, options);
        EXPECT_EQ(it.error().find("abc-def-123"), std::string::npos) << name << it.error();
    }
}

/// A server that always sends faster than its reader reads: `first`, then `piece` repeatedly.
struct Flood {
    const char* about = "";
    std::string first = {};
    std::string piece = {};
    std::size_t pieces = 0;
    std::size_t sent = 0;  ///< bytes
};

class FloodBody final : public HttpBody {
public:
    explicit FloodBody(std::shared_ptr<Flood> flood) : flood_(std::move(flood)) {}

    Task<bool> read(std::string& out) override { co_return read_ready(out); }
    bool read_ready(std::string& out) override {
        std::string& next = flood_->first.empty() ? flood_->piece : flood_->first;
        if (flood_->pieces == 0) return false;
        if (flood_->first.empty()) --flood_->pieces;
        out += next;
        flood_->sent += next.size();
        flood_->first.clear();
        return true;
    }

private:
    std::shared_ptr<Flood> flood_;
};

class FloodTransport final : public HttpTransport {
public:
    explicit FloodTransport(std::shared_ptr<Flood> flood) : flood_(std::move(flood)) {}

    Task<HttpResponse> send(HttpRequest) override {
        HttpResponse response;
        response.status = 200;
        response.headers.set("content-type", "text/event-stream");
        response.body = std::make_unique<FloodBody>(flood_);
        co_return response;
    }

private:
    std::shared_ptr<Flood> flood_;
};

Task<> count_turns(std::shared_ptr<std::size_t> turns) {
    for (std::size_t limit = 1'000'000; *turns < limit; ++*turns) co_await yield_now();
}

Task<std::size_t> turns_during(MessageStream stream) {
    const auto turns = std::make_shared<std::size_t>(0);
    BackgroundScope others(co_await this_executor);
    others.spawn(count_turns(turns));
    for (;;) {
        std::optional<StreamEvent> event = stream.ready();
        if (!event) event = co_await stream.next();
        if (!event || event->is_terminal()) break;
    }
    const std::size_t counted = *turns;
    co_await others.close();
    co_return counted;
}

// Bytes that are always there already: other coroutines of the loop must run between the pieces, whatever the bytes decode to.
TEST(HttpStream, FloodOfBytes_LetsTheEventLoopRun) {
    const std::string delta =
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"}}]}\n\n";
    // A retry would wait on a clock that the test does not advance.
    RetryPolicy no_retries;
    no_retries.max_retries = 0;
    const std::vector<BoundModel> models{
        OpenAIProvider({.api_key = "k", .retry = no_retries}).model("m"),
        OpenAIResponsesProvider({.api_key = "k", .retry = no_retries}).model("m"),
        AnthropicProvider({.api_key = "k", .retry = no_retries}).model("m"),
    };
    const std::vector<Flood> floods{
        {"comments", ": begin\n", ": nothing\n"},
        {"empty events", "data: {}\n\n", "data: {}\n\n"},
        {"deltas", delta, delta},
        {"one long line", "data: ", std::string(1000, 'x')},
        {"one whole answer", "{\"x\": \"", std::string(1000, 'x')},
    };
    std::size_t longest = 0;
    for (const BoundModel& model : models) {
        for (const Flood& wanted : floods) {
            const auto flood = std::make_shared<Flood>(wanted);
            while (flood->piece.size() < 16 * 1024) flood->piece += wanted.piece;
            flood->pieces = 256;
            auto runtime = std::make_shared<const Runtime>(
                Runtime()
                    .with_clock(std::make_shared<ManualClock>())
                    .with_transport(std::make_shared<FloodTransport>(flood)));
            MessageList messages{user_message("x")};
            MessageStream stream = model.stream(std::move(messages), {}, {},
                                                StreamOptions().runtime(std::move(runtime)));
            const std::size_t turns = run(turns_during(std::move(stream)));
            EXPECT_GE(turns + 1, flood->sent / (512 * 1024)) << wanted.about;
            longest = std::max(longest, turns);
        }
    }
    EXPECT_GE(longest, 8u) << "no answer was read to its end";
}

/// The models of all providers, without a key, at an endpoint that requires one.
std::vector<BoundModel> signed_models(const RequestSigner& signer) {
    const std::string url = "https://models.example.com/v1";
    return {OpenAIProvider({.base_url = url, .sign_request = signer}).model("m"),
            OpenAIResponsesProvider({.base_url = url, .sign_request = signer}).model("m"),
            AnthropicProvider({.base_url = url, .sign_request = signer}).model("m")};
}

TEST(RequestSigner, EachRequestAndRetry_GetsANewKey) {
    int calls = 0;
    const RequestSigner signer = [&calls](HttpRequest& request) {
        request.headers.set("authorization", "Bearer token-" + std::to_string(++calls));
    };
    for (const BoundModel& model : signed_models(signer)) {
        calls = 0;
        const Asked call({MemoryResponse(503, "{}"), MemoryResponse(400, "{}")}, model);
        ASSERT_EQ(call.transport->requests().size(), 2u);
        EXPECT_EQ(call.header(0, "authorization"), "Bearer token-1");
        EXPECT_EQ(call.header(1, "authorization"), "Bearer token-2");
    }
}

TEST(RequestSigner, Signer_SeesMethodUrlAndBody) {
    const RequestSigner signer = [](HttpRequest& request) -> Task<> {
        request.headers.set("x-signature", request.method + " " + request.url + " " +
                                               std::to_string(request.body.size()));
        co_return;
    };
    for (const BoundModel& model : signed_models(signer)) {
        const Asked call({MemoryResponse(400, "{}")}, model);
        const HttpRequest sent = call.transport->requests().at(0);
        EXPECT_EQ(call.header(0, "x-signature"),
                  "POST " + sent.url + " " + std::to_string(sent.body.size()));
        EXPECT_GT(sent.body.size(), 10u);
    }
}

TEST(RequestSigner, D58_KeysOfSigner_AreRemovedFromErrors) {
    const RequestSigner signer = [](HttpRequest& request) {
        request.headers.set("authorization", "Bearer very-secret-token");
    };
    for (const BoundModel& model : signed_models(signer)) {
        const Asked call(
            {MemoryResponse(401, R"({"error":{"message":"unknown key very-secret-token"}})")
                 .with_header("content-type", "application/json")},
            model);
        EXPECT_NE(call.error().find("unknown key"), std::string::npos);
        EXPECT_EQ(call.error().find("very-secret-token"), std::string::npos);
    }
}

TEST(RequestSigner, FailedSigner_EndsTheCall) {
    const RequestSigner signer = [](HttpRequest&) -> Task<> {
        throw Error(ErrorCode::auth, "the token service is down");
    };
    for (const BoundModel& model : signed_models(signer)) {
        const Asked call({}, model);
        EXPECT_TRUE(call.transport->requests().empty());
        EXPECT_EQ(call.error(), "hook sign_request failed: the token service is down");
        EXPECT_EQ(call.message.error->code, ErrorCode::auth);
    }
}

Task<std::optional<JsonObject>> unchanged() { co_return std::nullopt; }

TEST(PayloadHookOfAProvider, PayloadHook_SeesTheHeadersWithoutKeys) {
    HttpHeaders seen;
    const PayloadHook hook = [&seen](JsonObject, Model, HttpHeaders headers) {
        seen = std::move(headers);
        return unchanged();
    };
    const OpenAIProvider openai({.api_key = "secret",
                                 .base_url = "https://models.example.com/v1",
                                 .extra_headers = {{"x-team", "search"}}});
    const Asked call({MemoryResponse(400, "{}")}, openai.model("m"), hook);
    EXPECT_EQ(seen.get("x-team"), "search");
    EXPECT_EQ(seen.get("content-type"), "application/json");
    EXPECT_FALSE(seen.find("authorization"));
}

}  // namespace
}  // namespace cubepi
