#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/core/run.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/provider/openai.hpp>

#include "../net/raw_server.hpp"

// The same recorded stream over a socket, cut at every byte, trickled, half-closed, stalled.

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

TEST(Trickle, TheSameAnswerCutAtEveryByte) {
    std::size_t cut = 1;
    wire::RawServer server([&cut](wire::Connection& connection) {
        while (!connection.read_request().empty()) {
            connection.send(head + wire::chunk(recorded.substr(0, cut)));
            connection.send(wire::chunk(recorded.substr(cut)) + "0\r\n\r\n");
        }
    });
    for (; cut < recorded.size(); ++cut) expect_whole(ask(server), cut);
}

TEST(Trickle, OneByteAtATime) {
    wire::RawServer server([](wire::Connection& connection) {
        connection.read_request();
        connection.send(head);
        for (const char byte : recorded) connection.send(wire::chunk(std::string(1, byte)));
        connection.send("0\r\n\r\n");
        connection.wait_until_closed();
    });
    expect_whole(ask(server), 0);
}

TEST(Trickle, AServerThatNeverEndsTheConnectionAfterDone) {
    wire::RawServer server([](wire::Connection& connection) {
        connection.read_request();
        connection.send(head + wire::chunk(recorded));
        connection.wait_until_closed();
    });
    expect_whole(ask(server), 0);
}

TEST(Trickle, TreatsAHalfClosedConnectionAsADisconnect) {
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

TEST(Trickle, D7_AnAbortClosesTheConnection) {
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
