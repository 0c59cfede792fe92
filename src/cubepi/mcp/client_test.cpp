#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cubepi/agent/agent.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/mcp/mcp_test.hpp>
#include <cubepi/mcp/tools.hpp>
#include <cubepi/provider/faux.hpp>
#include <cubepi/schema/parse_json.hpp>
#include <cubepi/testing/memory_log.hpp>

namespace cubepi {
namespace {

using namespace mcp_test;
using ::testing::ElementsAre;
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

TEST(McpClient, D136_LongOptionalMembers_AreDropped) {
    const auto list = run(FakeServer("modern,long").start()->tools());
    EXPECT_EQ(names_of(*list), (std::vector<std::string>{"long", "deep", "plain"}));
    for (const std::size_t dropped : {0U, 1U}) {
        EXPECT_FALSE(list->tools[dropped].output_schema);
        EXPECT_TRUE(list->tools[dropped].annotations.empty());
    }
    EXPECT_TRUE(list->tools[2].output_schema);
    EXPECT_FALSE(list->tools[2].annotations.empty());
    EXPECT_THAT(list->problems,
                ::testing::ElementsAre(HasSubstr("tool 'long': its `outputSchema` is not used"),
                                       HasSubstr("tool 'long': its `annotations` is not used"),
                                       HasSubstr("tool 'deep': its `outputSchema` is not used"),
                                       HasSubstr("tool 'deep': its `annotations` is not used")));
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

/// Returns what the server has subscribed to.
Task<std::string> touch(std::shared_ptr<McpClient> client) {
    McpCall call("touch", {});
    const JsonObject result = co_await client->call(std::move(call));
    co_return text_of(result);
}

Task<> subscribe_and_touch(std::shared_ptr<McpClient> client, std::vector<std::string>* touched) {
    co_await client->subscribe("file:///a");
    co_await client->subscribe("file:///a");
    co_await client->subscribe("file:///b");
    std::string first = co_await touch(client);
    co_await client->unsubscribe("file:///a");
    std::string second = co_await touch(client);
    *touched = {std::move(first), std::move(second)};
}

TEST(McpSubscriptions, Changes_AreReportedInBothEras) {
    for (const std::string era : {"modern", "2025-11-25"}) {
        std::vector<std::string> updated;
        FakeServer server(era);
        server.client.on_resource_updated = [&updated](const std::string& uri) {
            updated.push_back(uri);
        };
        std::vector<std::string> touched;
        const auto client = server.start();
        run(subscribe_and_touch(client, &touched));
        EXPECT_THAT(touched, ElementsAre("file:///a file:///b", "file:///b")) << era;
        EXPECT_THAT(updated, ElementsAre("file:///a", "file:///b", "file:///b")) << era;
        run(client->close());
    }
}

TEST(McpSubscriptions, ReplacedStream_ReportsWhatItMayHaveMissed) {
    std::vector<std::string> updated;
    FakeServer server("modern,acknowledging");
    server.client.on_resource_updated = [&updated](const std::string& uri) {
        updated.push_back(uri);
    };
    std::vector<std::string> touched;
    const auto client = server.start();
    run(subscribe_and_touch(client, &touched));
    // Twice because a stream was replaced, and three times because the resource was touched.
    EXPECT_THAT(updated, ElementsAre("file:///a", "file:///b", "file:///a", "file:///b",
                                     "file:///b", "file:///b"));
}

Task<> subscribe_and_lose(std::shared_ptr<McpClient> client, std::string* touched) {
    co_await client->subscribe("file:///a");
    McpCall call("die", {});
    Task<JsonObject> dying = client->call(std::move(call));
    const Outcome<JsonObject> died = co_await outcome_of(std::move(dying));
    EXPECT_FALSE(died.ok());
    *touched = co_await touch(client);
}

TEST(McpSubscriptions, LostConnection_IsSubscribedAgain) {
    for (const std::string era : {"modern", "2025-11-25"}) {
        std::string touched;
        const auto client = FakeServer(era).start();
        run(subscribe_and_lose(client, &touched));
        EXPECT_EQ(touched, "file:///a") << era;
        run(client->close());
    }
}

std::string failure_of(const std::string& mode) {
    const auto client = FakeServer("modern,tasks," + mode).start();
    try {
        (void)run(client->call(McpCall("task", {})));
    } catch (const Error& error) {
        return error.what();
    }
    return {};
}

TEST(McpTasks, D165_CallThatBecomesATask_IsAwaited) {
    std::vector<std::string> seen;
    McpCall call("task", {});
    call.on_progress = [&seen](const JsonObject& progress) {
        seen.emplace_back(progress.at("message").as_string());
    };
    const auto client = FakeServer("modern,tasks").start();
    EXPECT_EQ(text_of(run(client->call(std::move(call)))), "\"done\"");
    EXPECT_THAT(seen, ElementsAre("step 1", "step 2"));
}

TEST(McpTasks, Extension_IsDeclaredToServersThatHaveIt) {
    const auto tasks = FakeServer("modern,tasks").start();
    EXPECT_THAT(text_of(run(tasks->call(McpCall("meta", {})))),
                HasSubstr("io.modelcontextprotocol/tasks"));
    const auto other = FakeServer("modern").start();
    EXPECT_THAT(text_of(run(other->call(McpCall("meta", {})))),
                ::testing::Not(HasSubstr("io.modelcontextprotocol/tasks")));
}

TEST(McpTasks, FailedTask_IsTheServersError) {
    EXPECT_THAT(failure_of("failing"), HasSubstr("It broke."));
}

TEST(McpTasks, ForgedId_EndsTheCall) { EXPECT_THAT(failure_of("forged"), HasSubstr("invalid id")); }

Task<JsonObject> decline(std::string, JsonObject) {
    JsonObject answer;
    answer["action"] = "decline";
    co_return answer;
}

TEST(McpTasks, QuestionOfATask_IsAnswered) {
    McpCall call("task", {});
    call.on_input = decline;
    const auto client = FakeServer("modern,tasks,curious").start();
    EXPECT_EQ(text_of(run(client->call(std::move(call)))), R"({"who": {"action": "decline"}})");
    EXPECT_THAT(failure_of("curious"), HasSubstr("no user can be asked"));
}

TEST(McpTasks, D165_AbortedCall_CancelsTheTask) {
    const auto client = FakeServer("modern,tasks,hanging").start();
    run(client->connect());
    const auto abort_and_look = [](std::shared_ptr<McpClient> one) -> Task<std::string> {
        McpCall call("task", {});
        call.timeout = std::chrono::seconds(3);
        Task<JsonObject> calling = one->call(std::move(call));
        const Outcome<JsonObject> ended = co_await outcome_of(std::move(calling));
        EXPECT_FALSE(ended.ok());
        McpCall look("cancelled task", {});
        const JsonObject result = co_await one->call(std::move(look));
        co_return text_of(result);
    };
    EXPECT_EQ(run(abort_and_look(client)), "t-1");
}

// Servers that are broken or hostile: what they do ends their own requests, and nothing else.

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
