// D224: MCP clients of a gateway that have access tokens of an OAuth authorization server.

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio/io_context.hpp>

#include <cubepi/core/run.hpp>
#include <cubepi/core/task.hpp>
#include <cubepi/mcp/auth/signed_token_test.hpp>
#include <cubepi/net/http_server.hpp>

#include "gateway_process.hpp"
#include "openai_gateway.hpp"

namespace cubepi::gateway_tests {
namespace {

constexpr const char* audience = "https://agents.example/mcp";

Task<HttpServerResponse> answer_with(JsonObject body, unsigned status = 200) {
    co_return HttpServerResponse::json(status, Json(std::move(body)));
}

/// An authorization server on the event loop of run().
struct Issuer {
    Issuer() {
        http.open();
        url = "http://127.0.0.1:" + std::to_string(http.port());
        routes.add("GET", "/.well-known/oauth-authorization-server",
                   [this](const HttpServerRequest&) {
                       return answer_with({{"issuer", url}, {"jwks_uri", url + "/keys"}},
                                          is_down ? 503 : 200);
                   });
        routes.add("GET", "/keys", [this](const HttpServerRequest&) {
            return answer_with(mcp_test::key_set({key.jwk("k1")}));
        });
        routes.serve();
    }
    ~Issuer() {
        run(routes.stop(std::chrono::nanoseconds::zero()));
        run(http.stop(std::chrono::nanoseconds::zero()));
    }
    std::string token(const std::string& user, const std::string& server = audience,
                      const std::string& scope = "agent") const {
        const auto now = std::chrono::system_clock::now().time_since_epoch();
        JsonObject claims;
        claims["iss"] = url;
        claims["aud"] = server;
        claims["sub"] = user;
        claims["scope"] = scope;
        claims["exp"] = std::chrono::duration_cast<std::chrono::seconds>(now).count() + 3600;
        return key.token(claims, JsonObject{{"kid", "k1"}});
    }

    mcp_test::SigningKey key{"ES256"};
    HttpServer http{this_thread_context().get_executor()};
    HttpRoutes routes{http, "issuer"};
    std::string url;
    bool is_down = false;
};

struct GatewayMcpOAuth : ::testing::Test {
    void add_server(const std::string& name, const std::string& token) const {
        const std::string url = "http://127.0.0.1:" + std::to_string(port) + "/mcp";
        const CommandResult added = run_command(
            home, {"mcp", "add", "--header", "Authorization: Bearer " + token, name, url});
        ASSERT_EQ(added.status, 0) << added.output;
    }
    std::string call(const std::string& name, const std::string& tool,
                     const JsonObject& arguments) const {
        return run_command(home,
                           {"mcp", "call", "--json", name, tool, boost::json::serialize(arguments)})
            .output;
    }
    int status(const std::string& token) const {
        return run(call_with_token(port, "POST", "/mcp", token, "{}")).status;
    }

    /// Waits until `cubepi mcp serve` has its port.
    void wait_until_served(GatewayProcess& served) {
        const std::string begin = "Serving http://127.0.0.1:";
        // The issuer answers while this thread runs its event loop.
        wait_until([&] {
            run(yield_now());
            return served.output().find(begin) != std::string::npos;
        });
        const std::string output = served.output();
        port =
            static_cast<std::uint16_t>(std::stoi(output.substr(output.find(begin) + begin.size())));
    }

    Issuer issuer;
    GatewayHome home;
    std::uint16_t port = 0;
};

TEST_F(GatewayMcpOAuth, D224_UsersOfAnIssuer_HaveTheirSessions) {
    home.configure("{http: {listen: \"127.0.0.1:0\", mcp: true, mcp_issuer: \"" + issuer.url +
                   "\", mcp_url: \"" + audience + "\", mcp_scopes: [agent]}}");
    GatewayProcess gateway(home);
    port = gateway.wait_until_running();
    const std::string ann = issuer.token("ann");
    // The keys are read in the background.
    wait_until([&] { return status(ann) != 503; });
    EXPECT_EQ(status(ann), 400);
    EXPECT_EQ(status(""), 401);
    EXPECT_EQ(status("0123456789abcdef"), 401);  // the token of the channel
    EXPECT_EQ(status(issuer.token("ann", "https://other.example/mcp")), 401);
    const HttpReply metadata = run(http_get(port, "/.well-known/oauth-protected-resource/mcp"));
    EXPECT_EQ(metadata.json().at("resource"), Json(audience));

    add_server("ann", ann);
    add_server("bob", issuer.token("bob"));
    const std::string first = call("ann", "send_message", {{"text", "hello"}});
    EXPECT_NE(first.find("re: hello"), std::string::npos) << first << gateway.output();
    const Json result = boost::json::parse(first).at("structuredContent");
    const std::string session(result.at("session").as_string());
    EXPECT_EQ(session.find("oauth"), std::string::npos) << session;
    const std::string read = call("ann", "read_session", {{"session", session}});
    EXPECT_NE(read.find("hello"), std::string::npos) << read;
    for (const std::string& name : {session, "oauth+ann:" + session}) {
        const std::string others = call("bob", "read_session", {{"session", name}});
        EXPECT_EQ(others.find("hello"), std::string::npos) << others;
    }
    // For the program that has the token of the channel.
    const HttpReply whole = run(call_channel(port, "GET", "/v1/sessions/oauth%2Bann%3A" + session));
    EXPECT_NE(whole.body.find("hello"), std::string::npos) << whole.body;
    // The token of an issuer opens nothing else.
    EXPECT_EQ(run(call_with_token(port, "GET", "/v1/sessions/s1", ann)).status, 401);
}

/// A user of an issuer who is an operator has clients with models, whose texts are not words of the user.
TEST_F(GatewayMcpOAuth, B11_ClientOfOperator_RunsNoCommands) {
    home.configure(
        "{http: {listen: \"127.0.0.1:0\", mcp: true, operators: [\"oauth+ann\"], mcp_issuer: \"" +
        issuer.url + "\", mcp_url: \"" + audience + "\"}}");
    GatewayProcess gateway(home,
                           {"--script", home.script(R"({"answers": ["The model has read it."]})")});
    port = gateway.wait_until_running();
    const std::string ann = issuer.token("ann");
    wait_until([&] { return status(ann) != 503; });
    add_server("ann", ann);
    const std::filesystem::path made = home.path() / "made";
    const std::string ran = call("ann", "send_message", {{"text", ",touch " + made.string()}});
    EXPECT_NE(ran.find("The model has read it."), std::string::npos) << ran << gateway.output();
    EXPECT_FALSE(std::filesystem::exists(made));
}

TEST_F(GatewayMcpOAuth, B25_ClientOfApprover_ApprovesNoCalls) {
    home.configure(
        "{approvers: [{channel: http, user: \"oauth+ann\"}], http: {listen: \"127.0.0.1:0\", mcp: "
        "true, mcp_issuer: \"" +
        issuer.url + "\", mcp_url: \"" + audience + "\"}}");
    const std::filesystem::path made = home.path() / "made";
    const std::string script =
        R"({"tokens_per_second": 100000, "answers": [{"stop_reason": "tool_use", "content": [{"type": "tool_call", "id": "c1",
        "name": "shell", "arguments": {"command": "touch )" +
        made.string() + R"("}}]}, "Done."]})";
    GatewayProcess gateway(home, {"--script", home.script(script)});
    port = gateway.wait_until_running();
    const std::string ann = issuer.token("ann");
    wait_until([&] { return status(ann) != 503; });
    add_server("ann", ann);
    const std::string asked = call("ann", "send_message", {{"text", "write"}, {"session", "s1"}});
    EXPECT_NE(asked.find("touch"), std::string::npos) << asked << gateway.output();
    const std::string answered =
        call("ann", "send_message", {{"text", ",approve c1"}, {"session", "s1"}});
    EXPECT_NE(answered.find("waits for an answer"), std::string::npos) << answered;
    EXPECT_FALSE(std::filesystem::exists(made));
}

TEST_F(GatewayMcpOAuth, D224_ReloadWithoutIssuer_ContinuesWithItsKeys) {
    const auto configure = [this](const std::string& more) {
        home.configure("{http: {listen: \"127.0.0.1:0\", mcp: true, mcp_issuer: \"" + issuer.url +
                       "\", mcp_url: \"" + audience + "\"" + more + "}}");
    };
    configure("");
    GatewayProcess gateway(home);
    port = gateway.wait_until_running();
    const std::string ann = issuer.token("ann");
    wait_until([&] { return status(ann) != 503; });
    issuer.is_down = true;
    configure(", max_body_mb: 2");
    EXPECT_EQ(run_command(home, {"gateway", "reload"}).status, 0);
    EXPECT_EQ(status(ann), 400);
    // Other settings are checked with keys of their own.
    configure(", mcp_scopes: [agent]");
    EXPECT_EQ(run_command(home, {"gateway", "reload"}).status, 0);
    EXPECT_EQ(status(ann), 503);
}

TEST_F(GatewayMcpOAuth, D224_ServedDirectory_ChecksIssuerAndScope) {
    GatewayProcess served(home,
                          {"--listen", "127.0.0.1:0", "--issuer", issuer.url, "--url", audience,
                           "--scope", "agent", "--scope", "files"},
                          {}, "mcp serve");
    wait_until_served(served);
    EXPECT_EQ(status(issuer.token("ann", audience, "agent files")), 400);
    EXPECT_EQ(status(issuer.token("ann", audience, "agent")), 403);
    EXPECT_EQ(status(issuer.token("ann", "https://other.example/mcp", "agent files")), 401);
    EXPECT_EQ(status(""), 401);
    for (const std::vector<std::string>& wrong :
         {std::vector<std::string>{"--issuer", issuer.url},
          std::vector<std::string>{"--listen", "127.0.0.1:0", "--scope", "agent"}}) {
        std::vector<std::string> words = {"mcp", "serve"};
        words.insert(words.end(), wrong.begin(), wrong.end());
        const CommandResult refused = run_command(home, words);
        EXPECT_NE(refused.status, 0);
        EXPECT_NE(refused.output.find("--issuer"), std::string::npos) << refused.output;
    }
}

TEST_F(GatewayMcpOAuth, D224_ServedDirectory_SeparatesCommandsOfClients) {
    GatewayProcess served(
        home, {"--listen", "127.0.0.1:0", "--yes", "--issuer", issuer.url, "--url", audience}, {},
        "mcp serve");
    wait_until_served(served);
    add_server("ann", issuer.token("ann"));
    add_server("bob", issuer.token("bob"));
    const JsonObject command{{"command", "echo secret; sleep 1000"}, {"background", true}};
    const std::string started = call("ann", "shell", command);
    EXPECT_NE(started.find("sh1"), std::string::npos) << started;
    const std::string listed = call("bob", "shell_output", {});
    EXPECT_EQ(listed.find("sleep"), std::string::npos) << listed;
    const std::string read = call("bob", "shell_output", {{"id", "sh1"}});
    EXPECT_EQ(read.find("secret"), std::string::npos) << read;
    const std::string killed = call("bob", "shell_kill", {{"id", "sh1"}});
    EXPECT_NE(killed.find("\"isError\":true"), std::string::npos) << killed;
    const std::string own =
        call("ann", "shell_output", {{"id", "sh1"}, {"wait_seconds", 60}, {"from_start", true}});
    EXPECT_NE(own.find("secret"), std::string::npos) << own;
    EXPECT_NE(call("ann", "shell_output", {}).find("sleep"), std::string::npos);
    EXPECT_NE(call("ann", "shell_kill", {{"id", "sh1"}}).find("sh1"), std::string::npos);
}

TEST_F(GatewayMcpOAuth, D224_IncompleteSettings_AreRefused) {
    for (const char* const settings :
         {R"({http: {mcp: true, mcp_issuer: "https://auth.example"}})",
          R"({http: {mcp_issuer: "https://auth.example", mcp_url: "https://agents.example/mcp"}})",
          R"({http: {mcp: true, mcp_scopes: [agent]}})"}) {
        home.configure(settings);
        const CommandResult checked = run_command(home, {"gateway"});
        EXPECT_NE(checked.status, 0) << settings;
        EXPECT_NE(checked.output.find("gateway.http.mcp_"), std::string::npos) << checked.output;
    }
}

}  // namespace
}  // namespace cubepi::gateway_tests
