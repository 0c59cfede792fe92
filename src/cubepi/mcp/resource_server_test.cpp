#include <cubepi/mcp/resource_server.hpp>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <gtest/gtest.h>

#include <cubepi/core/error.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/mcp/auth/signed_token_test.hpp>
#include <cubepi/mcp/authorizer.hpp>
#include <cubepi/mcp/fake_authorization_test.hpp>
#include <cubepi/net/http_client.hpp>
#include <cubepi/schema/parse_json.hpp>

namespace cubepi {
namespace {

using mcp_test::FakeAuthorization;
using mcp_test::key_set;
using mcp_test::SigningKey;
using std::chrono::seconds;
using testing::MemoryResponse;

/// An MCP server that accepts the tokens of the fake authorization server.
struct ResourceServerTest : ::testing::Test {
    ResourceServerTest() {
        fake.metadata["jwks_uri"] = "https://auth.example/keys";
        fake.replies["https://auth.example/keys"] = [this](const HttpRequest&) {
            ++reads;
            return broken ? MemoryResponse(500) : FakeAuthorization::json(200, keys);
        };
        options.resource = fake.resource;
        options.issuer = fake.issuer;
        options.runtime = fake.runtime;
        options.resolve = [](const std::string&) {
            return std::vector<std::string>{"93.184.216.34"};
        };
        keys = key_set({key.jwk("k1")});
    }

    McpResourceServer& server() {
        if (!made) made.emplace(this_thread_context().get_executor(), options);
        return *made;
    }
    std::string token(const SigningKey& by, const std::string& id) const {
        const auto now = fake.clock->wall().time_since_epoch();
        JsonObject claims;
        claims["iss"] = fake.issuer;
        claims["aud"] = fake.resource;
        claims["sub"] = "ann";
        claims["exp"] = std::chrono::duration_cast<seconds>(now).count() + 100'000;
        return by.token(claims, JsonObject{{"kid", id}});
    }
    static HttpServerRequest request_with(const std::string& token) {
        HttpServerRequest request;
        if (!token.empty()) request.headers.set("authorization", "Bearer " + token);
        return request;
    }
    /// Returns the refusal of a request with a token; nothing if it is accepted.
    std::optional<HttpServerResponse> refusal(const std::string& token) {
        return server().authentication()(request_with(token));
    }
    unsigned status(const std::string& token) {
        const std::optional<HttpServerResponse> refused = refusal(token);
        return refused ? refused->status : 200;
    }
    /// Waits while keys are read in the background.
    unsigned status_after_reading(const std::string& token) {
        while (status(token) == 503) run(pause());
        return status(token);
    }
    static Task<> pause() {
        co_await Runtime::standard()->clock->sleep_for(std::chrono::milliseconds(1));
    }
    void wait_for_reads(int count) const {
        while (reads < count) run(pause());
    }

    FakeAuthorization fake;
    McpResourceServerOptions options;
    SigningKey key{"ES256"};
    JsonObject keys;
    int reads = 0;
    bool broken = false;
    std::optional<McpResourceServer> made;
};

TEST_F(ResourceServerTest, D224_Challenge_NamesTheMetadata) {
    options.scopes = {"tools", "files"};
    run(server().read_keys());
    const std::optional<HttpServerResponse> refused = refusal("");
    ASSERT_TRUE(refused.has_value());
    EXPECT_EQ(refused->status, 401U);
    // As our client reads it.
    const McpChallenge challenge = detail::read_mcp_challenge(401, refused->headers);
    EXPECT_EQ(challenge.resource_metadata,
              "https://mcp.example/.well-known/oauth-protected-resource/mcp");
    EXPECT_EQ(challenge.scope, "tools files");
    EXPECT_EQ(challenge.error, "");
    const std::optional<HttpServerResponse> invalid = refusal("a.b.c");
    ASSERT_TRUE(invalid.has_value());
    EXPECT_EQ(detail::read_mcp_challenge(401, invalid->headers).error, "invalid_token");
    const std::optional<HttpServerResponse> lacking = refusal(token(key, "k1"));
    ASSERT_TRUE(lacking.has_value());
    EXPECT_EQ(lacking->status, 403U);
    EXPECT_EQ(detail::read_mcp_challenge(403, lacking->headers).error, "insufficient_scope");
}

TEST_F(ResourceServerTest, D224_Clients_AreTheirSubjects) {
    run(server().read_keys());
    EXPECT_EQ(status(token(key, "k1")), 200U);
    EXPECT_EQ(server().client()(request_with(token(key, "k1"))), "ann");
    const SigningKey other("ES256");
    EXPECT_EQ(status(token(other, "k1")), 401U);
    const std::string forged = token(other, "k1");
    EXPECT_NE(server().client()(request_with(forged)), "ann");
}

TEST_F(ResourceServerTest, D224_Keys_AreReadInTheBackground) {
    EXPECT_EQ(status(token(key, "k1")), 503U);
    EXPECT_EQ(status_after_reading(token(key, "k1")), 200U);
    EXPECT_EQ(reads, 1);
    fake.clock->advance(std::chrono::minutes(16));
    EXPECT_EQ(status(token(key, "k1")), 200U);  // with the earlier ones
    wait_for_reads(2);
    // Without the issuer they are used for a day.
    broken = true;
    fake.clock->advance(std::chrono::hours(23));
    EXPECT_EQ(status(token(key, "k1")), 200U);
    wait_for_reads(3);
    fake.clock->advance(std::chrono::hours(1));
    EXPECT_EQ(status(token(key, "k1")), 503U);
    broken = false;
    fake.clock->advance(seconds(10));
    EXPECT_EQ(status_after_reading(token(key, "k1")), 200U);
}

TEST_F(ResourceServerTest, D224_NewKey_IsRead) {
    run(server().read_keys());
    const SigningKey next("EdDSA");
    keys = key_set({key.jwk("k1"), next.jwk("k2")});
    // Anyone can name unknown keys: they are not a reason to ask the issuer again and again.
    EXPECT_EQ(status(token(next, "k2")), 401U);
    EXPECT_EQ(reads, 1);
    fake.clock->advance(seconds(10));
    EXPECT_EQ(status(token(next, "k2")), 503U);
    EXPECT_EQ(status_after_reading(token(next, "k2")), 200U);
    EXPECT_EQ(status(token(next, "k3")), 401U);
    EXPECT_EQ(reads, 2);
    EXPECT_EQ(status(token(key, "k1")), 200U);
}

TEST_F(ResourceServerTest, D224_MetadataOfAnotherIssuer_IsNotUsed) {
    fake.metadata["issuer"] = "https://evil.example";
    EXPECT_THROW(run(server().read_keys()), Error);
    EXPECT_EQ(status(token(key, "k1")), 503U);
    EXPECT_EQ(reads, 0);
}

TEST_F(ResourceServerTest, D224_UnusableKeys_AreAnError) {
    keys = key_set({});
    EXPECT_THROW(run(server().read_keys()), Error);
    fake.metadata["jwks_uri"] = "http://keys.example/keys";  // without TLS
    EXPECT_THROW(run(server().read_keys()), Error);
    fake.metadata["jwks_uri"] = nullptr;
    EXPECT_THROW(run(server().read_keys()), Error);
    EXPECT_EQ(reads, 1);
}

TEST_F(ResourceServerTest, D224_InvalidUrls_AreRefused) {
    const auto made_with = [this](const std::string& resource, const std::string& issuer) {
        McpResourceServerOptions changed = options;
        changed.resource = resource;
        changed.issuer = issuer;
        const McpResourceServer unused(this_thread_context().get_executor(), changed);
    };
    made_with("https://mcp.example/agents/mcp", "https://auth.example");
    for (const char* const text :
         {"", "mcp", "http://mcp.example/mcp", "https://mcp.example/", "https://mcp.example/mcp#a",
          "https://mcp.example/?a=/mcp", "https://a@mcp.example/mcp"})
        EXPECT_THROW(made_with(text, "https://auth.example"), Error) << text;
    EXPECT_THROW(made_with(options.resource, "http://auth.example"), Error);
    options.scopes = {"a b"};
    EXPECT_THROW(made_with(options.resource, options.issuer), Error);
}

TEST_F(ResourceServerTest, D224_End_RefusesRequests) {
    run(server().read_keys());
    const HttpAuthentication authentication = server().authentication();
    made.reset();
    const std::optional<HttpServerResponse> refused =
        authentication(request_with(token(key, "k1")));
    ASSERT_TRUE(refused.has_value());
    EXPECT_EQ(refused->status, 503U);
}

Task<std::string> body_at(std::string url) {
    const std::shared_ptr<HttpTransport> transport = transport_of(*Runtime::standard());
    HttpRequest request("GET", std::move(url));
    HttpResponse response = co_await transport->send(std::move(request));
    const std::unique_ptr<HttpBody> reading = std::move(response.body);
    std::string body;
    for (bool more = true; more;) more = co_await reading->read(body);
    co_return body;
}

TEST_F(ResourceServerTest, D224_Metadata_IsServed) {
    options.scopes = {"tools"};
    HttpServer http(this_thread_context().get_executor());
    HttpRoutes routes(http, "metadata");
    server().add_metadata_route(routes);
    routes.serve();
    const std::string url = "http://127.0.0.1:" + std::to_string(http.port()) +
                            "/.well-known/oauth-protected-resource/mcp";
    const Json body = parse_json(run(body_at(url)));
    EXPECT_EQ(body.at("resource"), Json("https://mcp.example/mcp"));
    EXPECT_EQ(body.at("authorization_servers").at(0), Json("https://auth.example"));
    EXPECT_EQ(body.at("scopes_supported").at(0), Json("tools"));
    run(routes.stop(std::chrono::nanoseconds::zero()));
    run(http.stop(std::chrono::nanoseconds::zero()));
}

}  // namespace
}  // namespace cubepi
