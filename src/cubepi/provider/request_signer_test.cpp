#include <cubepi/provider/request_signer.hpp>

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/provider/anthropic.hpp>
#include <cubepi/provider/openai.hpp>
#include <cubepi/provider/openai_responses.hpp>
#include <cubepi/testing/manual_clock.hpp>
#include <cubepi/testing/memory_transport.hpp>

#include "test_streams.hpp"

namespace cubepi {
namespace {

using testing::ManualClock;
using testing::MemoryResponse;
using testing::MemoryTransport;

struct Call {
    Call(std::vector<MemoryResponse> answers, const BoundModel& model, PayloadHook on_payload = {})
        : transport(std::make_shared<MemoryTransport>(std::move(answers), clock)) {
        auto runtime = std::make_shared<const Runtime>(
            Runtime().with_clock(clock).with_transport(transport).with_ids(
                std::make_shared<testing::SequentialIds>()));
        StreamOptions options = StreamOptions().runtime(std::move(runtime));
        if (on_payload) options = std::move(options).on_payload(std::move(on_payload));
        MessageStream stream = model.stream(MessageList{user_message("x")}, {}, {}, options);
        const auto events = testing::run_advancing(*clock, read_all(std::move(stream)));
        message = events.back().partial.get();
    }
    std::string header(std::size_t request, std::string_view name) const {
        return std::string(transport->requests().at(request).headers.get(name));
    }
    std::string error() const { return message.error_message.str(); }

    std::shared_ptr<ManualClock> clock = std::make_shared<ManualClock>();
    std::shared_ptr<MemoryTransport> transport;
    AssistantMessage message;
};

/// The models of all providers, without a key, at an endpoint that requires one.
std::vector<BoundModel> models(const RequestSigner& signer) {
    const std::string url = "https://models.example.com/v1";
    return {OpenAIProvider({.base_url = url, .sign_request = signer}).model("m"),
            OpenAIResponsesProvider({.base_url = url, .sign_request = signer}).model("m"),
            AnthropicProvider({.base_url = url, .sign_request = signer}).model("m")};
}

TEST(RequestSigner, SetsTheKeyOfEachRequestAlsoOfARetry) {
    int calls = 0;
    const RequestSigner signer = [&calls](HttpRequest& request) {
        request.headers.set("authorization", "Bearer token-" + std::to_string(++calls));
    };
    for (const BoundModel& model : models(signer)) {
        calls = 0;
        const Call call({MemoryResponse(503, "{}"), MemoryResponse(400, "{}")}, model);
        ASSERT_EQ(call.transport->requests().size(), 2u);
        EXPECT_EQ(call.header(0, "authorization"), "Bearer token-1");
        EXPECT_EQ(call.header(1, "authorization"), "Bearer token-2");
    }
}

TEST(RequestSigner, SeesMethodUrlAndBody) {
    const RequestSigner signer = [](HttpRequest& request) -> Task<> {
        request.headers.set("x-signature", request.method + " " + request.url + " " +
                                               std::to_string(request.body.size()));
        co_return;
    };
    for (const BoundModel& model : models(signer)) {
        const Call call({MemoryResponse(400, "{}")}, model);
        const HttpRequest sent = call.transport->requests().at(0);
        EXPECT_EQ(call.header(0, "x-signature"),
                  "POST " + sent.url + " " + std::to_string(sent.body.size()));
        EXPECT_GT(sent.body.size(), 10u);
    }
}

TEST(RequestSigner, D58_ItsKeysAreRemovedFromErrors) {
    const RequestSigner signer = [](HttpRequest& request) {
        request.headers.set("authorization", "Bearer very-secret-token");
    };
    for (const BoundModel& model : models(signer)) {
        const Call call(
            {MemoryResponse(401, R"({"error":{"message":"unknown key very-secret-token"}})")
                 .with_header("content-type", "application/json")},
            model);
        EXPECT_NE(call.error().find("unknown key"), std::string::npos);
        EXPECT_EQ(call.error().find("very-secret-token"), std::string::npos);
    }
}

TEST(RequestSigner, ItsFailureEndsTheCall) {
    const RequestSigner signer = [](HttpRequest&) -> Task<> {
        throw Error(ErrorCode::auth, "the token service is down");
    };
    for (const BoundModel& model : models(signer)) {
        const Call call({}, model);
        EXPECT_TRUE(call.transport->requests().empty());
        EXPECT_EQ(call.error(), "hook sign_request failed: the token service is down");
        EXPECT_EQ(call.message.error->code, ErrorCode::auth);
    }
}

Task<std::optional<JsonObject>> unchanged() { co_return std::nullopt; }

TEST(PayloadHookOfAProvider, SeesTheHeadersWithoutKeys) {
    HttpHeaders seen;
    const PayloadHook hook = [&seen](JsonObject, Model, HttpHeaders headers) {
        seen = std::move(headers);
        return unchanged();
    };
    const OpenAIProvider openai({.api_key = "secret",
                                 .base_url = "https://models.example.com/v1",
                                 .extra_headers = {{"x-team", "search"}}});
    const Call call({MemoryResponse(400, "{}")}, openai.model("m"), hook);
    EXPECT_EQ(seen.get("x-team"), "search");
    EXPECT_EQ(seen.get("content-type"), "application/json");
    EXPECT_FALSE(seen.find("authorization"));
}

}  // namespace
}  // namespace cubepi
