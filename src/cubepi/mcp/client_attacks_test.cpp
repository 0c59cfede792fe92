// Servers that are broken or hostile: what they do ends their own requests, and nothing else.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cubepi/agent/agent.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/mcp/mcp_test.hpp>
#include <cubepi/mcp/tools.hpp>
#include <cubepi/provider/faux.hpp>

namespace cubepi {
namespace {

using namespace mcp_test;
using ::testing::HasSubstr;

/// Returns the text of the failure of a call, or of its result, and then of another call.
Task<std::vector<std::string>> call_and_echo(std::shared_ptr<McpClient> client, McpCall call) {
    std::vector<std::string> texts;
    Task<JsonObject> calling = client->call(std::move(call));
    Outcome<JsonObject> called = co_await outcome_of(std::move(calling));
    texts.push_back(called.ok() ? text_of(called.value()) : exception_text(called.failure()));
    const JsonObject next = co_await client->call(echo_call("next"));
    texts.push_back(text_of(next));
    co_return texts;
}

TEST(McpAttacks, HundredMegabytes_FailTheCallOnly) {
    const auto client = FakeServer("modern").start();
    JsonObject arguments;
    arguments["megabytes"] = 100;
    const auto texts = run(call_and_echo(client, McpCall("huge", std::move(arguments))));
    EXPECT_THAT(texts.at(0), HasSubstr("more than 16777216 bytes"));
    EXPECT_EQ(texts.at(1), "echo: next");
}

TEST(McpAttacks, FloodDuringACall_FailsTheCallOnly) {
    FakeServer server("modern");
    server.client.limits.max_unrequested_bytes = 1 << 20;
    const auto texts = run(call_and_echo(server.start(), McpCall("flood", {})));
    EXPECT_THAT(texts.at(0), HasSubstr("without answering a request"));
    EXPECT_EQ(texts.at(1), "echo: next");
}

TEST(McpAttacks, OrphanThatHoldsTheOutput_DelaysNothing) {
    const auto texts = run(call_and_echo(FakeServer("modern").start(), McpCall("orphan", {})));
    EXPECT_THAT(texts.at(0), HasSubstr("exited with status 3"));
    EXPECT_EQ(texts.at(1), "echo: next");
}

Task<> use(std::shared_ptr<McpClient> client) {
    (void)co_await client->tools();
    (void)co_await client->call(echo_call("x"));
}

TEST(McpAttacks, DeathInEachPhase_IsReported) {
    for (const std::string mode :
         {"modern,die at=server/discover", "modern,die at=tools/list", "modern,die at=tools/call",
          "2025-11-25,die at=initialize", "2025-11-25,die at=notifications/initialized",
          "2025-11-25,die at=tools/list", "2025-11-25,die at=tools/call"}) {
        try {
            run(use(FakeServer(mode).start()));
            ADD_FAILURE() << mode;
        } catch (const Error& error) {
            EXPECT_THAT(error.what(), HasSubstr("exited with status 5")) << mode;
        }
    }
}

TEST(McpAttacks, SchemaBomb_EndsInAnErrorResult) {
    const auto client = FakeServer("modern,bomb").start();
    const McpTools made = run(mcp_tools(client));
    ASSERT_EQ(made.tools.size(), 1U);
    FauxProvider faux;
    JsonObject arguments;
    arguments["text"] = "x";
    faux.set_responses({faux_assistant_message(
                            faux_tool_call("mcp__fake__echo", std::move(arguments)), "tool_use"),
                        "done"});
    Agent agent({.model = faux.model(), .tools = made.tools});
    const RunResult result = run(agent.prompt("Go"));
    EXPECT_TRUE(result.new_messages[2].tool_result()->is_error);
    EXPECT_EQ(result.new_messages[3].text(), "done");
}

}  // namespace
}  // namespace cubepi
