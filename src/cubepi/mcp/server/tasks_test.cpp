#include <cubepi/mcp/server/tasks.hpp>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cubepi/core/run.hpp>
#include <cubepi/mcp/mcp_server_test.hpp>

namespace cubepi {
namespace {

using namespace mcp_test;
using ::testing::HasSubstr;

const std::string task_meta =
    R"("_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",)"
    R"("io.modelcontextprotocol/clientCapabilities":)"
    R"({"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}})";

/// A server whose calls of all tools but echo are tasks.
struct TaskServer {
    TestServer settings;
    std::shared_ptr<int> begun = add_features(settings.options);
    std::shared_ptr<McpServer> server;

    TaskServer() { settings.options.tasks.tools = {"steps", "wait", "ask", "log", "missing"}; }

    void make() { server = settings.make(); }

    Task<RpcMessage> send(std::string method, std::string params, std::string client = "ann") {
        if (!server) make();
        McpServerCall call;
        const std::string line = request(1, method, params + "," + task_meta);
        call.request = read_rpc_message(std::string_view(line));
        call.client = std::move(client);
        co_return co_await server->answer(std::move(call));
    }
    Task<std::string> start(std::string tool, std::string client = "ann") {
        const RpcMessage created =
            co_await send("tools/call", R"("name":")" + tool + R"(")", std::move(client));
        EXPECT_EQ(member(created, "resultType"), R"("task")") << created.text;
        const Json* id = created.result.if_contains("taskId");
        co_return id ? std::string(id->as_string()) : std::string();
    }
    Task<RpcMessage> about(std::string method, std::string id, std::string more = {},
                           std::string client = "ann") {
        return send(std::move(method), R"("taskId":")" + id + R"(")" + more, std::move(client));
    }
    /// Asks until the status is another one than `working`.
    Task<RpcMessage> settled(std::string id) {
        RpcMessage seen = co_await about("tasks/get", id);
        while (member(seen, "status") == R"("working")") {
            co_await Runtime::standard()->clock->sleep_for(std::chrono::milliseconds(1));
            seen = co_await about("tasks/get", id);
        }
        co_return seen;
    }
};

Task<> follow_to_its_end(TaskServer* server) {
    const std::string id = co_await server->start("steps");
    EXPECT_EQ(id.size(), 64U);
    const RpcMessage seen = co_await server->settled(id);
    EXPECT_EQ(member(seen, "status"), R"("completed")");
    EXPECT_EQ(member(seen, "resultType"), R"("complete")");
    EXPECT_THAT(member(seen, "result"), HasSubstr("done"));
    EXPECT_NE(member(seen, "ttlMs"), "absent");
}

TEST(McpTasks, D167_Call_IsFollowedByItsId) {
    TaskServer server;
    run(follow_to_its_end(&server));
}

Task<> ask_in_rounds(TaskServer* server) {
    const auto accepted = [](const std::string& key, const std::string& value) {
        return R"(,"inputResponses":{")" + key + R"(":{"action":"accept","content":{"value":)" +
               value + "}}}";
    };
    const std::string id = co_await server->start("ask");
    RpcMessage seen = co_await server->settled(id);
    EXPECT_EQ(member(seen, "status"), R"("input_required")");
    EXPECT_THAT(member(seen, "inputRequests"), HasSubstr("Your name?"));
    RpcMessage update = co_await server->about("tasks/update", id, accepted("name-1", "7"));
    EXPECT_EQ(update.code, mcp_error::invalid_params);
    update = co_await server->about("tasks/update", id, accepted("unknown", "7"));
    EXPECT_EQ(member(update, "resultType"), R"("complete")");
    update = co_await server->about("tasks/update", id, accepted("name-1", R"("Ann")"));
    seen = co_await server->settled(id);
    EXPECT_THAT(member(seen, "inputRequests"), HasSubstr("Your color?"));
    update = co_await server->about("tasks/update", id, accepted("color-2", R"("red")"));
    seen = co_await server->settled(id);
    EXPECT_THAT(member(seen, "result"), HasSubstr("Ann"));
    EXPECT_EQ(*server->begun, 1);
}

TEST(McpTasks, D167_Questions_AreAnsweredByUpdates) {
    TaskServer server;
    run(ask_in_rounds(&server));
}

Task<> cancel_while_running(TaskServer* server) {
    const std::string id = co_await server->start("wait");
    co_await server->settings.started->wait();
    const RpcMessage cancelled = co_await server->about("tasks/cancel", id);
    EXPECT_EQ(member(cancelled, "resultType"), R"("complete")");
    const RpcMessage seen = co_await server->about("tasks/get", id);
    EXPECT_EQ(member(seen, "status"), R"("cancelled")");
    co_await server->settings.aborted->wait();
    const RpcMessage again = co_await server->about("tasks/cancel", id);
    EXPECT_EQ(again.code, 0);
}

TEST(McpTasks, D167_Cancellation_AbortsTheCall) {
    TaskServer server;
    run(cancel_while_running(&server));
}

Task<> ask_for_tasks_of_others(TaskServer* server) {
    const std::string id = co_await server->start("steps");
    for (const std::string method : {"tasks/get", "tasks/update", "tasks/cancel"}) {
        const RpcMessage refused = co_await server->about(method, id, "", "eve");
        EXPECT_EQ(refused.code, mcp_error::invalid_params);
        const RpcMessage unknown = co_await server->about(method, "guess");
        EXPECT_EQ(unknown.code, mcp_error::invalid_params);
        EXPECT_EQ(unknown.text, refused.text);
    }
}

TEST(McpTasks, D167_TaskOfAnotherClient_IsUnknown) {
    TaskServer server;
    run(ask_for_tasks_of_others(&server));
}

Task<> start_too_many(TaskServer* server) {
    const std::string first = co_await server->start("wait");
    const std::string second = co_await server->start("steps");
    co_await server->settled(second);
    // The one that has ended is replaced, the one in progress is not.
    co_await server->start("wait");
    const RpcMessage gone = co_await server->about("tasks/get", second);
    EXPECT_EQ(gone.code, mcp_error::invalid_params);
    const RpcMessage refused = co_await server->send("tools/call", R"("name":"wait")");
    EXPECT_EQ(refused.code, mcp_error::internal);
    co_await server->start("steps", "eve");
    co_await server->server->end_tasks("ann");
    EXPECT_TRUE(server->settings.aborted->is_set());
}

TEST(McpTasks, D167_TooManyTasks_AreRefused) {
    TaskServer server;
    server.settings.options.tasks.max_per_client = 2;
    run(start_too_many(&server));
}

Task<> outlive_its_time(TaskServer* server) {
    const std::string id = co_await server->start("wait");
    co_await server->settings.aborted->wait();
    const RpcMessage gone = co_await server->about("tasks/get", id);
    EXPECT_EQ(gone.code, mcp_error::invalid_params);
}

TEST(McpTasks, D167_TimeToLive_EndsTheCall) {
    TaskServer server;
    server.settings.options.tasks.time_to_live = std::chrono::milliseconds(20);
    run(outlive_its_time(&server));
}

TEST(McpTasks, D167_ClientWithoutTheExtension_GetsTheResult) {
    TaskServer server;
    const auto received =
        exchange({modern(1, "tools/call", R"("name":"steps")"),
                  modern(2, "tasks/get", R"("taskId":"x")"), modern(3, "server/discover")},
                 server.settings);
    ASSERT_EQ(received.size(), 3U);
    std::map<std::int64_t, RpcMessage> by_id;
    for (const RpcMessage& one : received) by_id[one.id.as_int64()] = one;
    EXPECT_THAT(member(by_id[1], "content"), HasSubstr("done"));
    EXPECT_EQ(by_id[2].code, mcp_error::missing_client_capability);
    EXPECT_THAT(json_text(by_id[2].data), HasSubstr("io.modelcontextprotocol/tasks"));
    EXPECT_THAT(member(by_id[3], "capabilities"), HasSubstr("io.modelcontextprotocol/tasks"));
}

TEST(McpTasks, D167_RequiredTask_NeedsTheExtension) {
    TaskServer server;
    server.settings.options.tasks.required = {"steps"};
    const auto received = exchange({modern(1, "tools/call", R"("name":"steps")")}, server.settings);
    ASSERT_EQ(received.size(), 1U);
    EXPECT_EQ(received[0].code, mcp_error::missing_client_capability);
    run(follow_to_its_end(&server));
}

Task<McpToolResult> refuse_without_login(JsonObject, ToolContext&, McpRequest&) {
    throw McpRequestError(-32042, "Log in first.");
    co_return McpToolResult();
}

Task<> fail_by_the_protocol(TaskServer* server) {
    const std::string id = co_await server->start("broken");
    const RpcMessage seen = co_await server->settled(id);
    EXPECT_EQ(member(seen, "status"), R"("failed")");
    EXPECT_EQ(member(seen, "result"), "absent");
    EXPECT_THAT(member(seen, "error"), HasSubstr("-32042"));
    EXPECT_THAT(member(seen, "error"), HasSubstr("Log in first."));
}

TEST(McpTasks, D167_ErrorOfTheProtocol_FailsTheTask) {
    TaskServer server;
    server.settings.options.tasks.tools = {"broken"};
    McpServerTool broken("broken", "Fails.", Json(JsonObject{{"type", "object"}}),
                         refuse_without_login);
    server.settings.options.server_tools.push_back(std::move(broken));
    run(fail_by_the_protocol(&server));
}

Task<McpToolResult> ask_and_continue(JsonObject, ToolContext&, McpRequest& request) {
    const JsonObject schema{{"type", "object"}, {"properties", JsonObject()}};
    McpQuestion first = mcp_form("first", "One?", schema);
    const JsonObject one = co_await request.ask(std::move(first));
    co_await request.continue_as_task();
    // The task asks for what is not known.
    std::vector<McpQuestion> questions;
    questions.push_back(mcp_form("first", "One?", schema));
    questions.push_back(mcp_form("second", "Two?", schema));
    const std::vector<JsonObject> both = co_await request.ask(std::move(questions));
    co_return McpToolResult(json_text(Json(both.at(0))) + json_text(Json(both.at(1))));
}

std::string accepted(std::string_view key, std::string_view text) {
    return R"("inputResponses":{")" + std::string(key) +
           R"(":{"action":"accept","content":{"text":")" + std::string(text) + R"("}}})";
}

Task<> become_task_later(TaskServer* server) {
    const RpcMessage asked = co_await server->send("tools/call", R"("name":"late")");
    EXPECT_EQ(member(asked, "resultType"), R"("input_required")") << asked.text;
    EXPECT_EQ(member(asked, "taskId"), "absent");
    const RpcMessage created = co_await server->send(
        "tools/call", R"("name":"late",)" + accepted("first", "a") + R"(,"requestState":)" +
                          member(asked, "requestState"));
    EXPECT_EQ(member(created, "resultType"), R"("task")") << created.text;
    EXPECT_EQ(member(created, "requestState"), "absent");
    const Json* id = created.result.if_contains("taskId");
    if (!id) co_return;
    const std::string task(id->as_string());
    const RpcMessage open = co_await server->settled(task);
    EXPECT_EQ(member(open, "status"), R"("input_required")");
    const JsonObject requests = open.result.at("inputRequests").as_object();
    EXPECT_EQ(requests.size(), 1U);
    const std::string key(requests.begin()->key());
    (void)co_await server->about("tasks/update", task, "," + accepted(key, "b"));
    RpcMessage seen = co_await server->settled(task);
    EXPECT_EQ(member(seen, "status"), R"("completed")");
    EXPECT_THAT(member(seen, "result"), HasSubstr("a"));
    EXPECT_THAT(member(seen, "result"), HasSubstr("b"));
}

TEST(McpTasks, D167_CallAfterQuestions_ContinuesAsTask) {
    TaskServer server;
    server.settings.options.tasks.tools = {};
    server.settings.options.tasks.later = {"late"};
    McpServerTool late("late", "Asks first.", Json(JsonObject{{"type", "object"}}),
                       ask_and_continue);
    server.settings.options.server_tools.push_back(std::move(late));
    run(become_task_later(&server));
}

TEST(McpTasks, D167_EndOfTheConnection_EndsItsTasks) {
    TaskServer server;
    const std::string call = request(1, "tools/call", R"("name":"wait",)" + task_meta);
    const auto received = exchange({call}, server.settings);
    ASSERT_EQ(received.size(), 1U);
    EXPECT_EQ(member(received[0], "resultType"), R"("task")");
    EXPECT_TRUE(server.settings.aborted->is_set());
}

Task<> leave_running(TaskServer* server) {
    co_await server->start("wait");
    co_await server->settings.started->wait();
    server->server.reset();
    co_await server->settings.aborted->wait();
}

TEST(McpTasks, D167_EndOfTheServer_EndsItsTasks) {
    TaskServer server;
    run(leave_running(&server));
}

}  // namespace
}  // namespace cubepi
