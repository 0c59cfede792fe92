#include <cstdlib>
#include <memory>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cubepi/core/outcome.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/core/timeout.hpp>
#include <cubepi/mcp/mcp_test.hpp>
#include <cubepi/process/process_test.hpp>
#include <cubepi/testing/memory_log.hpp>

namespace cubepi {
namespace {

using namespace mcp_test;
using ::testing::HasSubstr;
using ::testing::Not;

/// Returns the text of the failure; empty if there is none.
template <class T>
std::string failure_of(Task<T> task) {
    try {
        (void)run(std::move(task));
    } catch (const Error& error) {
        return error.what();
    }
    return {};
}

Task<std::string> call_text(std::shared_ptr<McpClient> client, std::string tool) {
    McpCall call(std::move(tool), JsonObject());
    const JsonObject result = co_await client->call(std::move(call));
    co_return text_of(result);
}

TEST(McpStdio, Child_StaysForAllRequests) {
    const auto client = FakeServer("modern").start();
    const auto twice = [](std::shared_ptr<McpClient> one) -> Task<> {
        const JsonObject first = co_await one->call(echo_call("a"));
        const JsonObject second = co_await one->call(echo_call("b"));
        EXPECT_EQ(text_of(first), "echo: a");
        EXPECT_EQ(text_of(second), "echo: b");
        co_await one->close();
    };
    run(twice(client));
}

TEST(McpStdio, D58_ServerEnvironment_HasNoSecrets) {
    ::setenv("MCP_TEST_API_KEY", "secret", 1);
    FakeServer server("modern");
    server.process.environment.set = {{"CONFIGURED", "yes"}};
    const std::string names = run(call_text(server.start(), "environment"));
    ::unsetenv("MCP_TEST_API_KEY");
    EXPECT_THAT(names, HasSubstr("CONFIGURED"));
    EXPECT_THAT(names, HasSubstr("PATH"));
    EXPECT_THAT(names, Not(HasSubstr("MCP_TEST_API_KEY")));
}

TEST(McpStdio, D58_SecretInLastWords_IsNotInErrors) {
    testing::MemoryLog log;
    FakeServer server("modern");
    // Longer than half of what is shown, so that parts of two do not fit.
    server.process.environment.set = {{"HUB_TOKEN", "token-of-server" + std::string(700, '7')}};
    server.runtime = std::make_shared<const Runtime>(Runtime().with_log(log.logger()));
    const std::string text = failure_of(call_text(server.start(), "die with token"));
    EXPECT_THAT(text, HasSubstr("the token *** is invalid"));
    EXPECT_TRUE(log.contains("the token *** is invalid")) << log.text();
    for (const char* part : {"token-of-server", "777"}) {
        EXPECT_THAT(text, Not(HasSubstr(part)));
        EXPECT_FALSE(log.contains(part)) << log.text();
    }
}

TEST(McpStdio, DeadServer_FailsWithStatusAndLastWords) {
    const auto client = FakeServer("modern").start();
    const std::string text = failure_of(call_text(client, "die"));
    EXPECT_THAT(text, HasSubstr("exited with status 3"));
    EXPECT_THAT(text, HasSubstr("the reason of the death"));
    // A connection that worked is opened again at once.
    const JsonObject again = run(client->call(echo_call("again")));
    EXPECT_EQ(text_of(again), "echo: again");
}

TEST(McpStdio, ServerThatDoesNotRead_IsDisconnected) {
    const auto client = FakeServer("2025-11-25").start();
    EXPECT_EQ(run(call_text(client, "close input")), "closed");
    EXPECT_THAT(failure_of(call_text(client, "echo")), HasSubstr("does not read"));
    // The next request starts the server again.
    const JsonObject again = run(client->call(echo_call("again")));
    EXPECT_EQ(text_of(again), "echo: again");
}

TEST(McpStdio, FailedStart_IsNotRepeatedAtOnce) {
    FakeServer server("die");
    server.process.restart_delay = std::chrono::hours(1);
    server.process.max_restart_delay = std::chrono::hours(1);
    const auto client = server.start();
    EXPECT_THAT(failure_of(client->connect()), HasSubstr("exited with status 4"));
    EXPECT_THAT(failure_of(client->connect()), HasSubstr("the next start is possible in"));
}

TEST(McpStdio, UnknownProgram_IsNamed) {
    FakeServer server("modern");
    server.process.program = "no-such-mcp-server";
    EXPECT_THAT(failure_of(server.start()->connect()), HasSubstr("no-such-mcp-server"));
}

TEST(McpStdio, SilentServer_EndsAtTheTimeout) {
    FakeServer server("silent");
    server.client.connect_timeout = std::chrono::milliseconds(50);
    EXPECT_THAT(failure_of(server.start()->connect()), HasSubstr("connect"));
}

TEST(McpStdio, Flood_EndsTheConnection) {
    FakeServer server("flood");
    server.client.limits.max_unrequested_bytes = 1 << 20;
    EXPECT_THAT(failure_of(server.start()->connect()), HasSubstr("without answering a request"));
}

TEST(McpStdio, Garbage_EndsTheConnection) {
    testing::MemoryLog log;
    FakeServer server("garbage");
    server.runtime = std::make_shared<const Runtime>(Runtime().with_log(log.logger()));
    EXPECT_THAT(failure_of(server.start()->connect()), HasSubstr("not JSON-RPC"));
    EXPECT_TRUE(log.contains("mcp.garbage server=fake"));
}

TEST(McpStdio, EndlessLine_EndsTheConnection) {
    EXPECT_THAT(failure_of(FakeServer("endless").start()->connect()), HasSubstr("bytes"));
}

TEST(McpStdio, HalfLine_IsNotAMessage) {
    EXPECT_THAT(failure_of(FakeServer("half").start()->connect()),
                HasSubstr("exited with status 0"));
}

TEST(McpStdio, LogLinesBetweenMessages_AreIgnored) {
    const JsonObject result = run(FakeServer("modern,chatty").start()->call(echo_call("x")));
    EXPECT_EQ(text_of(result), "echo: x");
}

TEST(McpStdio, RepeatedAndInventedResponses_AreIgnored) {
    const JsonObject result = run(FakeServer("modern,twice").start()->call(echo_call("x")));
    EXPECT_EQ(text_of(result), "first");
}

TEST(McpStdio, HugeResult_FailsTheCallOnly) {
    FakeServer server("modern");
    server.client.limits.max_message_bytes = 1 << 20;
    const auto client = server.start();
    EXPECT_THAT(failure_of(call_text(client, "huge")), HasSubstr("1048576 bytes"));
    const JsonObject next = run(client->call(echo_call("next")));
    EXPECT_EQ(text_of(next), "echo: next");
}

TEST(McpStdio, CancelledCall_IsWithdrawn) {
    const auto client = FakeServer("modern").start();
    McpCall hanging("hang", {});
    hanging.timeout = std::chrono::milliseconds(20);
    run(client->connect());
    EXPECT_FALSE(failure_of(client->call(std::move(hanging))).empty());
    EXPECT_EQ(run(call_text(client, "cancelled")), "[2]");
}

TEST(McpStdio, Close_EndsStubbornServerAndItsChildren) {
    const auto client = FakeServer("modern,stubborn").start();
    const pid_t child = std::stoi(run(call_text(client, "fork")));
    EXPECT_TRUE(is_running(child));
    run(client->close());
    expect_gone(child);
}

TEST(McpStdio, DestroyedClient_LeavesNoProcess) {
    auto client = FakeServer("modern").start();
    const pid_t child = std::stoi(run(call_text(client, "fork")));
    client.reset();
    run(yield_now());
    expect_gone(child);
}

TEST(McpStdio, StandardError_IsLoggedAtDebugOnly) {
    testing::MemoryLog log;
    FakeServer server("modern");
    server.runtime = std::make_shared<const Runtime>(Runtime().with_log(log.logger()));
    const auto client = server.start();
    (void)failure_of(call_text(client, "die"));
    EXPECT_TRUE(log.contains("<7>mcp.stderr server=fake line=\"the reason of the death\""))
        << log.text();
    EXPECT_TRUE(log.contains("mcp.disconnected server=fake error=disconnected")) << log.text();
}

}  // namespace
}  // namespace cubepi
