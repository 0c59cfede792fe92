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
#include <cubepi/mcp/server_routes.hpp>
#include <cubepi/net/http_client.hpp>

namespace cubepi {
namespace {

using namespace mcp_test;
using ::testing::HasSubstr;

/// A server on the event loop of run().
struct ServedHttp {
    TestServer settings;
    HttpServer http{this_thread_context().get_executor()};
    HttpRoutes routes{http, "mcp"};

    explicit ServedHttp(McpRouteOptions options = McpRouteOptions()) {
        add_mcp_routes(routes, settings.make(), std::move(options));
        routes.serve();
    }
    ~ServedHttp() {
        run(routes.stop(std::chrono::nanoseconds::zero()));
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

}  // namespace
}  // namespace cubepi
