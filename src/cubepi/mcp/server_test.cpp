#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cubepi/core/run.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/mcp/mcp_server_test.hpp>

namespace cubepi {
namespace {

using namespace mcp_test;
using ::testing::HasSubstr;

TEST(McpServerTest, StatelessClient_DiscoversListsAndCalls) {
    const auto answers =
        exchange({modern(1, "server/discover"), modern(2, "tools/list"),
                  modern(3, "tools/call", R"("name":"echo","arguments":{"text":"hi"})")});
    ASSERT_EQ(answers.size(), 3U);
    EXPECT_EQ(member(answers[0], "supportedVersions"), R"(["2026-07-28"])");
    EXPECT_EQ(member(answers[0], "resultType"), R"("complete")");
    EXPECT_EQ(member(answers[0], "_meta"),
              R"({"io.modelcontextprotocol/serverInfo":{"name":"test","version":"1"}})");
    EXPECT_EQ(member(answers[1], "ttlMs"), "0");
    const JsonArray& tools = answers[1].result.at("tools").as_array();
    ASSERT_EQ(tools.size(), 4U);
    EXPECT_EQ(tools[0].at("name"), Json("echo"));
    EXPECT_EQ(tools[0].at("inputSchema").at("type"), Json("object"));
    EXPECT_EQ(member(answers[2], "content"), R"([{"type":"text","text":"hi"}])");
}

TEST(McpServerTest, EarlierClient_OpensSession) {
    const auto answers =
        exchange({request(1, "tools/list", ""), request(2, "ping", ""),
                  request(3, "initialize", R"("protocolVersion":"2025-06-18","capabilities":{})"),
                  "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n",
                  request(4, "tools/call", R"("name":"echo","arguments":{"text":"hi"})")});
    ASSERT_EQ(answers.size(), 4U);
    EXPECT_EQ(answers[0].code, mcp_error::invalid_request);
    EXPECT_EQ(answers[1].kind, RpcMessage::Kind::result);
    EXPECT_EQ(member(answers[2], "protocolVersion"), R"("2025-06-18")");
    EXPECT_EQ(member(answers[2], "serverInfo"), R"({"name":"test","version":"1"})");
    EXPECT_EQ(member(answers[3], "content"), R"([{"type":"text","text":"hi"}])");
    EXPECT_EQ(member(answers[3], "resultType"), "absent");
}

TEST(McpServerTest, UnknownVersionOfSession_GetsTheNewestOne) {
    const auto answers = exchange({request(1, "initialize", R"("protocolVersion":"1.0")")});
    EXPECT_EQ(member(answers[0], "protocolVersion"), R"("2025-11-25")");
}

TEST(McpServerTest, InvalidMeta_IsRefused) {
    const auto answers = exchange(
        {request(1, "tools/list",
                 R"("_meta":{"io.modelcontextprotocol/protocolVersion":"2030-01-01"})"),
         request(2, "tools/list",
                 R"("_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"})"),
         request(3, "tools/list", R"("_meta":{"io.modelcontextprotocol/clientCapabilities":{}})"),
         request(4, "tools/list", R"("_meta":{"io.modelcontextprotocol/protocolVersion":7})")});
    ASSERT_EQ(answers.size(), 4U);
    EXPECT_EQ(answers[0].code, mcp_error::unsupported_version);
    EXPECT_EQ(json_text(answers[0].data),
              R"({"supported":["2026-07-28"],"requested":"2030-01-01"})");
    for (std::size_t i = 1; i < 4; ++i) EXPECT_EQ(answers[i].code, mcp_error::invalid_params);
}

TEST(McpServerTest, WrongCalls_AreErrors) {
    const auto answers = exchange({modern(1, "tools/call", R"("name":"missing")"),
                                   modern(2, "tools/call", R"("name":"hidden")"),
                                   modern(3, "tools/call", R"("name":"echo","arguments":7)"),
                                   modern(4, "tools/call", R"("name":"echo","arguments":{})"),
                                   modern(5, "resources/list"), modern(6, "ping"),
                                   modern(7, "tools/list", R"("cursor":"x")")});
    ASSERT_EQ(answers.size(), 7U);
    std::map<std::string, RpcMessage> by_id;
    for (const RpcMessage& answer : answers) by_id.emplace(json_text(answer.id), answer);
    EXPECT_EQ(by_id["1"].code, mcp_error::invalid_params);
    EXPECT_EQ(by_id["2"].code, mcp_error::invalid_params);
    EXPECT_EQ(by_id["3"].code, mcp_error::invalid_params);
    // Arguments that do not fit are a result that the model can read.
    EXPECT_EQ(member(by_id["4"], "isError"), "true");
    EXPECT_EQ(by_id["5"].code, mcp_error::method_not_found);
    EXPECT_EQ(by_id["6"].code, mcp_error::method_not_found);
    EXPECT_EQ(by_id["7"].code, mcp_error::invalid_params);
}

TEST(McpServerTest, Garbage_IsAnsweredAndSurvived) {
    const auto answers =
        exchange({"garbage\n", "[]\n", "{}\n", "\n", modern(1, "server/discover")});
    ASSERT_EQ(answers.size(), 4U);
    EXPECT_EQ(answers[0].code, mcp_error::parse);
    EXPECT_EQ(answers[1].code, mcp_error::invalid_request);
    EXPECT_EQ(answers[2].code, mcp_error::invalid_request);
    EXPECT_EQ(answers[3].kind, RpcMessage::Kind::result);
}

TEST(McpServerTest, OversizedLine_EndsTheConnection) {
    TestServer server;
    server.options.max_message_bytes = 100;
    EXPECT_THROW(exchange({std::string(200, 'x')}, server), Error);
}

TEST(McpServerTest, Progress_HasTheTokenOfItsRequest) {
    const auto answers = exchange(
        {request(1, "tools/call", R"("name":"steps",)" + meta + R"(,"progressToken":"t1"})")});
    ASSERT_EQ(answers.size(), 3U);
    EXPECT_EQ(answers[0].method, "notifications/progress");
    EXPECT_EQ(json_text(answers[0].params),
              R"({"progressToken":"t1","progress":1,"message":"step one"})");
    EXPECT_EQ(json_text(answers[1].params),
              R"({"progressToken":"t1","progress":2,"total":2,"message":"step two"})");
    EXPECT_EQ(member(answers[2], "content"), R"([{"type":"text","text":"done"}])");
    EXPECT_EQ(exchange({modern(1, "tools/call", R"("name":"steps")")}).size(), 1U);
}

Task<> cancel_call(std::shared_ptr<Pipe> pipe, std::shared_ptr<AsyncEvent> started,
                   std::shared_ptr<AsyncEvent> aborted) {
    co_await started->wait();
    (void)pipe->to_server.force_push(
        R"({"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}})"
        "\n");
    co_await aborted->wait();
    // Of a call that has ended, and with an id that never was one.
    (void)pipe->to_server.force_push(
        R"({"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}})"
        "\n"
        R"({"jsonrpc":"2.0","method":"notifications/cancelled"})"
        "\n");
    (void)pipe->to_server.force_push(modern(2, "server/discover"));
    pipe->to_server.close();
}

TEST(McpServerTest, CancelledCall_IsAbortedWithoutResponse) {
    const TestServer settings;
    const auto server = settings.make();
    const auto pipe = std::make_shared<Pipe>();
    (void)pipe->to_server.force_push(modern(1, "tools/call", R"("name":"wait")"));
    std::vector<Task<>> both;
    both.push_back(server->serve(std::make_unique<PipeStream>(pipe)));
    both.push_back(cancel_call(pipe, settings.started, settings.aborted));
    run(when_all(std::move(both)));
    ASSERT_EQ(pipe->received.size(), 1U);
    EXPECT_EQ(pipe->received[0].id, Json(2));
}

Task<> close_after_start(std::shared_ptr<Pipe> pipe, std::shared_ptr<AsyncEvent> started) {
    co_await started->wait();
    (void)pipe->to_server.force_push(modern(1, "server/discover"));
    while (pipe->received.empty()) co_await pipe->arrived.wait();
    (void)pipe->to_server.force_push(
        R"({"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}})"
        "\n");
    pipe->to_server.close();
}

TEST(McpServerTest, RepeatedIdOfRunningRequest_IsRefused) {
    const TestServer settings;
    const auto server = settings.make();
    const auto pipe = std::make_shared<Pipe>();
    (void)pipe->to_server.force_push(modern(1, "tools/call", R"("name":"wait")"));
    std::vector<Task<>> both;
    both.push_back(server->serve(std::make_unique<PipeStream>(pipe)));
    both.push_back(close_after_start(pipe, settings.started));
    run(when_all(std::move(both)));
    ASSERT_EQ(pipe->received.size(), 1U);
    EXPECT_EQ(pipe->received[0].code, mcp_error::invalid_request);
}

TEST(McpServerTest, ClientThatDoesNotRead_EndsTheConnection) {
    const TestServer settings;
    const auto server = settings.make();
    const auto pipe = std::make_shared<Pipe>();
    pipe->is_broken = true;
    (void)pipe->to_server.force_push(modern(1, "tools/call", R"("name":"wait")"));
    (void)pipe->to_server.force_push(modern(2, "server/discover"));
    EXPECT_THROW(run(server->serve(std::make_unique<PipeStream>(pipe))), Error);
    EXPECT_TRUE(settings.aborted->is_set());
}

Task<> read_late(std::shared_ptr<Pipe> pipe, std::size_t* unread) {
    for (int i = 0; i < 10'000; ++i) co_await yield_now();
    *unread = pipe->to_server.size();
    pipe->may_write.set();
}

TEST(McpServerTest, ClientThatReadsLate_IsNotReadEither) {
    constexpr std::size_t sent = 500;
    TestServer settings;
    settings.options.max_requests = 4;
    const auto server = settings.make();
    const auto pipe = std::make_shared<Pipe>();
    pipe->may_write.reset();
    for (std::size_t i = 0; i < sent; ++i)
        (void)pipe->to_server.force_push(modern(static_cast<int>(i), "server/discover"));
    pipe->to_server.close();
    std::size_t unread = 0;
    std::vector<Task<>> both;
    both.push_back(server->serve(std::make_unique<PipeStream>(pipe)));
    both.push_back(read_late(pipe, &unread));
    run(when_all(std::move(both)));
    // The queue of 64 messages, the requests in progress and the one that is refused.
    EXPECT_GT(unread, sent - 100);
    EXPECT_EQ(pipe->received.size(), sent);
}

TEST(McpServerTest, Hooks_DecideAboutCalls) {
    TestServer server;
    server.options.hooks.before_tool_call = [](BeforeToolCallContext&) {
        return BeforeToolCallResult{.block = true, .reason = "not allowed"};
    };
    const auto answers =
        exchange({modern(1, "tools/call", R"("name":"echo","arguments":{"text":"hi"})")}, server);
    EXPECT_EQ(member(answers[0], "isError"), "true");
    EXPECT_THAT(member(answers[0], "content"), HasSubstr("not allowed"));
}

}  // namespace
}  // namespace cubepi
