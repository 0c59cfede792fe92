#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include <sys/stat.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cubepi/core/error.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/scoped_test_directory.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/net/http_client.hpp>

#include "config/paths.hpp"
#include "failure.hpp"
#include "mcp/mcp_settings.hpp"
#include "program.hpp"

namespace cubepi::app {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* server_url = "https://wiki.example/mcp";

class McpLogin : public ::testing::Test {
protected:
    McpLogin() {
        ::setenv("XDG_DATA_HOME", directory_.path().c_str(), 1);
        ::setenv("XDG_CONFIG_HOME", directory_.path().c_str(), 1);
    }
    ~McpLogin() override {
        ::unsetenv("XDG_DATA_HOME");
        ::unsetenv("XDG_CONFIG_HOME");
    }

    static McpCredentials some() {
        McpCredentials credentials;
        credentials.issuer = "https://login.example";
        credentials.access_token = "access-1";
        credentials.refresh_token = "refresh-1";
        credentials.client.id = "client-1";
        return credentials;
    }

    ScopedTestDirectory directory_;
};

TEST_F(McpLogin, D144_Tokens_AreOnlyForThisUser) {
    const auto file = credential_file("wiki", server_url, Runtime::standard());
    EXPECT_EQ(run(file->load()).issuer, "");
    run(file->save(some()));
    const McpCredentials loaded = run(file->load());
    EXPECT_EQ(loaded.access_token, "access-1");
    EXPECT_EQ(loaded.refresh_token, "refresh-1");
    EXPECT_EQ(loaded.client.id, "client-1");
    struct stat status = {};
    const std::filesystem::path path = mcp_credentials_path("wiki");
    ASSERT_EQ(::stat(path.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777U, 0600U);
    ASSERT_EQ(::stat(path.parent_path().c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0077U, 0U);
}

TEST_F(McpLogin, D144_AnotherUrl_GetsNoTokens) {
    run(credential_file("wiki", server_url, Runtime::standard())->save(some()));
    const auto other = credential_file("wiki", "https://evil.example/mcp", Runtime::standard());
    EXPECT_EQ(run(other->load()).access_token, "");
}

TEST_F(McpLogin, DamagedFile_IsNamedWithoutItsContents) {
    const auto file = credential_file("wiki", server_url, Runtime::standard());
    run(file->save(some()));
    std::ofstream(mcp_credentials_path("wiki")) << "{\"access-1\"";
    try {
        (void)run(file->load());
        FAIL();
    } catch (const Error& error) {
        EXPECT_THAT(error.what(), HasSubstr("cubepi mcp logout wiki"));
        EXPECT_THAT(error.what(), Not(HasSubstr("access-1")));
    }
    EXPECT_TRUE(remove_credential_file("wiki"));
    EXPECT_FALSE(remove_credential_file("wiki"));
}

Task<> take_lock(std::shared_ptr<McpCredentialStore> store, bool* is_held) {
    const std::shared_ptr<void> held = co_await store->lock();
    *is_held = true;
}

Task<> take_both_locks(TaskScope& scope) {
    bool is_held = false;
    const auto first = credential_file("wiki", server_url, Runtime::standard());
    std::shared_ptr<void> held = co_await first->lock();
    scope.spawn(take_lock(credential_file("wiki", server_url, Runtime::standard()), &is_held));
    EXPECT_FALSE(is_held);
    held.reset();
    while (!is_held) co_await yield_now();
}

TEST_F(McpLogin, Lock_ExcludesAnotherSession) { run(with_task_scope(take_both_locks)); }

TEST_F(McpLogin, Session_FollowsTheSettings) {
    McpServerSettings server;
    server.name = "wiki";
    server.url = server_url;
    const auto runtime = Runtime::standard();
    EXPECT_TRUE(mcp_session(server, nullptr, EnvironmentPolicy(), runtime));
    server.headers["authorization"] = "Bearer x";
    EXPECT_FALSE(mcp_session(server, nullptr, EnvironmentPolicy(), runtime));
    server.headers.clear();
    server.url = "http://wiki.local/mcp";
    EXPECT_FALSE(mcp_session(server, nullptr, EnvironmentPolicy(), runtime));
    server.oauth["client_id"] = "c";
    EXPECT_THROW((void)mcp_session(server, nullptr, EnvironmentPolicy(), runtime), Error);
    server.url = server_url;
    server.oauth["private_key"] = "/nonexistent.pem";
    EXPECT_THROW((void)mcp_session(server, nullptr, EnvironmentPolicy(), runtime), Error);
    server.url.clear();
    EXPECT_FALSE(mcp_session(server, nullptr, EnvironmentPolicy(), runtime));
}

struct Redirects {
    std::ostringstream out;
    std::shared_ptr<McpLoginUi> prompt = login_prompt(out);
    std::string uri;
    int status = 0;
};

Task<int> get(std::string url) {
    HttpRequest request("GET", std::move(url));
    const auto transport = transport_of(*Runtime::standard());
    const HttpResponse response = co_await transport->send(std::move(request));
    co_return response.status;
}

Task<> browse(Redirects* redirects) {
    const int foreign = co_await get(redirects->uri + "?code=evil&state=other");
    EXPECT_EQ(foreign, 400);
    const int without = co_await get(redirects->uri);
    EXPECT_EQ(without, 400);
    redirects->status = co_await get(redirects->uri + "?code=c1&state=s1");
}

Task<std::string> open_page(Redirects* redirects, TaskScope& scope) {
    redirects->uri = co_await redirects->prompt->redirect_uri("");
    McpLoginPage page;
    page.url = "https://login.example/authorize?x=1";
    page.redirect_uri = redirects->uri;
    page.state = "s1";
    scope.spawn(browse(redirects));
    co_return co_await redirects->prompt->open(std::move(page));
}

TEST_F(McpLogin, D144_Redirect_ReachesThisMachine) {
    Redirects redirects;
    const auto play = [&](TaskScope& scope) { return open_page(&redirects, scope); };
    const std::string redirect = run(with_task_scope(play));
    EXPECT_TRUE(redirects.uri.starts_with("http://127.0.0.1:"));
    EXPECT_EQ(redirect, redirects.uri + "?code=c1&state=s1");
    EXPECT_EQ(redirects.status, 200);
    EXPECT_THAT(redirects.out.str(), HasSubstr("  https://login.example/authorize?x=1\n"));
}

TEST_F(McpLogin, RegisteredRedirect_IsUsedAgain) {
    Redirects redirects;
    const std::string first = run(redirects.prompt->redirect_uri(""));
    EXPECT_EQ(run(redirects.prompt->redirect_uri("https://wiki.example/done")),
              "https://wiki.example/done");
    EXPECT_EQ(run(redirects.prompt->redirect_uri(first)), first);
}

TEST_F(McpLogin, Commands_NeedAServerWithLogin) {
    std::filesystem::create_directories(directory_.path() / "cubepi");
    std::ofstream(directory_.path() / "cubepi" / "config.yaml")
        << "mcp: {git: {command: x}, wiki: {url: \"" << server_url << "\"}}\n";
    std::ostringstream out;
    std::ostringstream err;
    McpArguments arguments;
    arguments.what = McpArguments::What::login;
    arguments.server = "git";
    EXPECT_THROW((void)use_mcp(arguments, out, err), Error);
    arguments.what = McpArguments::What::logout;
    arguments.server = "wiki";
    EXPECT_EQ(use_mcp(arguments, out, err), exit_ok);
    EXPECT_THAT(out.str(), HasSubstr("There were no tokens of wiki"));
    run(credential_file("wiki", server_url, Runtime::standard())->save(some()));
    EXPECT_EQ(use_mcp(arguments, out, err), exit_ok);
    EXPECT_THAT(out.str(), HasSubstr("are removed"));
}

}  // namespace
}  // namespace cubepi::app
