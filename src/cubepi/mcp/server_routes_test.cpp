#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cubepi/core/outcome.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/mcp/client.hpp>
#include <cubepi/mcp/http_transport.hpp>
#include <cubepi/mcp/mcp_server_test.hpp>
#include <cubepi/mcp/server/session.hpp>
#include <cubepi/mcp/server_routes.hpp>
#include <cubepi/net/http_client.hpp>

namespace cubepi {
namespace {

using namespace mcp_test;
using ::testing::HasSubstr;
using ::testing::Not;

/// A server on the event loop of run().
struct ServedHttp {
    TestServer settings;
    HttpServer http{this_thread_context().get_executor()};
    HttpRoutes routes{http, "mcp"};

    std::shared_ptr<McpServer> server;

    explicit ServedHttp(TestServer test_server) : settings(std::move(test_server)) {
        serve(McpRouteOptions());
    }
    explicit ServedHttp(McpRouteOptions options = McpRouteOptions(), bool has_features = false) {
        if (has_features) add_features(settings.options);
        serve(std::move(options));
    }
    void serve(McpRouteOptions options) {
        server = settings.make();
        add_mcp_routes(routes, server, std::move(options));
        routes.serve();
    }
    ~ServedHttp() {
        run(routes.stop(std::chrono::nanoseconds::zero()));
        run(server->close());
        run(http.stop(std::chrono::nanoseconds::zero()));
    }

    std::string url() const { return "http://127.0.0.1:" + std::to_string(http.port()) + "/mcp"; }

    std::shared_ptr<McpClient> client(std::optional<std::string> version = {}) const {
        McpHttpOptions options;
        options.server = "test";
        options.url = url();
        McpClientOptions client_options;
        client_options.server = "test";
        client_options.version = std::move(version);
        return std::make_shared<McpClient>(
            client_options, mcp_http_transport(options, Runtime::standard()), Runtime::standard());
    }
};

std::string text_of(const JsonObject& result) {
    return std::string(result.at("content").at(0).at("text").as_string());
}

McpCall echo_call() {
    JsonObject arguments;
    arguments["text"] = "hi";
    return McpCall("echo", std::move(arguments));
}

TEST(McpRoutes, ClientsOfBothEras_AreServed) {
    const ServedHttp served;
    for (const std::string version : {"2026-07-28", "2025-11-25", "2025-03-26"}) {
        const auto client = served.client(version);
        EXPECT_EQ(run(client->connect()).version, version);
        EXPECT_EQ(text_of(run(client->call(echo_call()))), "hi");
        EXPECT_EQ(run(client->tools())->tools.size(), 4U);
        run(client->close());
    }
    EXPECT_EQ(run(served.client()->connect()).version, "2026-07-28");
}

TEST(McpRoutes, SpanOfTheCaller_ReachesTheTool) {
    TestServer settings;
    settings.options.tools.push_back(
        tool<JsonObject>("span", "Returns the caller's span.", [](JsonObject, ToolContext& ctx) {
            const auto& trace = ctx.run().origin.trace;
            return trace ? trace->traceparent : std::string("none");
        }));
    const ServedHttp served(std::move(settings));
    const std::string span = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    for (const std::string version : {"2026-07-28", "2025-11-25"}) {
        McpCall call("span", {});
        EXPECT_EQ(text_of(run(served.client(version)->call(call))), "none");
        call.traceparent = span;
        EXPECT_EQ(text_of(run(served.client(version)->call(call))), span);
    }
}

TEST(McpRoutes, Progress_IsStreamed) {
    const ServedHttp served;
    for (const std::string version : {"2026-07-28", "2025-11-25"}) {
        std::vector<std::string> messages;
        McpCall call("steps", {});
        call.on_progress = [&messages](const JsonObject& progress) {
            messages.emplace_back(progress.at("message").as_string());
        };
        EXPECT_EQ(text_of(run(served.client(version)->call(std::move(call)))), "done");
        EXPECT_EQ(messages, (std::vector<std::string>{"step one", "step two"}));
    }
}

Task<> abandon_call(std::shared_ptr<McpClient> client, std::shared_ptr<AsyncEvent> aborted) {
    McpCall call("wait", {});
    call.timeout = std::chrono::milliseconds(20);
    const Outcome<JsonObject> outcome = co_await outcome_of(client->call(std::move(call)));
    EXPECT_FALSE(outcome.ok());
    co_await aborted->wait();
}

TEST(McpRoutes, AbandonedCall_IsAborted) {
    const ServedHttp served;
    run(abandon_call(served.client(), served.settings.aborted));
}

TEST(McpRoutes, ParameterHeaders_ComeFromTheList) {
    const ServedHttp served;
    const auto client = served.client();
    JsonObject arguments;
    arguments["region"] = "Zürich";
    run(client->tools());
    EXPECT_EQ(text_of(run(client->call(McpCall("region", arguments)))), "Zürich");
    // Without the list the client does not know the header.
    try {
        run(served.client()->call(McpCall("region", arguments)));
        FAIL();
    } catch (const McpError& error) {
        EXPECT_EQ(error.rpc_code(), mcp_error::header_mismatch);
    }
}

struct Reply {
    int status = 0;
    std::string body;
};

Task<Reply> send(HttpRequest request) {
    HttpClient http;
    HttpResponse response = co_await http.send(std::move(request));
    Reply reply;
    reply.status = response.status;
    for (bool more = true; more;) more = co_await response.body->read(reply.body);
    co_return reply;
}

HttpRequest request_for(const ServedHttp& served, std::string body) {
    HttpRequest request("POST", served.url());
    request.body = std::move(body);
    request.headers.add("content-type", "application/json");
    return request;
}

const std::string modern_list =
    R"({"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{
        "io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}})";

TEST(McpRoutes, HeadersThatDiffer_AreRefused) {
    const ServedHttp served;
    HttpRequest request = request_for(served, modern_list);
    Reply reply = run(send(request));
    EXPECT_EQ(reply.status, 400);
    EXPECT_THAT(reply.body, HasSubstr("-32020"));
    request.headers.set("MCP-Protocol-Version", "2026-07-28");
    EXPECT_EQ(run(send(request)).status, 400);
    request.headers.set("Mcp-Method", "tools/list");
    EXPECT_EQ(run(send(request)).status, 200);
    request.headers.set("MCP-Protocol-Version", "2025-11-25");
    EXPECT_EQ(run(send(request)).status, 400);
}

TEST(McpRoutes, ForeignPages_AreRefused) {
    McpRouteOptions options;
    options.allowed_origins = {"https://app.example"};
    const ServedHttp served(options);
    const auto status = [&](const char* header, const char* value) {
        HttpRequest request = request_for(served, R"({"jsonrpc":"2.0","id":1,"method":"ping"})");
        request.headers.set(header, value);
        return run(send(std::move(request))).status;
    };
    EXPECT_EQ(status("origin", "https://evil.example"), 403);
    EXPECT_EQ(status("origin", "null"), 403);
    EXPECT_EQ(status("origin", "http://localhost.evil.example"), 403);
    EXPECT_EQ(status("host", "evil.example"), 403);
    EXPECT_EQ(status("origin", "https://app.example"), 200);
    EXPECT_EQ(status("origin", "http://localhost:3000"), 200);
    EXPECT_EQ(status("host", "localhost:1234"), 200);
}

TEST(McpRoutes, InvalidBodies_AreErrors) {
    const ServedHttp served;
    EXPECT_THAT(run(send(request_for(served, "{"))).body, HasSubstr("-32700"));
    EXPECT_THAT(run(send(request_for(served, "[]"))).body, HasSubstr("-32600"));
    const Reply accepted =
        run(send(request_for(served, R"({"jsonrpc":"2.0","method":"notifications/x"})")));
    EXPECT_EQ(accepted.status, 202);
}

Task<JsonObject> accept_form(std::string, JsonObject params) {
    JsonObject content;
    content["value"] = params.at("message").as_string();
    JsonObject answer;
    answer["action"] = "accept";
    answer["content"] = std::move(content);
    co_return answer;
}

TEST(McpRoutes, QuestionsDuringCalls_AreAnsweredInBothEras) {
    const ServedHttp served(McpRouteOptions(), true);
    for (const std::string version : {"2026-07-28", "2025-11-25", "2025-06-18"}) {
        McpCall call("ask", {});
        call.on_input = accept_form;
        const auto client = served.client(version);
        EXPECT_THAT(text_of(run(client->call(std::move(call)))), HasSubstr("Your color?"));
        run(client->close());
    }
}

TEST(McpRoutes, PromptsAndResources_AreReadInBothEras) {
    const ServedHttp served(McpRouteOptions(), true);
    for (const std::string version : {"2026-07-28", "2025-11-25"}) {
        const auto client = served.client(version);
        const auto prompts = run(client->prompts());
        ASSERT_EQ(prompts->prompts.size(), 1U);
        EXPECT_EQ(prompts->prompts[0].arguments[0].name, "name");
        EXPECT_TRUE(prompts->prompts[0].arguments[0].is_required);
        const McpPromptText text = run(client->prompt("greet", {{"name", "Ann"}}));
        ASSERT_EQ(text.messages.size(), 1U);
        EXPECT_EQ(text.messages[0].content.at("text"), Json("Greet Ann."));
        const auto resources = run(client->resources());
        ASSERT_EQ(resources->resources.size(), 1U);
        ASSERT_EQ(resources->templates.size(), 1U);
        EXPECT_EQ(run(client->read_resource("logs://mon.log")).at(0).text, "Log of mon");
        EXPECT_THROW(run(client->read_resource("logs://never.log")), McpError);
        McpCompletionTarget target;
        target.prompt = "greet";
        EXPECT_EQ(run(client->complete(target, "name", "A")).size(), 100U);
        run(client->close());
    }
}

TEST(McpRoutes, ServerWithoutPrompts_HasEmptyLists) {
    const ServedHttp served;
    const auto client = served.client();
    EXPECT_TRUE(run(client->prompts())->prompts.empty());
    EXPECT_TRUE(run(client->resources())->resources.empty());
    EXPECT_TRUE(run(client->complete({}, "name", "A")).empty());
}

Task<> change_tools(const ServedHttp* served, std::shared_ptr<McpClient> client) {
    (void)co_await client->connect();
    const std::uint64_t before = client->tools_revision();
    // The stream of notifications is opened in the background.
    while (client->tools_revision() == before) {
        served->server->set_tools(served->settings.options.tools);
        co_await yield_now();
    }
    co_await client->close();
}

TEST(McpRoutes, ChangedTools_AreAnnouncedInBothEras) {
    const ServedHttp served(McpRouteOptions(), true);
    for (const std::string version : {"2026-07-28", "2025-11-25"})
        run(change_tools(&served, served.client(version)));
}

HttpRequest session_request(const ServedHttp& served, std::string method, const std::string& id,
                            std::string body = {}) {
    HttpRequest request(std::move(method), served.url());
    request.body = std::move(body);
    request.headers.add("content-type", "application/json");
    request.headers.add("accept", "application/json, text/event-stream");
    request.headers.add("MCP-Protocol-Version", "2025-11-25");
    if (!id.empty()) request.headers.add("Mcp-Session-Id", id);
    return request;
}

Task<std::string> open_session(const ServedHttp* served, std::string capabilities = "{}") {
    HttpClient http;
    HttpRequest request = session_request(
        *served, "POST", "",
        R"({"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":)" +
            capabilities + "}}");
    HttpResponse response = co_await http.send(std::move(request));
    std::string body;
    for (bool more = true; more;) more = co_await response.body->read(body);
    co_return std::string(response.headers.get("Mcp-Session-Id"));
}

const std::string ping = R"({"jsonrpc":"2.0","id":2,"method":"ping"})";

TEST(McpRoutes, D224_SessionOfAnotherClient_IsNotFound) {
    McpRouteOptions options;
    options.client = [](const HttpServerRequest& request) {
        return "user " + std::string(request.headers.get("x-user"));
    };
    const ServedHttp served(std::move(options));
    const std::string id = run(open_session(&served));
    const auto status = [&](const std::string& user, const std::string& method) {
        HttpRequest request =
            session_request(served, method, id, method == "POST" ? ping : std::string());
        if (!user.empty()) request.headers.add("x-user", user);
        return run(send(std::move(request))).status;
    };
    for (const char* const method : {"POST", "GET", "DELETE"})
        EXPECT_EQ(status("bob", method), 404) << method;
    EXPECT_EQ(status("", "POST"), 200);
    EXPECT_EQ(status("", "DELETE"), 204);
}

TEST(McpRoutes, EndedSession_IsNotFound) {
    const ServedHttp served;
    const std::string id = run(open_session(&served));
    EXPECT_EQ(id.size(), 32U);
    const auto status = [&](const std::string& method, const std::string& session) {
        return run(send(session_request(served, method, session, method == "POST" ? ping : "")))
            .status;
    };
    EXPECT_EQ(status("POST", id), 200);
    EXPECT_EQ(status("POST", "unknown"), 404);
    EXPECT_EQ(status("GET", id), 405);  // this server announces no changes
    EXPECT_EQ(status("GET", ""), 405);
    EXPECT_EQ(status("GET", "unknown"), 404);
    EXPECT_EQ(status("DELETE", id), 204);
    EXPECT_EQ(status("DELETE", id), 404);
    EXPECT_EQ(status("POST", id), 404);
    EXPECT_EQ(
        run(send(session_request(served, "POST", id, R"({"jsonrpc":"2.0","id":5,"result":{}})")))
            .status,
        404);
}

TEST(McpRoutes, SurplusSession_ReplacesTheOldest) {
    McpRouteOptions options;
    options.max_sessions = 2;
    const ServedHttp served(options);
    const std::string first = run(open_session(&served));
    const std::string second = run(open_session(&served));
    const auto status = [&](const std::string& session) {
        return run(send(session_request(served, "POST", session, ping))).status;
    };
    EXPECT_EQ(status(first), 200);
    const std::string third = run(open_session(&served));
    EXPECT_EQ(status(second), 404);
    EXPECT_EQ(status(first), 200);
    EXPECT_EQ(status(third), 200);
}

Task<> cancel_in_session(const ServedHttp* served, std::string id) {
    const ServedHttp& at = *served;
    co_await at.settings.started->wait();
    // The same id again, which is refused, and then the end of the first one.
    HttpRequest repeated = session_request(
        at, "POST", id,
        R"({"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"wait"}})");
    const Reply refused = co_await send(std::move(repeated));
    EXPECT_THAT(refused.body, HasSubstr("-32600"));
    HttpRequest cancel = session_request(
        at, "POST", id,
        R"({"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9}})");
    const Reply reply = co_await send(std::move(cancel));
    EXPECT_EQ(reply.status, 202);
    co_await at.settings.aborted->wait();
}

Task<> call_and_ignore(HttpRequest request) {
    const Reply reply = co_await send(std::move(request));
    EXPECT_EQ(reply.status, 200);
}

TEST(McpRoutes, CancelledRequestOfSession_IsAborted) {
    const ServedHttp served;
    const std::string id = run(open_session(&served));
    std::vector<Task<>> both;
    both.push_back(call_and_ignore(session_request(
        served, "POST", id,
        R"({"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"wait"}})")));
    both.push_back(cancel_in_session(&served, id));
    run(when_all(std::move(both)));
}

const std::string call_ask =
    R"({"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"ask"}})";

/// Reads a stream until the text occurs, or to its end. Returns what was read.
Task<std::string> read_until(HttpBody* body, std::string text) {
    std::string seen;
    bool more = true;
    while (more && seen.find(text) == std::string::npos) more = co_await body->read(seen);
    co_return seen;
}

std::string last_event_id(const std::string& events) {
    const std::size_t at = events.rfind("id: ");
    return events.substr(at + 4, events.find('\n', at) - at - 4);
}

Task<> answer_question(const ServedHttp* served, std::string session, int id) {
    const std::string answer = R"({"jsonrpc":"2.0","id":)" + std::to_string(id) +
                               R"(,"result":{"action":"accept","content":{"value":"Ann"}}})";
    HttpRequest request = session_request(*served, "POST", session, answer);
    const Reply reply = co_await send(std::move(request));
    EXPECT_EQ(reply.status, 202);
}

Task<> lose_the_connection(const ServedHttp* served) {
    const std::string session = co_await open_session(served, R"({"elicitation":{}})");
    HttpClient http;
    std::string events;
    {
        HttpRequest request = session_request(*served, "POST", session, call_ask);
        const HttpResponse response = co_await http.send(std::move(request));
        events = co_await read_until(response.body.get(), "Your name?");
    }
    co_await answer_question(served, session, 1);
    HttpRequest returning = session_request(*served, "GET", session);
    returning.headers.add("Last-Event-ID", last_event_id(events));
    const HttpResponse response = co_await http.send(std::move(returning));
    events = co_await read_until(response.body.get(), "Your color?");
    EXPECT_THAT(events, Not(HasSubstr("Your name?")));
    co_await answer_question(served, session, 2);
    events = co_await read_until(response.body.get(), "never");
    EXPECT_THAT(events, HasSubstr(R"("id":7)"));
    // The answer is stored: it may not have arrived.
    HttpRequest again = session_request(*served, "GET", session);
    again.headers.add("Last-Event-ID", "1-1");
    const Reply whole = co_await send(std::move(again));
    EXPECT_THAT(whole.body, HasSubstr("Your name?"));
    EXPECT_THAT(whole.body, HasSubstr(R"("id":7)"));
    for (const std::string id : {"1", "2-1", "-", "x-1", "1-99999999999999999999"}) {
        HttpRequest unknown = session_request(*served, "GET", session);
        unknown.headers.add("Last-Event-ID", id);
        const Reply refused = co_await send(std::move(unknown));
        EXPECT_EQ(refused.status, 400) << id;
    }
}

McpRouteOptions resumable(std::chrono::nanoseconds limit) {
    McpRouteOptions options;
    options.resume_time = limit;
    return options;
}

TEST(McpRoutes, D168_LostConnection_IsContinued) {
    const ServedHttp served(resumable(std::chrono::minutes(1)), true);
    run(lose_the_connection(&served));
}

Task<> leave_for_good(const ServedHttp* served) {
    const std::string session = co_await open_session(served);
    {
        HttpClient http;
        HttpRequest request = session_request(
            *served, "POST", session,
            R"({"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"wait"}})");
        const HttpResponse response = co_await http.send(std::move(request));
        co_await served->settings.started->wait();
    }
    co_await served->settings.aborted->wait();
}

TEST(McpRoutes, D168_AbandonedCallOfASession_IsAborted) {
    const ServedHttp served(resumable(std::chrono::milliseconds(1)));
    run(leave_for_good(&served));
}

Task<> delete_session(const ServedHttp* served) {
    const std::string session = co_await open_session(served);
    HttpClient http;
    HttpRequest request = session_request(
        *served, "POST", session,
        R"({"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"wait"}})");
    const HttpResponse response = co_await http.send(std::move(request));
    co_await served->settings.started->wait();
    HttpRequest end = session_request(*served, "DELETE", session);
    const Reply reply = co_await send(std::move(end));
    EXPECT_EQ(reply.status, 204);
    co_await served->settings.aborted->wait();
}

TEST(McpRoutes, D168_WithoutResumption_LostConnectionAbortsTheCall) {
    const ServedHttp served;
    run(leave_for_good(&served));
}

Task<> close_server(const ServedHttp* served) {
    const std::string session = co_await open_session(served);
    HttpClient http;
    HttpRequest request = session_request(
        *served, "POST", session,
        R"({"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"wait"}})");
    const HttpResponse response = co_await http.send(std::move(request));
    co_await served->settings.started->wait();
    co_await served->server->close();
    EXPECT_TRUE(served->settings.aborted->is_set());
}

TEST(McpRoutes, D168_EndOfTheServer_AbortsItsCalls) {
    const ServedHttp served(resumable(std::chrono::minutes(1)));
    run(close_server(&served));
}

TEST(McpRoutes, D168_EndOfASession_AbortsItsCalls) {
    const ServedHttp served(resumable(std::chrono::minutes(1)));
    run(delete_session(&served));
}

TEST(McpReplay, D168_SurplusNotifications_AreForgotten) {
    detail::McpReplays replays;
    const auto replay = replays.add(false, 0);
    replay->add(rpc_request(1, "elicitation/create", {}));
    for (int i = 0; i < 1000; ++i) replay->add(rpc_notification("notifications/progress", {}));
    const std::size_t full = replay->bytes();
    for (int i = 0; i < 1000; ++i) replay->add(rpc_notification("notifications/progress", {}));
    EXPECT_LT(replay->bytes(), full + 1000);
    EXPECT_LT(full, 50'000U);
    replay->end();
    // The last answer is stored, whatever its size; earlier ones are not.
    const auto second = replays.add(false, 0);
    EXPECT_EQ(replays.find("1-1").first, replay);
    second->add(rpc_result(1, {}));
    second->end();
    (void)replays.add(false, 0);
    EXPECT_EQ(replays.find("1-1").first, nullptr);
    EXPECT_EQ(replays.find("2-1").first, second);
}

}  // namespace
}  // namespace cubepi
