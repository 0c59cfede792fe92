#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/mcp/http_transport.hpp>
#include <cubepi/mcp/mcp_test.hpp>
#include <cubepi/schema/json_text.hpp>
#include <cubepi/schema/parse_json.hpp>
#include <cubepi/testing/manual_clock.hpp>
#include <cubepi/testing/memory_transport.hpp>

namespace cubepi {
namespace {

using namespace mcp_test;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Task<JsonObject> accept_as(std::string name) {
    JsonObject content;
    content["name"] = std::move(name);
    JsonObject answer;
    answer["action"] = "accept";
    answer["content"] = std::move(content);
    co_return answer;
}

Task<JsonObject> wait_forever() {
    AsyncEvent never;
    co_await never.wait();
    co_return JsonObject();
}

/// A call that notes which of its handlers was called.
McpCall noting_call(std::string tool, std::string name, std::vector<std::string>* noted) {
    McpCall call(std::move(tool), {});
    call.on_input = [name, noted](const std::string&, const JsonObject&) {
        noted->push_back(name);
        return accept_as(name);
    };
    call.on_shared_input = [name, noted](const std::string&, const JsonObject&,
                                         const std::vector<std::string>& tools) {
        std::string note = name + " for";
        for (const std::string& one : tools) note += " " + one;
        noted->push_back(note);
        return accept_as(name);
    };
    return call;
}

Task<Outcome<JsonObject>> outcome_of_call(std::shared_ptr<McpClient> client, McpCall call) {
    Task<JsonObject> calling = client->call(std::move(call));
    co_return co_await outcome_of(std::move(calling));
}

std::vector<std::string> both_results(const std::shared_ptr<McpClient>& client, McpCall first,
                                      McpCall second) {
    run(client->connect());
    std::vector<Task<Outcome<JsonObject>>> calls;
    calls.push_back(outcome_of_call(client, std::move(first)));
    calls.push_back(outcome_of_call(client, std::move(second)));
    std::vector<std::string> texts;
    for (Outcome<JsonObject>& outcome : run(when_all(std::move(calls))))
        texts.push_back(outcome.ok() ? text_of(outcome.value()) : "failed");
    return texts;
}

TEST(McpQuestions, D162_QuestionOfSomeCall_NamesAllCalls) {
    const auto client = FakeServer("2025-11-25,extra").start();
    const auto user = std::make_shared<int>(1);
    std::vector<std::string> noted;
    McpCall first = noting_call("pair", "a", &noted);
    McpCall second = noting_call("pair", "b", &noted);
    first.asker = second.asker = user;
    const auto texts = both_results(client, std::move(first), std::move(second));
    EXPECT_THAT(noted, ElementsAre("b for pair pair"));
    EXPECT_THAT(texts, ElementsAre(HasSubstr(R"("name": "b")"), HasSubstr(R"("name": "b")")));
}

TEST(McpQuestions, D162_CallsOfTwoUsers_AreNotAsked) {
    const auto client = FakeServer("2025-11-25,extra").start();
    std::vector<std::string> noted;
    McpCall first = noting_call("pair", "a", &noted);
    McpCall second = noting_call("pair", "b", &noted);
    first.asker = std::make_shared<int>(1);
    second.asker = std::make_shared<int>(2);
    const auto texts = both_results(client, std::move(first), std::move(second));
    EXPECT_TRUE(noted.empty());
    EXPECT_THAT(texts, ElementsAre(R"({"action": "cancel"})", R"({"action": "cancel"})"));
}

TEST(McpQuestions, D162_CallWithoutUser_MayBeMeant) {
    const auto client = FakeServer("2025-11-25,extra").start();
    std::vector<std::string> noted;
    McpCall asking = noting_call("pair", "b", &noted);
    asking.asker = std::make_shared<int>(1);
    const auto texts = both_results(client, McpCall("pair", {}), std::move(asking));
    EXPECT_TRUE(noted.empty());
    EXPECT_EQ(texts.at(0), R"({"action": "cancel"})");
}

TEST(McpQuestions, D162_EndedCall_LeavesTheQuestionToOthers) {
    const auto client = FakeServer("2025-11-25,extra").start();
    const auto user = std::make_shared<int>(1);
    std::vector<std::string> noted;
    McpCall first = noting_call("pair", "a", &noted);
    McpCall second = noting_call("pair", "b", &noted);
    second.on_shared_input = [&noted](const std::string&, const JsonObject&,
                                      const std::vector<std::string>&) {
        noted.emplace_back("b waits");
        return wait_forever();
    };
    second.timeout = std::chrono::seconds(3);
    first.asker = second.asker = user;
    const auto texts = both_results(client, std::move(first), std::move(second));
    EXPECT_THAT(noted, ElementsAre("b waits", "a"));
    EXPECT_THAT(texts, ElementsAre(HasSubstr(R"("name": "a")"), "failed"));
}

Task<Outcome<JsonObject>> one_after_the_other(std::shared_ptr<McpClient> client, McpCall first,
                                              McpCall second) {
    Task<Outcome<JsonObject>> failing = outcome_of_call(client, std::move(first));
    const Outcome<JsonObject> failed = co_await std::move(failing);
    EXPECT_FALSE(failed.ok());
    co_return co_await outcome_of_call(std::move(client), std::move(second));
}

/// The other call may end here only when the next connection is being opened.
TEST(McpQuestions, D133_CallOfLostConnection_IsForgotten) {
    const auto client = FakeServer("2025-11-25,extra").start();
    std::vector<std::string> noted;
    McpCall hanging = noting_call("hang", "a", &noted);
    McpCall asking = noting_call("ask", "b", &noted);
    hanging.asker = std::make_shared<int>(1);
    asking.asker = std::make_shared<int>(2);
    run(client->connect());
    std::vector<Task<Outcome<JsonObject>>> calls;
    calls.push_back(one_after_the_other(client, McpCall("die", {}), std::move(asking)));
    calls.push_back(outcome_of_call(client, std::move(hanging)));
    std::vector<Outcome<JsonObject>> results = run(when_all(std::move(calls)));
    EXPECT_FALSE(results.at(1).ok());
    EXPECT_THAT(text_of(results.at(0).value()), HasSubstr(R"("name": "b")"));
}

/// Makes a call that ends by its time limit, and then another one, during which the server asks.
std::string result_after(const std::shared_ptr<McpClient>& client, McpCall given_up, McpCall call) {
    run(client->connect());
    run(client->connect());
    given_up.timeout = std::chrono::milliseconds(50);
    EXPECT_FALSE(run(outcome_of_call(client, std::move(given_up))).ok());
    return text_of(run(client->call(std::move(call))));
}

TEST(McpQuestions, D162_AbandonedCall_AsksNoOtherUser) {
    const auto user = std::make_shared<int>(1);
    const auto other = std::make_shared<int>(2);
    for (const auto& asker : {user, other, std::shared_ptr<int>()}) {
        const auto client = FakeServer("2025-11-25,extra").start();
        std::vector<std::string> noted;
        McpCall given_up = noting_call("pair", "a", &noted);
        given_up.asker = user;
        McpCall call = noting_call("pair", "b", &noted);
        call.asker = asker;
        const std::string text = result_after(client, std::move(given_up), std::move(call));
        if (asker == user) {
            EXPECT_THAT(noted, ElementsAre("b"));
        } else {
            EXPECT_TRUE(noted.empty());
            EXPECT_EQ(text, R"({"action": "cancel"})");
        }
        run(client->close());
    }
}

TEST(McpQuestions, D162_AbandonedCallOfUnknownUser_AsksNoUser) {
    const auto client = FakeServer("2025-11-25,extra").start();
    std::vector<std::string> noted;
    McpCall call = noting_call("pair", "b", &noted);
    call.asker = std::make_shared<int>(1);
    EXPECT_EQ(result_after(client, McpCall("pair", {}), std::move(call)),
              R"({"action": "cancel"})");
    EXPECT_TRUE(noted.empty());
}

/// A server over HTTP whose calls end in a later stream, and which asks in the stream of one of them.
struct AskingWebServer {
    std::shared_ptr<testing::ManualClock> clock = std::make_shared<testing::ManualClock>();
    std::string answer;
    std::map<std::string, std::string> call_of_event;

    testing::MemoryResponse respond(const HttpRequest& request) {
        using testing::MemoryResponse;
        if (request.method == "GET") {
            const auto call = call_of_event.find(std::string(request.headers.get("last-event-id")));
            if (call == call_of_event.end()) return MemoryResponse(405);
            return MemoryResponse(200, "data: {\"jsonrpc\":\"2.0\",\"id\":" + call->second +
                                           R"(,"result":{"content":[{"type":"text","text":"x"}]}})"
                                           "\n\n")
                .with_header("content-type", "text/event-stream");
        }
        const Json body = parse_json(request.body);
        const Json* method = body.as_object().if_contains("method");
        const Json* id = body.as_object().if_contains("id");
        if (!method) answer += request.body;
        if (!method || !id) return MemoryResponse(202);
        if (*method == "server/discover") return MemoryResponse(400);
        if (*method == "initialize") {
            return MemoryResponse(200, R"({"jsonrpc":"2.0","id":)" + json_text(*id) +
                                           R"(,"result":{"protocolVersion":"2025-11-25"}})")
                .with_header("content-type", "application/json")
                .with_header("Mcp-Session-Id", "s1");
        }
        const std::string tool(body.at("params").at("name").as_string());
        const std::string event = "e" + json_text(*id);
        call_of_event[event] = json_text(*id);
        std::string events = "id: " + event + "\ndata: \n\n";
        if (tool == "ask") {
            events +=
                R"(data: {"jsonrpc":"2.0","id":"q1","method":"elicitation/create","params":{"message":"?"}})"
                "\n\n";
        }
        return MemoryResponse(200, events).with_header("content-type", "text/event-stream");
    }
};

TEST(McpQuestions, D162_StreamOfACall_NamesTheCall) {
    AskingWebServer server;
    auto transport = std::make_shared<testing::MemoryTransport>(
        [&server](const HttpRequest& request) { return server.respond(request); }, server.clock);
    const auto runtime = std::make_shared<const Runtime>(
        Runtime().with_clock(server.clock).with_transport(transport));
    McpHttpOptions http;
    http.server = "web";
    http.url = "https://host/mcp";
    McpClientOptions options;
    options.server = "web";
    const auto client =
        std::make_shared<McpClient>(options, mcp_http_transport(http, runtime), runtime);
    std::vector<std::string> noted;
    std::vector<Task<JsonObject>> calls;
    calls.push_back(client->call(noting_call("quiet", "a", &noted)));
    calls.push_back(client->call(noting_call("ask", "b", &noted)));
    calls.push_back(client->call(noting_call("quiet", "c", &noted)));
    testing::run_advancing(*server.clock, when_all(std::move(calls)));
    EXPECT_THAT(noted, ElementsAre("b"));
    EXPECT_THAT(server.answer, HasSubstr(R"("name":"b")"));
}

TEST(McpQuestions, Roots_AreListedInBothEras) {
    for (const std::string era : {"modern,extra", "2025-11-25,extra"}) {
        FakeServer server(era);
        server.client.roots = [] {
            return std::vector<McpRoot>{mcp_root("/srv/a b"), mcp_root("/")};
        };
        const auto client = server.start();
        EXPECT_EQ(text_of(run(client->call(McpCall("roots", {})))),
                  R"({"roots": [{"name": "a b", "uri": "file:///srv/a%20b"}, )"
                  R"({"uri": "file:///"}]})");
    }
}

TEST(McpQuestions, RootsThatAreOff_AreNotOffered) {
    const auto client = FakeServer("2025-11-25,extra").start();
    EXPECT_THAT(text_of(run(client->call(McpCall("roots", {})))), HasSubstr("does not support"));
    const auto modern = FakeServer("modern,extra").start();
    EXPECT_THROW(run(modern->call(McpCall("roots", {}))), Error);
}

}  // namespace
}  // namespace cubepi
