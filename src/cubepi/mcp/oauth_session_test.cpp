#include <cubepi/mcp/oauth_session.hpp>

#include <chrono>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cubepi/core/error.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/mcp/auth/secrets.hpp>

#include "fake_authorization_test.hpp"

namespace cubepi {
namespace {

using mcp_test::FakeAuthorization;
using mcp_test::Form;
using mcp_test::refused_with;
using ::testing::HasSubstr;
using testing::MemoryResponse;
using ::testing::Not;

Task<std::string> authorized(McpOAuthSession* session, McpChallenge challenge) {
    co_await session->authorize(std::move(challenge));
    co_return co_await session->token("https://mcp.example/mcp");
}

std::string authorize(const FakeAuthorization& fake, McpOAuthSession& session,
                      McpChallenge challenge = refused_with(401)) {
    (void)fake;
    return run(authorized(&session, std::move(challenge)));
}

std::string failure_of(FakeAuthorization& fake, McpOAuthSession& session,
                       McpChallenge challenge = refused_with(401)) {
    try {
        (void)authorize(fake, session, std::move(challenge));
    } catch (const Error& error) {
        return std::string(to_string(error.code())) + ": " + error.what();
    }
    return {};
}

std::string failure_of(FakeAuthorization& fake) {
    const auto session = fake.session();
    return failure_of(fake, *session);
}

TEST(McpOAuth, D143_Login_ProvesAndBindsItself) {
    FakeAuthorization fake;
    const auto session = fake.session();
    EXPECT_EQ(authorize(fake, *session, refused_with(401, "", "read write")), "t1");
    const Form query = fake.user->query();
    EXPECT_EQ(query.at("response_type"), "code");
    EXPECT_EQ(query.at("client_id"), "https://auth.example-client");
    EXPECT_EQ(query.at("scope"), "read write");
    EXPECT_EQ(query.at("resource"), "https://mcp.example/mcp");
    EXPECT_EQ(query.at("code_challenge_method"), "S256");
    ASSERT_EQ(fake.token_requests.size(), 1U);
    const Form& request = fake.token_requests.at(0);
    EXPECT_EQ(request.at("code"), "c1");
    EXPECT_EQ(request.at("resource"), "https://mcp.example/mcp");
    EXPECT_EQ(detail::pkce_challenge(request.at("code_verifier")), query.at("code_challenge"));
}

Task<std::string> token_for(McpOAuthSession* session, std::string url) {
    co_return co_await session->token(std::move(url));
}

TEST(McpOAuth, D143_AnotherOrigin_GetsNoToken) {
    FakeAuthorization fake;
    const auto session = fake.session();
    (void)authorize(fake, *session);
    EXPECT_EQ(run(token_for(session.get(), "https://mcp.example/other")), "t1");
    EXPECT_EQ(run(token_for(session.get(), "https://mcp.example:444/mcp")), "");
    EXPECT_EQ(run(token_for(session.get(), "https://evil.example/mcp")), "");
}

TEST(McpOAuth, D143_AnotherIssuer_GetsNoEarlierCredentials) {
    FakeAuthorization fake;
    fake.issues_refresh_tokens = true;
    const auto session = fake.session();
    EXPECT_EQ(authorize(fake, *session), "t1");
    fake.issuer = "https://new.example";
    EXPECT_EQ(authorize(fake, *session, refused_with(401, "t1")), "t2");
    EXPECT_EQ(fake.registrations, 2);
    EXPECT_EQ(fake.token_requests.at(1).at("grant_type"), "authorization_code");
    EXPECT_EQ(fake.token_requests.at(1).at("client_id"), "https://new.example-client");
}

TEST(McpOAuth, D143_ConfiguredClient_StaysWithItsIssuer) {
    FakeAuthorization fake;
    fake.options.client.id = "known";
    fake.options.client.secret = "configured-secret";
    fake.options.issuer = "https://other.example";
    EXPECT_THAT(failure_of(fake), HasSubstr("the configured client belongs to"));
    EXPECT_TRUE(fake.token_requests.empty());

    fake.options.issuer.clear();
    const auto session = fake.session();
    EXPECT_EQ(authorize(fake, *session), "t1");
    fake.issuer = "https://new.example";
    const std::string failure = failure_of(fake, *session, refused_with(401, "t1"));
    EXPECT_THAT(failure, HasSubstr("another authorization server than before"));
    EXPECT_THAT(failure, Not(HasSubstr("configured-secret")));
    EXPECT_EQ(fake.token_requests.size(), 1U);
}

TEST(McpOAuth, D143_MetadataOfAnotherServer_IsNotUsed) {
    FakeAuthorization fake;
    fake.metadata["issuer"] = "https://evil.example";
    EXPECT_THAT(failure_of(fake), HasSubstr("is that of another one, https://evil.example"));
    fake.metadata["issuer"] = "https://auth.example/";
    EXPECT_THAT(failure_of(fake), HasSubstr("is that of another one"));
    fake.metadata.clear();
    fake.resource = "https://mcp.example/mc";
    EXPECT_THAT(failure_of(fake), HasSubstr("the metadata of another server"));
    fake.resource = "https://evil.example/mcp";
    EXPECT_THAT(failure_of(fake), HasSubstr("the metadata of another server"));
    EXPECT_TRUE(fake.user->pages.empty());
}

TEST(McpOAuth, D143_RedirectToAnotherOrigin_IsNotFollowed) {
    FakeAuthorization fake;
    fake.replies["https://auth.example/.well-known/oauth-authorization-server"] =
        [](const HttpRequest&) {
            return MemoryResponse(302).with_header("location", "https://evil.example/metadata");
        };
    EXPECT_THAT(failure_of(fake),
                HasSubstr("https://evil.example/metadata, which is not followed"));
    fake.replies.clear();
    fake.replies["https://auth.example/token"] = [](const HttpRequest&) {
        return MemoryResponse(307).with_header("location", "https://evil.example/token");
    };
    EXPECT_THAT(failure_of(fake), HasSubstr("refused to issue a token with status 307"));
    EXPECT_FALSE(fake.was_requested("https://evil.example"));
}

TEST(McpOAuth, D143_WrongRedirects_AreRefused) {
    FakeAuthorization fake;
    fake.user->change = [](Form& answer) { answer["state"] = "other"; };
    EXPECT_THAT(failure_of(fake), HasSubstr("belongs to another login"));
    fake.user->change = [](Form& answer) { answer["iss"] = "https://evil.example"; };
    EXPECT_THAT(failure_of(fake), HasSubstr("comes from another server, https://evil.example"));
    fake.user->change = [](Form& answer) { answer["iss"] = "https://auth.example/"; };
    EXPECT_THAT(failure_of(fake), HasSubstr("comes from another server"));
    fake.user->change = [](Form& answer) {
        answer.erase("code");
        answer["error"] = "access_denied";
    };
    EXPECT_THAT(failure_of(fake), HasSubstr("was refused: access_denied"));
    fake.user->change = nullptr;
    fake.metadata["authorization_response_iss_parameter_supported"] = true;
    EXPECT_THAT(failure_of(fake), HasSubstr("does not state its server"));
    EXPECT_TRUE(fake.token_requests.empty());
}

TEST(McpOAuth, D143_MissingPkce_StartsNoLogin) {
    FakeAuthorization fake;
    fake.metadata["code_challenge_methods_supported"] = nullptr;
    EXPECT_THAT(failure_of(fake), HasSubstr("PKCE with S256"));
    fake.metadata["code_challenge_methods_supported"] = JsonArray{Json("plain")};
    EXPECT_THAT(failure_of(fake), HasSubstr("PKCE with S256"));
    EXPECT_TRUE(fake.user->pages.empty());
    EXPECT_EQ(fake.registrations, 0);
}

TEST(McpOAuth, D143_InternalAddresses_AreNotUsed) {
    FakeAuthorization fake;
    for (const char* url : {"http://169.254.169.254/token", "http://auth.example/token",
                            "https://user@auth.example/token", "http://127.0.0.1:80/token",
                            "file:///etc/passwd", "https://auth.example\\@evil.example/"}) {
        fake.metadata["token_endpoint"] = url;
        EXPECT_THAT(failure_of(fake), HasSubstr("may not be used")) << url;
    }
    fake.metadata.clear();
    for (const char* address : {"169.254.169.254", "fe80::1", "fd00:ec2::254", "10.0.0.1", "::1",
                                "::ffff:169.254.169.254"}) {
        fake.addresses = {"93.184.216.34", address};
        EXPECT_THAT(failure_of(fake), HasSubstr("not used")) << address;
    }
    EXPECT_TRUE(fake.token_requests.empty());
}

TEST(McpOAuth, D143_PrivateServer_MayHavePrivateAuthorization) {
    FakeAuthorization fake;
    fake.own_addresses = {"10.0.0.2"};
    fake.addresses = {"10.0.0.1"};
    const auto session = fake.session();
    EXPECT_EQ(authorize(fake, *session), "t1");
}

TEST(McpOAuth, RefreshToken_ReplacesALogin) {
    FakeAuthorization fake;
    fake.issues_refresh_tokens = true;
    const auto session = fake.session();
    (void)authorize(fake, *session);
    fake.clock->advance(std::chrono::hours(2));
    EXPECT_EQ(authorize(fake, *session, refused_with(401, "t1")), "t2");
    EXPECT_EQ(fake.token_requests.at(1).at("refresh_token"), "r1");
    EXPECT_EQ(fake.user->pages.size(), 1U);
    // Another session of the same user adopts the token.
    const auto other = fake.session();
    EXPECT_EQ(authorize(fake, *other, refused_with(401, "t1")), "t2");
    EXPECT_EQ(fake.token_requests.size(), 2U);
}

TEST(McpOAuth, RefusedRefresh_LeadsToALogin) {
    FakeAuthorization fake;
    fake.issues_refresh_tokens = true;
    const auto session = fake.session();
    (void)authorize(fake, *session);
    fake.clock->advance(std::chrono::hours(2));
    fake.replies["https://auth.example/token"] = [](const HttpRequest&) {
        return MemoryResponse(400, R"({"error":"invalid_grant","error_description":"r1 is old"})");
    };
    fake.options.ui = nullptr;
    const auto unattended = fake.session();
    const std::string failure = failure_of(fake, *unattended, refused_with(401, "t1"));
    EXPECT_EQ(failure, "auth: The MCP server web needs a login; run: cubepi mcp login web");
    fake.replies.clear();
    EXPECT_EQ(authorize(fake, *session, refused_with(401, "t1")), "t2");
    EXPECT_EQ(fake.token_requests.at(1).at("grant_type"), "authorization_code");
}

TEST(McpOAuth, UnreachableServer_KeepsTheRefreshToken) {
    FakeAuthorization fake;
    fake.issues_refresh_tokens = true;
    const auto session = fake.session();
    (void)authorize(fake, *session);
    fake.clock->advance(std::chrono::hours(2));
    fake.replies["https://auth.example/token"] = [](const HttpRequest&) {
        return MemoryResponse(503);
    };
    EXPECT_THAT(failure_of(fake, *session, refused_with(401, "t1")), HasSubstr("unavailable: "));
    fake.replies.clear();
    EXPECT_EQ(authorize(fake, *session, refused_with(401, "t1")), "t2");
    EXPECT_EQ(fake.user->pages.size(), 1U);
}

TEST(McpOAuth, RefusedNewToken_EndsTheLoop) {
    FakeAuthorization fake;
    const auto session = fake.session();
    (void)authorize(fake, *session);
    const std::string failure = failure_of(fake, *session, refused_with(401, "t1"));
    EXPECT_THAT(failure, HasSubstr("refuses the token that its authorization server has just"));
    EXPECT_EQ(fake.user->pages.size(), 1U);
}

TEST(McpOAuth, MoreScopes_AreAddedToGrantedOnes) {
    FakeAuthorization fake;
    const auto session = fake.session();
    (void)authorize(fake, *session, refused_with(401, "", "read"));
    EXPECT_EQ(authorize(fake, *session, refused_with(403, "t1", "write")), "t2");
    EXPECT_EQ(fake.user->query().at("scope"), "read write");
    EXPECT_THAT(failure_of(fake, *session, refused_with(403, "t2", "write")),
                HasSubstr("has granted what it asks for: 'write'"));
    EXPECT_EQ(fake.user->pages.size(), 2U);
}

TEST(McpOAuth, UnusableTokens_AreRefused) {
    FakeAuthorization fake;
    for (const char* body :
         {R"({"access_token":"a\r\nX: y","token_type":"Bearer"})", R"({"token_type":"Bearer"})",
          R"({"access_token":"secret1","token_type":"mac"})", "[]", "<html>"}) {
        fake.replies["https://auth.example/token"] = [body](const HttpRequest&) {
            return MemoryResponse(200, body);
        };
        const std::string failure = failure_of(fake);
        EXPECT_THAT(failure, HasSubstr("The authorization server")) << body;
        EXPECT_THAT(failure, Not(HasSubstr("secret1")));
    }
    fake.replies["https://auth.example/token"] = [](const HttpRequest&) {
        return MemoryResponse(200, std::string(300 * 1024, ' '));
    };
    EXPECT_THAT(failure_of(fake), HasSubstr("too_large: "));
}

// Logins in progress.

struct TwoRequests {
    FakeAuthorization fake;
    std::shared_ptr<McpOAuthSession> session = fake.session();
    std::string first = {};
    std::string second = {};
};

Task<> request_token(TwoRequests* two, std::string* result) {
    Task<std::string> asking = authorized(two->session.get(), refused_with(401));
    Outcome<std::string> asked = co_await outcome_of(std::move(asking));
    *result = asked.ok() ? std::string(asked.value()) : exception_text(asked.failure());
}

Task<> until_page(TwoRequests* two, std::size_t pages) {
    while (two->fake.user->pages.size() < pages) co_await yield_now();
}

Task<> share_login(TwoRequests* two, TaskScope& scope) {
    scope.spawn(request_token(two, &two->first));
    scope.spawn(request_token(two, &two->second));
    co_await until_page(two, 1);
    two->fake.user->allowed.set();
}

TEST(McpOAuth, TwoRequests_ShareOneLogin) {
    TwoRequests two;
    two.fake.user->waits = true;
    run(with_task_scope([&two](TaskScope& scope) { return share_login(&two, scope); }));
    EXPECT_EQ(two.first, "t1");
    EXPECT_EQ(two.second, "t1");
    EXPECT_EQ(two.fake.user->pages.size(), 1U);
    EXPECT_EQ(two.fake.registrations, 1);
}

TEST(McpOAuth, TwoRequests_ShareOneFailure) {
    TwoRequests two;
    two.fake.user->waits = true;
    two.fake.user->change = [](Form& answer) { answer["error"] = "access_denied"; };
    run(with_task_scope([&two](TaskScope& scope) { return share_login(&two, scope); }));
    EXPECT_THAT(two.first, HasSubstr("access_denied"));
    EXPECT_EQ(two.first, two.second);
    EXPECT_EQ(two.fake.user->pages.size(), 1U);
}

Task<> abort_one(TwoRequests* two, TaskScope& aborted, TaskScope& other, bool has_other) {
    aborted.spawn(request_token(two, &two->first));
    if (has_other) other.spawn(request_token(two, &two->second));
    co_await until_page(two, 1);
    aborted.cancel();
    (void)co_await aborted.join_failure();
    two->fake.user->allowed.set();
}

Task<> abort_login(TwoRequests* two, bool has_other) {
    const Executor executor = co_await this_executor;
    TaskScope aborted(executor);
    TaskScope other(executor);
    co_await abort_one(two, aborted, other, has_other);
    co_await other.join();
}

TEST(McpOAuth, AbortedRequest_LeavesTheLoginToOthers) {
    TwoRequests two;
    two.fake.user->waits = true;
    run(abort_login(&two, true));
    EXPECT_EQ(two.second, "t1");
    EXPECT_EQ(two.fake.user->pages.size(), 1U);
}

TEST(McpOAuth, LastAbort_EndsTheLogin) {
    TwoRequests two;
    two.fake.user->waits = true;
    run(abort_login(&two, false));
    EXPECT_TRUE(two.fake.token_requests.empty());
    // The next request starts another login.
    two.fake.user->waits = false;
    EXPECT_EQ(authorize(two.fake, *two.session), "t1");
    EXPECT_EQ(two.fake.user->pages.size(), 2U);
}

TEST(McpOAuth, LoginWithoutAnAnswer_Ends) {
    TwoRequests two;
    two.fake.user->waits = true;
    const auto play = [](TwoRequests* both, TaskScope& scope) -> Task<> {
        scope.spawn(request_token(both, &both->first));
        co_await until_page(both, 1);
        both->fake.clock->advance(std::chrono::minutes(11));
    };
    run(with_task_scope([&two, &play](TaskScope& scope) { return play(&two, scope); }));
    EXPECT_THAT(two.first, HasSubstr("login"));
    EXPECT_TRUE(two.fake.token_requests.empty());
}

// Clients.

TEST(McpOAuth, Secret_IsSentAsTheServerSupports) {
    FakeAuthorization fake;
    fake.options.client.id = "id 1";
    fake.options.client.secret = "s:1";
    fake.options.issuer = fake.issuer;
    fake.metadata["token_endpoint_auth_methods_supported"] =
        JsonArray{Json("client_secret_post"), Json("client_secret_basic")};
    const auto session = fake.session();
    (void)authorize(fake, *session);
    const HttpRequest& request = fake.requests.back();
    EXPECT_EQ(request.headers.get("authorization"), "Basic aWQlMjAxOnMlM0Ex");
    EXPECT_FALSE(fake.token_requests.back().contains("client_secret"));
    fake.metadata["token_endpoint_auth_methods_supported"] = JsonArray{Json("client_secret_post")};
    fake.options.store = nullptr;
    const auto other = fake.session();
    (void)authorize(fake, *other);
    EXPECT_EQ(fake.token_requests.back().at("client_secret"), "s:1");
    EXPECT_EQ(fake.registrations, 0);
}

TEST(McpOAuth, D58_RepeatedSecret_IsNotInTheError) {
    FakeAuthorization fake;
    fake.options.client.id = "known";
    fake.options.client.secret = "configured-secret";
    fake.options.issuer = fake.issuer;
    fake.replies["https://auth.example/token"] = [](const HttpRequest&) {
        return MemoryResponse(
            503,
            R"({"error":"configured-secret","error_description":"no configured-secret here"})");
    };
    EXPECT_THAT(failure_of(fake), HasSubstr("status 503: *** (no *** here)"));
}

TEST(McpOAuth, Service_NeedsNoUser) {
    FakeAuthorization fake;
    fake.options.client.id = "robot";
    fake.options.client.secret = "s1";
    fake.options.is_service = true;
    fake.options.ui = nullptr;
    fake.options.scope = "jobs";
    const auto session = fake.session();
    EXPECT_EQ(authorize(fake, *session), "t1");
    EXPECT_EQ(fake.token_requests.at(0).at("grant_type"), "client_credentials");
    EXPECT_EQ(fake.token_requests.at(0).at("scope"), "jobs");
}

TEST(McpOAuth, ClientDocument_ReplacesARegistration) {
    FakeAuthorization fake;
    fake.options.client_metadata_url = "https://cubepi.example/client.json";
    fake.metadata["client_id_metadata_document_supported"] = true;
    const auto session = fake.session();
    (void)authorize(fake, *session);
    EXPECT_EQ(fake.user->query().at("client_id"), "https://cubepi.example/client.json");
    EXPECT_EQ(fake.registrations, 0);
}

TEST(McpOAuth, ServerWithoutMetadata_HasDefaultEndpoints) {
    FakeAuthorization fake;
    fake.issuer = "https://mcp.example";
    const auto absent = [](const HttpRequest&) { return MemoryResponse(404); };
    fake.replies["https://mcp.example/.well-known/oauth-protected-resource/mcp"] = absent;
    fake.replies["https://mcp.example/.well-known/oauth-authorization-server"] = absent;
    const auto session = fake.session();
    EXPECT_EQ(authorize(fake, *session), "t1");
    EXPECT_FALSE(fake.user->query().contains("resource"));
    EXPECT_TRUE(fake.user->pages.back().url.starts_with("https://mcp.example/authorize?"));
}

TEST(McpOAuth, UnsafeServerUrl_IsRefused) {
    FakeAuthorization fake;
    for (const char* url : {"http://mcp.example/mcp", "ftp://x", "https://a@b/"}) {
        fake.options.url = url;
        EXPECT_THROW((void)fake.session(), Error) << url;
    }
}

}  // namespace
}  // namespace cubepi
