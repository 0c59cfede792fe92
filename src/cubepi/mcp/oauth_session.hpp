#pragma once

#include <chrono>
#include <memory>
#include <string>

#include <cubepi/core/runtime.hpp>
#include <cubepi/core/task.hpp>
#include <cubepi/mcp/authorizer.hpp>
#include <cubepi/mcp/credentials.hpp>
#include <cubepi/net/name_resolver.hpp>

namespace cubepi {

/// A page that the user opens to allow the access.
struct McpLoginPage {
    std::string url = {};           ///< contains no secret
    std::string redirect_uri = {};  ///< to which the browser is redirected afterwards
    std::string state =
        {};  ///< the parameter `state` of that redirect; other redirects are not the answer

    McpLoginPage() {}
};

/// Lets the user of this program log in. Used on one serial executor.
class McpLoginUi {
public:
    virtual ~McpLoginUi() = default;

    /// Prepares to receive a redirect and returns the URL for it: `preferred`, which is registered already, if that is possible. Empty:
    /// none is registered.
    virtual Task<std::string> redirect_uri(std::string preferred) = 0;
    /// Shows the page and returns the URL to which the browser was redirected. Cancelled when the time for a login is over.
    virtual Task<std::string> open(McpLoginPage page) = 0;

    McpLoginUi(const McpLoginUi&) = delete;
    McpLoginUi& operator=(const McpLoginUi&) = delete;

protected:
    McpLoginUi() = default;
};

struct McpOAuthOptions {
    std::string server = {};  ///< its name in errors and in the log
    std::string url = {};     ///< of the MCP server; https, or of this machine
    std::string client_name = "CubePi";
    /// A client that the operator of the authorization server has registered; an empty id: none.
    McpOAuthClient client = {};
    /// The authorization server of that client, which alone receives its secret. Empty: the first one that the MCP server names.
    std::string issuer = {};
    /// The client acts for itself, and no user logs in (the grant `client_credentials`).
    bool is_service = false;
    /// The URL of a document about this client, which some servers accept in place of a registration. Empty: none.
    std::string client_metadata_url = {};
    /// Scopes to ask for besides those that the server states, separated by blanks.
    std::string scope = {};
    /// Null: a store that ends with the session.
    std::shared_ptr<McpCredentialStore> store = {};
    /// Null: no user can log in now. `login_remedy` is then the end of the error: "run: cubepi mcp login NAME".
    std::shared_ptr<McpLoginUi> ui = {};
    std::string login_remedy = "log in again";
    std::chrono::nanoseconds login_timeout = std::chrono::minutes(10);
    std::chrono::nanoseconds request_timeout = std::chrono::seconds(15);
    /// Resolves names of authorization servers. Empty: the system's.
    Resolver resolve = {};

    McpOAuthOptions() {}
};

/// Authorization at an MCP server by OAuth 2.1 (D143): discovery, registration, login, refresh, more scopes. Credentials are bound to
/// the authorization server that has issued them. Requests that are refused at the same time share one login. Its errors are
/// Error(auth, protocol, permission_denied) and those of HttpTransport, none of which contains a token or a secret.
class McpOAuthSession final : public McpAuthorizer {
public:
    /// Throws Error(invalid_argument) for a URL that is not one for logins.
    McpOAuthSession(McpOAuthOptions options, std::shared_ptr<const Runtime> runtime);
    /// Ends a login that is in progress.
    ~McpOAuthSession() override;

    Task<std::string> token(std::string url) override;
    /// When the last request that waits for a login is cancelled, the login is too.
    Task<> authorize(McpChallenge challenge) override;
    /// Logs in, whether there is a token or not.
    Task<> login();

private:
    struct State;
    const std::shared_ptr<State> state_;
};

}  // namespace cubepi
