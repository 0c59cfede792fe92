#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cubepi/core/outcome.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/mcp/client.hpp>
#include <cubepi/mcp/http_transport.hpp>
#include <cubepi/schema/json_text.hpp>
#include <cubepi/schema/parse_json.hpp>
#include <cubepi/testing/manual_clock.hpp>
#include <cubepi/testing/memory_transport.hpp>

namespace cubepi {
namespace {

using ::testing::HasSubstr;
using testing::ManualClock;
using testing::MemoryResponse;
using testing::MemoryTransport;
using ::testing::Not;

/// A server in memory. A test replaces the responses to methods.
struct WebServer {
    using Reply = std::function<MemoryResponse(const HttpRequest& request, const Json& id)>;

    std::map<std::string, Reply> replies;
    std::vector<HttpRequest> requests;
    bool stalls_withdrawals = false;
    std::shared_ptr<ManualClock> clock = std::make_shared<ManualClock>();
    std::shared_ptr<MemoryTransport> transport = std::make_shared<MemoryTransport>(
        [this](const HttpRequest& request) { return respond(request); }, clock);
    std::shared_ptr<const Runtime> runtime =
        std::make_shared<const Runtime>(Runtime().with_clock(clock).with_transport(transport));
    McpHttpOptions options;

    WebServer() {
        options.server = "web";
        options.url = "https://host/mcp";
        options.headers.add("Authorization", "Bearer token");
    }

    static MemoryResponse json(const Json& id, const std::string& result) {
        return MemoryResponse(200, R"({"jsonrpc":"2.0","id":)" + json_text(id) + R"(,"result":)" +
                                       result + "}")
            .with_header("content-type", "application/json");
    }
    static MemoryResponse events() {
        return MemoryResponse(200).with_header("content-type", "text/event-stream");
    }
    static std::string result_text(const Json& id, const std::string& result) {
        return R"({"jsonrpc":"2.0","id":)" + json_text(id) + R"(,"result":)" + result + "}";
    }

    void be_modern() {
        replies["server/discover"] = [](const HttpRequest&, const Json& id) {
            return json(
                id,
                R"({"supportedVersions":["2026-07-28"],"capabilities":{},"resultType":"complete"})");
        };
    }
    void be_legacy() {
        replies["server/discover"] = [](const HttpRequest&, const Json&) {
            return MemoryResponse(400, "Bad Request: no session");
        };
        replies["initialize"] = [](const HttpRequest&, const Json& id) {
            return json(id, R"({"protocolVersion":"2025-11-25","capabilities":{}})")
                .with_header("Mcp-Session-Id", "s1");
        };
    }

    MemoryResponse respond(const HttpRequest& request) {
        requests.push_back(request);
        if (request.method != "POST") {
            const auto other = replies.find(request.method);
            return other == replies.end() ? MemoryResponse(405) : other->second(request, Json());
        }
        const Json body = parse_json(request.body);
        const Json* method = body.as_object().if_contains("method");
        const Json* id = body.as_object().if_contains("id");
        if (method && *method == "notifications/cancelled" && stalls_withdrawals)
            return MemoryResponse(202).with_delay(std::chrono::hours(1));
        if (!method || !id) return MemoryResponse(202);
        const auto reply = replies.find(std::string(method->as_string()));
        if (reply == replies.end()) return MemoryResponse(404);
        return reply->second(request, *id);
    }

    std::shared_ptr<McpClient> client() {
        McpClientOptions client_options;
        client_options.server = "web";
        return std::make_shared<McpClient>(client_options, mcp_http_transport(options, runtime),
                                           runtime);
    }
    template <class T>
    T go(Task<T> task) {
        return testing::run_advancing(*clock, std::move(task));
    }
};

const std::string hello = R"({"content":[{"type":"text","text":"hello"}]})";

std::string text_of(const JsonObject& result) {
    return std::string(result.at("content").at(0).at("text").as_string());
}

/// Has the tokens "t0", "t1", ...
class CountingAuthorizer final : public McpAuthorizer {
public:
    Task<std::string> token(std::string) override { co_return "t" + std::to_string(count); }
    Task<> authorize(McpChallenge challenge) override {
        challenges.push_back(std::move(challenge));
        ++count;
        co_return;
    }

    int count = 0;
    std::vector<McpChallenge> challenges;
};

MemoryResponse refusal(int status, std::string challenge) {
    return MemoryResponse(status).with_header("WWW-Authenticate", std::move(challenge));
}

/// Counts the times that headers are asked for, and for which reason.
struct ExpiringKeys {
    int made = 0;
    int refusals = 0;

    Task<HttpHeaders> headers(bool is_refused) {
        if (is_refused) ++refusals;
        if (is_refused || made == 0) ++made;
        HttpHeaders headers;
        headers.add("X-Key", "k" + std::to_string(made));
        co_return headers;
    }
};

void use(WebServer& server, ExpiringKeys& keys) {
    server.options.fresh_headers = [&keys](bool is_refused) { return keys.headers(is_refused); };
}

TEST(McpHttp, D202_ExpiredHeader_IsRenewedOnce) {
    WebServer server;
    server.be_modern();
    ExpiringKeys keys;
    use(server, keys);
    server.replies["tools/call"] = [](const HttpRequest& request, const Json& id) {
        if (request.headers.get("x-key") == "k1") return MemoryResponse(401);
        return WebServer::json(id, hello);
    };
    const auto client = server.client();
    EXPECT_EQ(text_of(server.go(client->call(McpCall("echo", {})))), "hello");
    EXPECT_EQ(keys.refusals, 1);
    EXPECT_EQ(server.requests.back().headers.get("x-key"), "k2");
    EXPECT_EQ(server.requests.back().headers.get("authorization"), "Bearer token");
    EXPECT_EQ(text_of(server.go(client->call(McpCall("echo", {})))), "hello");
    EXPECT_EQ(keys.refusals, 1);
}

TEST(McpHttp, D202_KeysThatAreRefused_EndTheRequest) {
    WebServer server;
    server.be_modern();
    ExpiringKeys keys;
    use(server, keys);
    server.replies["tools/call"] = [](const HttpRequest&, const Json&) {
        return MemoryResponse(401);
    };
    const auto client = server.client();
    (void)server.go(client->connect());
    const std::size_t before = server.requests.size();
    EXPECT_THROW((void)server.go(client->call(McpCall("echo", {}))), Error);
    EXPECT_EQ(keys.refusals, 1);
    EXPECT_EQ(server.requests.size(), before + 2);
}

TEST(McpHttp, D202_InvalidHeader_FailsTheRequestWithoutItsValue) {
    WebServer server;
    server.be_modern();
    server.options.fresh_headers = [](bool) -> Task<HttpHeaders> {
        HttpHeaders headers;
        headers.add("X-Key", "secret\r\nX-Other: 1");
        co_return headers;
    };
    try {
        (void)server.go(server.client()->connect());
        FAIL();
    } catch (const Error& error) {
        EXPECT_THAT(error.what(), HasSubstr("X-Key"));
        EXPECT_EQ(std::string(error.what()).find("secret"), std::string::npos);
    }
    EXPECT_TRUE(server.requests.empty());
}

TEST(McpHttp, D143_RefusedRequest_IsSentWithAnotherToken) {
    WebServer server;
    server.be_modern();
    const auto authorizer = std::make_shared<CountingAuthorizer>();
    server.options.headers = HttpHeaders();
    server.options.authorizer = authorizer;
    server.replies["tools/call"] = [](const HttpRequest& request, const Json& id) {
        const std::string_view token = request.headers.get("authorization");
        if (token == "Bearer t0") return refusal(401, R"(Bearer resource_metadata="https://h/m")");
        if (token == "Bearer t1")
            return refusal(403, R"(Bearer error="insufficient_scope", scope="more")");
        return WebServer::json(id, hello);
    };
    const auto client = server.client();
    EXPECT_EQ(text_of(server.go(client->call(McpCall("t", JsonObject())))), "hello");
    ASSERT_EQ(authorizer->challenges.size(), 2U);
    EXPECT_EQ(authorizer->challenges[0].token, "t0");
    EXPECT_EQ(authorizer->challenges[0].resource_metadata, "https://h/m");
    EXPECT_EQ(authorizer->challenges[1].scope, "more");
}

TEST(McpHttp, D143_RepeatedRefusals_EndTheRequest) {
    WebServer server;
    const auto authorizer = std::make_shared<CountingAuthorizer>();
    server.options.headers = HttpHeaders();
    server.options.authorizer = authorizer;
    server.replies["server/discover"] = [](const HttpRequest&, const Json&) {
        return refusal(401, "Bearer");
    };
    const auto client = server.client();
    EXPECT_THROW((void)server.go(client->connect()), McpUnauthorized);
    EXPECT_EQ(authorizer->challenges.size(), 1U);
    // A refusal for another reason is not one of the token.
    server.replies["server/discover"] = [](const HttpRequest&, const Json&) {
        return refusal(403, "Bearer");
    };
    EXPECT_THROW((void)server.go(client->connect()), Error);
    EXPECT_EQ(authorizer->challenges.size(), 1U);
}

TEST(McpHttp, ConfiguredToken_NeedsNoLogin) {
    WebServer server;
    const auto authorizer = std::make_shared<CountingAuthorizer>();
    server.options.authorizer = authorizer;
    server.replies["server/discover"] = [](const HttpRequest& request, const Json&) {
        EXPECT_EQ(request.headers.get("authorization"), "Bearer token");
        return refusal(401, "Bearer");
    };
    EXPECT_THROW((void)server.go(server.client()->connect()), Error);
    EXPECT_TRUE(authorizer->challenges.empty());
}

/// Makes the server one of 2024-11-05, with a stream of these events after the first one.
void be_older(WebServer& server, std::string endpoint, const std::vector<std::string>& messages) {
    server.replies["GET"] = [endpoint, messages](const HttpRequest&, const Json&) {
        MemoryResponse response = WebServer::events();
        std::move(response).with_piece("event: endpoint\ndata: " + endpoint + "\n\n");
        for (const std::string& message : messages)
            std::move(response).with_delay(std::chrono::seconds(1)).with_event(message);
        return response;
    };
    const auto refuse = [](const HttpRequest& request, const Json&) {
        return MemoryResponse(request.url == "https://host/messages?s=1" ? 202 : 405);
    };
    for (const char* method : {"server/discover", "initialize", "tools/call"})
        server.replies[method] = refuse;
}

const std::string older_agreement =
    WebServer::result_text(Json(2), R"({"protocolVersion":"2024-11-05","capabilities":{}})");

TEST(McpHttp, D145_OlderServer_AnswersInItsStream) {
    WebServer server;
    be_older(server, "/messages?s=1",
             {older_agreement, R"({"jsonrpc":"2.0","id":"p","method":"ping"})",
              WebServer::result_text(Json(7), hello), WebServer::result_text(Json(3), hello)});
    const auto client = server.client();
    EXPECT_EQ(server.go(client->connect()).version, "2024-11-05");
    EXPECT_EQ(text_of(server.go(client->call(McpCall("t", JsonObject())))), "hello");
    const HttpRequest& last = server.requests.back();
    EXPECT_EQ(last.url, "https://host/messages?s=1");
    EXPECT_EQ(last.headers.get("authorization"), "Bearer token");
    server.go(client->close());
    EXPECT_EQ(server.transport->open_exchanges(), 0U);
}

TEST(McpHttp, D145_ForeignEndpointOfOlderServer_GetsNothing) {
    WebServer server;
    for (const char* endpoint : {"https://evil.example/messages", "//evil.example/", "messages"}) {
        be_older(server, endpoint, {older_agreement});
        EXPECT_THROW((void)server.go(server.client()->connect()), McpRefused) << endpoint;
    }
    for (const HttpRequest& request : server.requests) EXPECT_EQ(request.url, "https://host/mcp");
}

TEST(McpHttp, D145_EndOfOlderStream_FailsItsRequests) {
    WebServer server;
    be_older(server, "/messages?s=1", {older_agreement});
    const auto client = server.client();
    (void)server.go(client->connect());
    try {
        (void)server.go(client->call(McpCall("t", JsonObject())));
        FAIL();
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::disconnected);
    }
}

TEST(McpHttp, RefusedSubscription_IsNotRepeated) {
    WebServer server;
    server.replies["server/discover"] = [](const HttpRequest&, const Json& id) {
        return WebServer::json(
            id,
            R"({"supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true}}})");
    };
    int lists = 0;
    server.replies["tools/list"] = [&lists](const HttpRequest&, const Json& id) {
        ++lists;
        return WebServer::json(id, R"({"tools":[]})");
    };
    int subscriptions = 0;
    server.replies["subscriptions/listen"] = [&subscriptions](const HttpRequest&, const Json& id) {
        ++subscriptions;
        return MemoryResponse(200, R"({"jsonrpc":"2.0","id":)" + json_text(id) +
                                       R"(,"error":{"code":-32601,"message":"unknown"}})");
    };
    const auto client = server.client();
    (void)server.go(client->tools());
    server.go(server.clock->sleep_for(std::chrono::minutes(4)));
    (void)server.go(client->tools());
    EXPECT_EQ(subscriptions, 1);
    const int lists_before = lists;
    // Nothing reports changes, so the list gets old.
    server.go(server.clock->sleep_for(std::chrono::minutes(6)));
    (void)server.go(client->tools());
    EXPECT_EQ(lists, lists_before + 1);
    EXPECT_EQ(subscriptions, 1);
}

TEST(McpHttp, EndedSessionStream_IsOpenedAgain) {
    WebServer server;
    server.be_legacy();
    server.replies["tools/list"] = [](const HttpRequest&, const Json& id) {
        return WebServer::json(id, R"({"tools":[]})");
    };
    int streams = 0;
    server.replies["GET"] = [&streams](const HttpRequest&, const Json&) {
        ++streams;
        if (streams == 2) return MemoryResponse(503);
        if (streams == 4) return WebServer::events().with_stall();
        return WebServer::events();
    };
    const auto client = server.client();
    (void)server.go(client->tools());
    const std::uint64_t revision = client->tools_revision();
    server.go(server.clock->sleep_for(std::chrono::minutes(2)));
    EXPECT_EQ(streams, 4);
    EXPECT_NE(client->tools_revision(), revision);
    server.go(client->close());
    EXPECT_EQ(server.transport->open_exchanges(), 0U);
}

TEST(McpHttp, StatelessRequests_HaveTheirHeaders) {
    WebServer server;
    server.be_modern();
    server.replies["tools/list"] = [](const HttpRequest&, const Json& id) {
        return WebServer::json(id,
                               R"({"tools":[{"name":"t","inputSchema":{"type":"object","properties":
            {"region":{"type":"string","x-mcp-header":"Region"}}}}],"ttlMs":1000})");
    };
    server.replies["tools/call"] = [](const HttpRequest&, const Json& id) {
        return WebServer::json(id, hello);
    };
    const auto client = server.client();
    server.go(client->tools());
    JsonObject arguments;
    arguments["region"] = "eu";
    EXPECT_EQ(text_of(server.go(client->call(McpCall("t", std::move(arguments))))), "hello");
    const HttpHeaders& headers = server.requests.back().headers;
    EXPECT_EQ(headers.get("MCP-Protocol-Version"), "2026-07-28");
    EXPECT_EQ(headers.get("Mcp-Method"), "tools/call");
    EXPECT_EQ(headers.get("Mcp-Name"), "t");
    EXPECT_EQ(headers.get("Mcp-Param-Region"), "eu");
    EXPECT_EQ(headers.get("Authorization"), "Bearer token");
    EXPECT_EQ(headers.get("accept"), "application/json, text/event-stream");
    EXPECT_EQ(headers.find("Mcp-Session-Id"), nullptr);
}

TEST(McpHttp, EarlierServer_GetsSessionAndVersion) {
    WebServer server;
    server.be_legacy();
    server.replies["tools/call"] = [](const HttpRequest&, const Json& id) {
        return WebServer::json(id, hello);
    };
    const auto client = server.client();
    EXPECT_EQ(text_of(server.go(client->call(McpCall("t", {})))), "hello");
    const HttpHeaders& headers = server.requests.back().headers;
    EXPECT_EQ(headers.get("MCP-Protocol-Version"), "2025-11-25");
    EXPECT_EQ(headers.get("Mcp-Session-Id"), "s1");
    EXPECT_EQ(headers.find("Mcp-Method"), nullptr);
    for (const HttpRequest& request : server.requests) {
        if (request.body.find("\"initialize\"") == std::string::npos) continue;
        EXPECT_EQ(request.headers.find("MCP-Protocol-Version"), nullptr);
    }
    server.go(client->close());
    EXPECT_EQ(server.requests.back().method, "DELETE");
}

TEST(McpHttp, ExpiredSession_IsOpenedAgain) {
    WebServer server;
    server.be_legacy();
    int calls = 0;
    server.replies["tools/call"] = [&calls](const HttpRequest&, const Json& id) {
        return ++calls == 2 ? MemoryResponse(404) : WebServer::json(id, hello);
    };
    const auto client = server.client();
    server.go(client->call(McpCall("t", {})));
    EXPECT_EQ(text_of(server.go(client->call(McpCall("t", {})))), "hello");
    EXPECT_EQ(calls, 3);
}

TEST(McpHttp, EventStream_BringsProgressAndResponse) {
    WebServer server;
    server.be_modern();
    server.replies["tools/call"] = [](const HttpRequest&, const Json& id) {
        return WebServer::events()
            .with_event(
                R"({"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":)" +
                json_text(id) + R"(,"progress":1}})")
            .with_event(WebServer::result_text(id, hello))
            .in_pieces_of(7);
    };
    int reports = 0;
    McpCall call("t", {});
    call.on_progress = [&reports](const JsonObject&) { ++reports; };
    EXPECT_EQ(text_of(server.go(server.client()->call(std::move(call)))), "hello");
    EXPECT_EQ(reports, 1);
    EXPECT_EQ(server.transport->open_exchanges(), 0U);
}

TEST(McpHttp, EndedStreamOfASession_IsContinued) {
    WebServer server;
    server.be_legacy();
    Json id_of_call;
    server.replies["tools/call"] = [&id_of_call](const HttpRequest&, const Json& id) {
        id_of_call = id;
        return WebServer::events().with_piece("id: e1\nretry: 500\ndata:\n\n");
    };
    server.replies["GET"] = [&id_of_call](const HttpRequest& request, const Json&) {
        if (request.headers.get("Last-Event-ID") != "e1") return MemoryResponse(405);
        return WebServer::events().with_event(WebServer::result_text(id_of_call, hello));
    };
    EXPECT_EQ(text_of(server.go(server.client()->call(McpCall("t", {})))), "hello");
}

std::string failure_of(WebServer& server, McpCall call = McpCall("t", {})) {
    try {
        server.go(server.client()->call(std::move(call)));
    } catch (const Error& error) {
        return error.what();
    }
    return {};
}

TEST(McpHttp, StreamWithoutRetryDelay_IsContinuedAfterPause) {
    WebServer server;
    server.be_legacy();
    Json id_of_call;
    Clock::time_point begin;
    server.replies["tools/call"] = [&](const HttpRequest&, const Json& id) {
        id_of_call = id;
        begin = server.clock->now();
        return WebServer::events().with_piece("id: e1\nretry: 0\ndata:\n\n");
    };
    server.replies["GET"] = [&](const HttpRequest& request, const Json&) {
        if (request.headers.get("Last-Event-ID") != "e1") return MemoryResponse(405);
        if (server.clock->now() == begin)
            return WebServer::events().with_piece("id: e1\nretry: 0\ndata:\n\n");
        return WebServer::events().with_event(WebServer::result_text(id_of_call, hello));
    };
    EXPECT_EQ(text_of(server.go(server.client()->call(McpCall("t", {})))), "hello");
    EXPECT_GT(server.clock->now(), begin);
}

TEST(McpHttp, PagesOfTools_HaveOneTimeLimit) {
    WebServer server;
    server.be_modern();
    int pages = 0;
    server.replies["tools/list"] = [&pages](const HttpRequest&, const Json& id) {
        const std::string page = std::to_string(++pages);
        return WebServer::events()
            .with_delay(std::chrono::seconds(25))
            .with_event(WebServer::result_text(id, R"({"tools":[{"name":"t)" + page +
                                                       R"(","inputSchema":{"type":"object"}}],)" +
                                                       R"("nextCursor":")" + page + "\"}"));
    };
    EXPECT_THROW(server.go(server.client()->tools()), TimeoutError);
    EXPECT_EQ(pages, 3);
}

TEST(McpHttp, EndedStreamWithoutId_FailsTheCall) {
    WebServer server;
    server.be_modern();
    server.replies["tools/call"] = [](const HttpRequest&, const Json&) {
        return WebServer::events().with_piece(": nothing\n\n");
    };
    EXPECT_THAT(failure_of(server), HasSubstr("ended the stream without a response"));
}

Task<> connect_and_wait(WebServer* server, std::shared_ptr<McpClient> client,
                        std::uint64_t* revision,
                        std::chrono::seconds time = std::chrono::seconds(10)) {
    (void)co_await client->connect();
    *revision = client->tools_revision();
    co_await server->clock->sleep_for(time);
}

TEST(McpHttp, EndedStreamOfNotifications_IsOpenedAgain) {
    WebServer server;
    server.replies["server/discover"] = [](const HttpRequest&, const Json& id) {
        return WebServer::json(
            id,
            R"({"supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true}}})");
    };
    int streams = 0;
    server.replies["subscriptions/listen"] = [&streams](const HttpRequest&, const Json&) {
        ++streams;
        return WebServer::events().with_delay(std::chrono::milliseconds(1));
    };
    const auto client = server.client();
    std::uint64_t revision = 0;
    server.go(connect_and_wait(&server, client, &revision));
    EXPECT_EQ(streams, 4);  // after 0, 1, 3 and 7 s
    EXPECT_NE(client->tools_revision(), revision);
}

TEST(McpHttp, LongStreamOfNotifications_EndsTheDelays) {
    WebServer server;
    server.replies["server/discover"] = [](const HttpRequest&, const Json& id) {
        return WebServer::json(
            id,
            R"({"supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true}}})");
    };
    int streams = 0;
    server.replies["subscriptions/listen"] = [&streams](const HttpRequest&, const Json&) {
        ++streams;
        return WebServer::events().with_delay(streams == 4 ? std::chrono::milliseconds(120'000)
                                                           : std::chrono::milliseconds(1));
    };
    std::uint64_t revision = 0;
    const auto client = server.client();
    server.go(connect_and_wait(&server, client, &revision, std::chrono::seconds(129)));
    EXPECT_EQ(streams, 5);  // after 0, 1, 3, 7 and 128 s
}

TEST(McpHttp, RefusedVersionThatIsOffered_IsTriedAgain) {
    WebServer server;
    int probes = 0;
    server.replies["server/discover"] = [&probes](const HttpRequest&, const Json& id) {
        if (++probes == 1) {
            return MemoryResponse(400,
                                  R"({"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"no",
                         "data":{"supported":["2026-07-28"],"requested":"2026-07-28"}}})");
        }
        return WebServer::json(id, R"({"supportedVersions":["2026-07-28"],"capabilities":{}})");
    };
    EXPECT_EQ(server.go(server.client()->connect()).version, "2026-07-28");
    EXPECT_EQ(probes, 2);
}

TEST(McpHttp, ServerOfAnotherEra_IsNotInitialized) {
    WebServer server;
    server.replies["server/discover"] = [](const HttpRequest&, const Json&) {
        return MemoryResponse(400, R"({"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"no",
            "data":{"supported":["2030-01-01"],"requested":"2026-07-28"}}})");
    };
    EXPECT_THAT(failure_of(server), HasSubstr("-32022"));
    EXPECT_EQ(server.requests.size(), 1U);
}

TEST(McpHttp, ErrorInRefusal_IsTheServersError) {
    WebServer server;
    server.be_modern();
    server.replies["tools/call"] = [](const HttpRequest&, const Json&) {
        return MemoryResponse(
            400,
            R"({"jsonrpc":"2.0","id":null,"error":{"code":-32020,"message":"Header mismatch"}})");
    };
    EXPECT_THAT(failure_of(server), HasSubstr("-32020: Header mismatch"));
}

TEST(McpHttp, Unauthorized_NamesTheSetting) {
    WebServer server;
    server.replies["server/discover"] = [](const HttpRequest&, const Json&) {
        return MemoryResponse(401);
    };
    EXPECT_THAT(failure_of(server), HasSubstr("set its token"));
    EXPECT_EQ(server.requests.size(), 1U);
}

TEST(McpHttp, ForeignRedirect_GetsNoToken) {
    WebServer server;
    server.replies["server/discover"] = [](const HttpRequest&, const Json&) {
        return MemoryResponse(307).with_header("location", "https://evil/mcp");
    };
    EXPECT_THAT(failure_of(server), HasSubstr("https://evil/mcp, which is not followed"));
    for (const HttpRequest& request : server.requests) EXPECT_EQ(request.url, "https://host/mcp");
}

TEST(McpHttp, D58_SecretsThatServerRepeats_AreNotInErrors) {
    WebServer server;
    server.options.url = "https://host/mcp?tavilyApiKey=key-of-the-url&mode=fast";
    server.options.headers.set("Authorization", "Bearer token-of-header");
    server.options.fresh_headers = [](bool) -> Task<HttpHeaders> {
        HttpHeaders headers;
        headers.add("X-Short-Lived", "fresh-value-1");
        co_return headers;
    };
    server.be_modern();
    std::string repeated;
    int status = 200;
    server.replies["tools/call"] = [&](const HttpRequest& request, const Json& id) {
        repeated = request.url + " " + std::string(request.headers.get("authorization")) + " " +
                   std::string(request.headers.get("x-short-lived"));
        return MemoryResponse(status, R"({"jsonrpc":"2.0","id":)" + json_text(id) +
                                          R"(,"error":{"code":-32001,"message":")" + repeated +
                                          R"("}})")
            .with_header("content-type", "application/json");
    };
    for (const int one : {200, 400}) {
        status = one;
        const std::string text = failure_of(server);
        EXPECT_THAT(text, HasSubstr("tavilyApiKey=***&mode=fast"));
        for (const char* secret : {"key-of-the-url", "token-of-header", "fresh-value-1"}) {
            EXPECT_THAT(repeated, HasSubstr(secret));
            EXPECT_THAT(text, Not(HasSubstr(secret)));
        }
    }
    server.replies["server/discover"] = [](const HttpRequest& request, const Json&) {
        return MemoryResponse(301).with_header("location",
                                               "https://other" + request.url.substr(12));
    };
    EXPECT_THAT(failure_of(server),
                HasSubstr("redirects to https://other/mcp?tavilyApiKey=***&mode=fast"));
}

TEST(McpHttp, RedirectWithinOrigin_IsFollowed) {
    WebServer server;
    server.replies["server/discover"] = [](const HttpRequest& request, const Json& id) {
        if (request.url == "https://host/mcp")
            return MemoryResponse(308).with_header("location", "/mcp/");
        return WebServer::json(id, R"({"supportedVersions":["2026-07-28"],"capabilities":{}})");
    };
    EXPECT_EQ(server.go(server.client()->connect()).version, "2026-07-28");
}

TEST(McpHttp, OversizedResponse_FailsTheCall) {
    WebServer server;
    server.be_modern();
    server.options.limits.max_message_bytes = 1000;
    server.replies["tools/call"] = [](const HttpRequest&, const Json&) {
        return MemoryResponse(200, std::string(2000, 'x'))
            .with_header("content-type", "application/json");
    };
    EXPECT_THAT(failure_of(server), HasSubstr("more than 1000 bytes"));
}

TEST(McpHttp, WebPage_IsNotAResponse) {
    WebServer server;
    server.be_modern();
    server.replies["tools/call"] = [](const HttpRequest&, const Json&) {
        return MemoryResponse(200, "<html>").with_header("content-type", "text/html");
    };
    EXPECT_THAT(failure_of(server), HasSubstr("check the URL"));
}

TEST(McpHttp, CancelledCallOfASession_IsWithdrawn) {
    WebServer server;
    server.be_legacy();
    server.replies["tools/call"] = [](const HttpRequest&, const Json&) {
        return WebServer::events().with_stall();
    };
    McpCall call("t", {});
    call.timeout = std::chrono::seconds(1);
    const auto client = server.client();
    const auto both = [](std::shared_ptr<McpClient> one, McpCall hanging) -> Task<> {
        const Outcome<JsonObject> outcome = co_await outcome_of(one->call(std::move(hanging)));
        EXPECT_FALSE(outcome.ok());
        co_await yield_now();
        co_await yield_now();
    };
    server.go(both(client, std::move(call)));
    EXPECT_THAT(server.requests.back().body, HasSubstr("notifications/cancelled"));
}

TEST(McpHttp, FailedCallOfASession_IsNotWithdrawn) {
    WebServer server;
    server.be_legacy();
    server.replies["tools/call"] = [](const HttpRequest&, const Json&) {
        return WebServer::events().with_piece(": nothing\n\n");
    };
    EXPECT_THAT(failure_of(server), HasSubstr("ended the stream without a response"));
    for (const HttpRequest& request : server.requests)
        EXPECT_THAT(request.body, ::testing::Not(HasSubstr("notifications/cancelled")));
}

TEST(McpHttp, UnansweredWithdrawal_IsGivenUp) {
    WebServer server;
    server.be_legacy();
    server.replies["tools/call"] = [](const HttpRequest&, const Json&) {
        return WebServer::events().with_stall();
    };
    server.stalls_withdrawals = true;
    McpCall call("t", {});
    call.timeout = std::chrono::seconds(1);
    const auto wait = [](WebServer* one, std::shared_ptr<McpClient> client,
                         McpCall hanging) -> Task<> {
        Task<JsonObject> calling = client->call(std::move(hanging));
        const Outcome<JsonObject> outcome = co_await outcome_of(std::move(calling));
        EXPECT_FALSE(outcome.ok());
        co_await one->clock->sleep_for(std::chrono::seconds(10));
    };
    const auto client = server.client();
    server.go(wait(&server, client, std::move(call)));
    EXPECT_THAT(server.requests.back().body, HasSubstr("notifications/cancelled"));
    EXPECT_EQ(server.transport->open_exchanges(), 0U);
}

TEST(McpHttp, InvalidSettings_AreRejected) {
    const auto runtime = Runtime::standard();
    McpHttpOptions options;
    options.url = "file:///etc/passwd";
    EXPECT_THROW((void)mcp_http_transport(options, runtime), Error);
    options.url = "https://host/mcp";
    options.headers.add("X", "a\r\nb: c");
    EXPECT_THROW((void)mcp_http_transport(options, runtime), Error);
}

}  // namespace
}  // namespace cubepi
