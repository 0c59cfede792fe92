#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <cubepi/core/run.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/provider/anthropic.hpp>
#include <cubepi/provider/openai.hpp>
#include <cubepi/provider/openai_responses.hpp>

#include "../net/raw_server.hpp"
#include "wire_cases.hpp"

// The recorded exchanges of tests/conformance/wire with each provider.

namespace cubepi::wire {
namespace {

/// The answers of a policy to its three questions in a case.
class FixedPolicy final : public CacheMarkerPolicy {
public:
    explicit FixedPolicy(const Json& form) : form_(form) {}
    bool mark_system() const override { return form_.at("system").as_bool(); }
    bool mark_last_tool() const override { return form_.at("last_tool").as_bool(); }
    std::vector<std::size_t> message_breakpoint_indices(const MessageList&) const override {
        std::vector<std::size_t> indices;
        for (const Json& index : form_.at("messages").as_array())
            indices.push_back(index.to_number<std::size_t>());
        return indices;
    }

private:
    Json form_;
};

std::shared_ptr<Provider> make_anthropic(const Json& constructor) {
    AnthropicOptions made;
    made.api_key = "sk-test";
    made.base_url = "http://endpoint";
    const std::string retention = text_of(constructor, "cache_retention");
    if (retention == "long") made.cache_retention = CacheRetention::one_hour;
    if (retention == "none") made.cache_retention = CacheRetention::none;
    if (const Json* policy = member(constructor, "cache_policy"))
        made.cache_policy = std::make_shared<const FixedPolicy>(*policy);
    return std::make_shared<AnthropicProvider>(std::move(made));
}

class AnthropicWireCases : public ::testing::TestWithParam<std::string> {};

TEST_P(AnthropicWireCases, EachCase_HasItsRequestMessageAndEvents) {
    expect_case_holds(GetParam(), make_anthropic);
}

INSTANTIATE_TEST_SUITE_P(Anthropic, AnthropicWireCases, ::testing::ValuesIn(cases_of("anthropic-")),
                         case_test_name);

std::shared_ptr<Provider> make_chat(const Json& constructor) {
    OpenAIOptions made;
    made.api_key = "sk-test";
    made.base_url = "http://endpoint/v1";
    // The cases contain the original's words for effort, regardless of what a model accepts.
    made.capability.reasoning = openai_chat_reasoning();
    if (const Json* body = member(constructor, "extra_body")) made.extra_body = body->as_object();
    if (const Json* headers = member(constructor, "extra_headers")) {
        for (const auto& [name, value] : headers->as_object())
            made.extra_headers.emplace_back(name, value.as_string());
    }
    if (const Json* capability = member(constructor, "capability")) {
        const std::string field = text_of(*capability, "max_tokens_field");
        if (!field.empty()) made.capability.max_tokens_field = field;
    }
    return std::make_shared<OpenAIProvider>(std::move(made));
}

class ChatWireCases : public ::testing::TestWithParam<std::string> {};

TEST_P(ChatWireCases, EachCase_HasItsRequestMessageAndEvents) {
    expect_case_holds(GetParam(), make_chat);
}

INSTANTIATE_TEST_SUITE_P(OpenAIChat, ChatWireCases, ::testing::ValuesIn(cases_of("openai-chat-")),
                         case_test_name);

std::shared_ptr<Provider> make_responses(const Json& constructor) {
    OpenAIResponsesOptions made;
    made.api_key = "sk-test";
    made.base_url = "http://endpoint/v1";
    // The cases contain the original's words for effort, regardless of what a model accepts.
    made.capability.reasoning = openai_responses_reasoning();
    if (const Json* headers = member(constructor, "extra_headers")) {
        for (const auto& [name, value] : headers->as_object())
            made.extra_headers.emplace_back(name, value.as_string());
    }
    return std::make_shared<OpenAIResponsesProvider>(std::move(made));
}

class ResponsesWireCases : public ::testing::TestWithParam<std::string> {};

TEST_P(ResponsesWireCases, EachCase_HasItsRequestMessageAndEvents) {
    expect_case_holds(GetParam(), make_responses);
}

INSTANTIATE_TEST_SUITE_P(OpenAIResponses, ResponsesWireCases,
                         ::testing::ValuesIn(cases_of("openai-responses-")), case_test_name);

}  // namespace
}  // namespace cubepi::wire

// A recorded stream over a socket, cut at every byte, trickled, half-closed, stalled.

namespace cubepi {
namespace {

const std::string recorded =
    "data: "
    "{\"id\":\"r\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}"
    "\r\n\r\n"
    ": keep-alive\r\n\r\n"
    "data:{\"id\":\"r\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Gr\xc3\xbc\xc3\x9f "
    "\xf0\x9f\x98\x80\"}}]}\r\n\r\n"
    "data: "
    "{\"id\":\"r\",\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"c\","
    "\"function\":{\"name\":\"add\","
    "\"arguments\":\"{\\\"a\\\":1}\"}}]}}]}\r\n\r\n"
    "data: "
    "{\"id\":\"r\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"tool_calls\"}]}"
    "\r\n\r\n"
    "data: [DONE]\r\n\r\n";

const std::string head =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

BoundModel model_at(const wire::RawServer& server) {
    OpenAIOptions options;
    options.base_url = server.url("/v1");
    options.retry.max_retries = 0;
    return OpenAIProvider(std::move(options)).model("m");
}

AssistantMessage ask(const wire::RawServer& server) {
    MessageList messages{user_message("x")};
    return run(model_at(server).generate(std::move(messages)));
}

void expect_whole(const AssistantMessage& message, std::size_t cut) {
    EXPECT_EQ(message.stop_reason, "tool_use") << cut << " " << message.error_message;
    EXPECT_EQ(message.text(), "Gr\xc3\xbc\xc3\x9f \xf0\x9f\x98\x80") << cut;
    ASSERT_EQ(message.tool_calls().size(), 1u) << cut;
    EXPECT_EQ(message.tool_calls()[0]->arguments, JsonObject({{"a", 1}})) << cut;
}

TEST(Trickle, AnswerCutAtAnyByte_IsTheSame) {
    std::size_t cut = 1;
    wire::RawServer server([&cut](wire::Connection& connection) {
        while (!connection.read_request().empty()) {
            connection.send(head + wire::chunk(recorded.substr(0, cut)));
            connection.send(wire::chunk(recorded.substr(cut)) + "0\r\n\r\n");
        }
    });
    for (; cut < recorded.size(); ++cut) expect_whole(ask(server), cut);
}

TEST(Trickle, SingleBytes_YieldTheSameAnswer) {
    wire::RawServer server([](wire::Connection& connection) {
        connection.read_request();
        connection.send(head);
        for (const char byte : recorded) connection.send(wire::chunk(std::string(1, byte)));
        connection.send("0\r\n\r\n");
        connection.wait_until_closed();
    });
    expect_whole(ask(server), 0);
}

TEST(Trickle, ConnectionOpenAfterDone_AnswerIsComplete) {
    wire::RawServer server([](wire::Connection& connection) {
        connection.read_request();
        connection.send(head + wire::chunk(recorded));
        connection.wait_until_closed();
    });
    expect_whole(ask(server), 0);
}

TEST(Trickle, HalfClosedConnection_IsADisconnect) {
    wire::RawServer server([](wire::Connection& connection) {
        connection.read_request();
        connection.send(
            head + wire::chunk(recorded.substr(
                       0, recorded.find(
                              "data: {\"id\":\"r\",\"choices\":[{\"index\":0,\"delta\":{\"tool"))));
        connection.half_close();
        connection.wait_until_closed();
    });
    const AssistantMessage message = ask(server);
    EXPECT_EQ(message.stop_reason, "error");
    EXPECT_EQ(message.error->code, ErrorCode::disconnected);
    EXPECT_EQ(message.text(), "Gr\xc3\xbc\xc3\x9f \xf0\x9f\x98\x80");
}

TEST(Trickle, D7_Abort_ClosesTheConnection) {
    wire::RawServer server([](wire::Connection& connection) {
        connection.read_request();
        connection.send(head + wire::chunk(recorded.substr(0, 250)));
        connection.wait_until_closed();
    });
    std::stop_source stop;
    MessageList messages{user_message("x")};
    MessageStream stream = model_at(server).stream(std::move(messages), {}, {},
                                                   StreamOptions().stop_token(stop.get_token()));
    const AssistantMessage message =
        run([](MessageStream& from, std::stop_source& source) -> Task<AssistantMessage> {
            (void)co_await from.next();
            source.request_stop();
            co_return co_await from.result();
        }(stream, stop));
    EXPECT_EQ(message.stop_reason, "aborted");
    run([](int turns) -> Task<> {
        for (int i = 0; i < turns; ++i) co_await yield_now();
    }(10));
    server.wait_for_ended(1);
}

}  // namespace
}  // namespace cubepi
