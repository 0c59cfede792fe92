#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/mcp/mcp_test.hpp>
#include <cubepi/schema/parse_json.hpp>
#include <cubepi/testing/memory_log.hpp>

namespace cubepi {
namespace {

using namespace mcp_test;
using ::testing::HasSubstr;

std::vector<std::string> names_of(const McpToolList& list) {
    std::vector<std::string> names;
    for (const McpTool& tool : list.tools) names.push_back(tool.name);
    return names;
}

TEST(McpClient, StatelessServer_NeedsNoInitialize) {
    const auto client = FakeServer("modern").start();
    const McpServerInfo info = run(client->connect());
    EXPECT_TRUE(info.is_stateless);
    EXPECT_EQ(info.version, "2026-07-28");
    EXPECT_EQ(info.implementation.name, "fake");
    const JsonObject result = run(client->call(McpCall("meta", {})));
    const Json meta = parse_json(text_of(result));
    EXPECT_EQ(meta.at("io.modelcontextprotocol/protocolVersion"), Json("2026-07-28"));
    EXPECT_EQ(meta.at("io.modelcontextprotocol/clientInfo").at("name"), Json("cubepi"));
    EXPECT_TRUE(meta.at("io.modelcontextprotocol/clientCapabilities").is_object());
}

TEST(McpClient, EarlierServers_AreInitializedOnTheSameConnection) {
    for (const std::string version : {"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"}) {
        const auto client = FakeServer(version).start();
        const McpServerInfo info = run(client->connect());
        EXPECT_EQ(info.version, version);
        EXPECT_FALSE(info.is_stateless);
        EXPECT_EQ(text_of(run(client->call(echo_call("x")))), "echo: x");
    }
}

TEST(McpClient, UnansweredProbe_FallsBackToInitialize) {
    FakeServer server("2025-06-18,deaf");
    server.client.probe_timeout = std::chrono::milliseconds(50);
    EXPECT_EQ(run(server.start()->connect()).version, "2025-06-18");
}

TEST(McpClient, LateAnswerToProbe_LeadsBackToIt) {
    FakeServer server("modern,late");
    server.client.probe_timeout = std::chrono::seconds(1);
    EXPECT_EQ(run(server.start()->connect()).version, "2026-07-28");
}

TEST(McpClient, UnknownVersion_IsRejected) {
    try {
        run(FakeServer("2020-01-01").start()->connect());
        FAIL();
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::unsupported);
        EXPECT_THAT(error.what(), HasSubstr("2020-01-01"));
    }
}

TEST(McpClient, FixedVersion_IsNotProbed) {
    FakeServer server("2025-06-18");
    server.client.version = "2025-06-18";
    EXPECT_EQ(run(server.start()->connect()).version, "2025-06-18");
}

TEST(McpClient, ConcurrentFirstRequests_ConnectOnce) {
    const auto client = FakeServer("modern").start();
    std::vector<Task<JsonObject>> calls;
    for (int i = 0; i < 5; ++i) calls.push_back(client->call(McpCall("fork", {})));
    const std::vector<JsonObject> results = run(when_all(std::move(calls)));
    EXPECT_EQ(results.size(), 5U);
    run(client->close());
}

TEST(McpClient, Pages_AreReadToTheEnd) {
    const auto list = run(FakeServer("modern,paged").start()->tools());
    EXPECT_EQ(names_of(*list), (std::vector<std::string>{"page0", "page1", "page2"}));
}

TEST(McpClient, RepeatedCursor_EndsTheList) {
    const auto list = run(FakeServer("modern,loop").start()->tools());
    EXPECT_EQ(list->tools.size(), 1U);
    EXPECT_THAT(list->problems, ::testing::ElementsAre(HasSubstr("repeats pages")));
}

TEST(McpClient, FiveThousandTools_AreLimited) {
    const auto list = run(FakeServer("modern,many").start()->tools());
    EXPECT_EQ(list->tools.size(), 512U);
    EXPECT_THAT(list->problems, ::testing::ElementsAre(HasSubstr("first 512 tools")));
}

TEST(McpClient, UnusableTools_AreLeftOutWithReasons) {
    const auto list = run(FakeServer("modern,hostile").start()->tools());
    EXPECT_EQ(names_of(*list),
              (std::vector<std::string>{"good", "other.name", "other/name", "ordering"}));
    EXPECT_EQ(list->problems.size(), 9U);
    for (const std::string& problem : list->problems)
        EXPECT_EQ(problem.find('\x1b'), std::string::npos) << problem;
}

TEST(McpClient, FreshList_IsNotRequestedAgain) {
    const auto client = FakeServer("modern").start();
    const auto both = [](std::shared_ptr<McpClient> one) -> Task<bool> {
        const auto first = co_await one->tools();
        const auto second = co_await one->tools();
        co_return first == second;
    };
    EXPECT_TRUE(run(both(client)));
}

TEST(McpClient, ListChanged_RefreshesTheList) {
    const auto client = FakeServer("2025-11-25").start();
    const std::size_t before = run(client->tools())->tools.size();
    const std::uint64_t revision = client->tools_revision();
    run(client->call(McpCall("change", {})));
    EXPECT_NE(client->tools_revision(), revision);
    EXPECT_EQ(run(client->tools())->tools.size(), before + 1);
}

TEST(McpClient, Digest_ChangesWithTheDefinition) {
    const auto list = run(FakeServer("modern").start()->tools());
    EXPECT_EQ(list->tools[0].digest.size(), 64U);
    EXPECT_NE(list->tools[0].digest, list->tools[1].digest);
    const auto again = run(FakeServer("2025-11-25").start()->tools());
    EXPECT_EQ(list->tools[0].digest, again->tools[0].digest);
}

TEST(McpClient, ErrorResponse_IsMcpError) {
    try {
        run(FakeServer("modern").start()->call(McpCall("missing", {})));
        FAIL();
    } catch (const McpError& error) {
        EXPECT_EQ(error.rpc_code(), mcp_error::invalid_params);
        EXPECT_THAT(error.what(), HasSubstr("Unknown tool: missing"));
    }
}

Task<JsonObject> answer_ann(std::string method, JsonObject) {
    EXPECT_EQ(method, "elicitation/create");
    JsonObject content;
    content["name"] = "Ann";
    JsonObject answer;
    answer["action"] = "accept";
    answer["content"] = std::move(content);
    co_return answer;
}

TEST(McpClient, InputRequest_ContinuesTheCall) {
    McpCall call("ask", {});
    call.on_input = answer_ann;
    EXPECT_EQ(text_of(run(FakeServer("modern").start()->call(std::move(call)))),
              R"([{"action": "accept", "content": {"name": "Ann"}}, "opaque"])");
}

TEST(McpClient, InputRequestOfASession_IsAnswered) {
    McpCall call("ask", {});
    call.on_input = answer_ann;
    EXPECT_EQ(text_of(run(FakeServer("2025-11-25").start()->call(std::move(call)))),
              R"({"action": "accept", "content": {"name": "Ann"}})");
}

TEST(McpClient, InputRequestWithoutUser_EndsTheCall) {
    try {
        run(FakeServer("modern").start()->call(McpCall("ask", {})));
        FAIL();
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::no_channel);
    }
    EXPECT_EQ(text_of(run(FakeServer("2025-11-25").start()->call(McpCall("ask", {})))),
              R"({"action": "cancel"})");
}

TEST(McpClient, EndlessInputRequests_AreLimited) {
    McpCall call("ask", {});
    call.on_input = answer_ann;
    try {
        run(FakeServer("modern,insatiable").start()->call(std::move(call)));
        FAIL();
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::limit);
    }
}

Task<JsonObject> answer_never(std::shared_ptr<bool> is_waiting) {
    struct Mark {
        bool& value;
        ~Mark() { value = false; }
    };
    *is_waiting = true;
    const Mark mark{*is_waiting};
    AsyncEvent never;
    co_await never.wait();
    co_return JsonObject();
}

TEST(McpClient, UnansweredQuestion_EndsWithItsCall) {
    const auto client = FakeServer("2025-11-25,hasty").start();
    const auto is_waiting = std::make_shared<bool>(false);
    bool was_asked = false;
    McpCall call("ask", {});
    call.on_input = [&was_asked, is_waiting](const std::string&, const JsonObject&) {
        was_asked = true;
        return answer_never(is_waiting);
    };
    EXPECT_EQ(text_of(run(client->call(std::move(call)))), "not waiting");
    EXPECT_TRUE(was_asked);
    EXPECT_FALSE(*is_waiting);
    EXPECT_EQ(text_of(run(client->call(echo_call("next")))), "echo: next");
}

TEST(McpClient, TimedOutCall_EndsItsQuestion) {
    const auto client = FakeServer("2025-11-25").start();
    run(client->connect());
    const auto is_waiting = std::make_shared<bool>(false);
    McpCall call("ask", {});
    call.timeout = std::chrono::milliseconds(200);
    call.on_input = [is_waiting](const std::string&, const JsonObject&) {
        return answer_never(is_waiting);
    };
    EXPECT_THROW(run(client->call(std::move(call))), TimeoutError);
    EXPECT_FALSE(*is_waiting);
}

TEST(McpClient, QuestionsOfOneCall_AreLimited) {
    McpCall call("ask", {});
    call.on_input = answer_ann;
    EXPECT_EQ(text_of(run(FakeServer("2025-11-25,curious").start()->call(std::move(call)))), "8");
}

TEST(McpClient, Progress_IsPassedOn) {
    std::vector<std::string> seen;
    McpCall call("progress", {});
    call.on_progress = [&seen](const JsonObject& progress) {
        seen.emplace_back(progress.at("message").as_string());
    };
    run(FakeServer("modern").start()->call(std::move(call)));
    EXPECT_EQ(seen, (std::vector<std::string>{"step 0", "step 1", "step 2"}));
}

}  // namespace
}  // namespace cubepi
