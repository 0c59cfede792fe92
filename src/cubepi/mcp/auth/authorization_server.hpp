#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <cubepi/core/error.hpp>
#include <cubepi/core/task.hpp>
#include <cubepi/mcp/auth/guarded_http.hpp>
#include <cubepi/mcp/credentials.hpp>
#include <cubepi/mcp/oauth_session.hpp>

namespace cubepi::detail {

/// An authorization server as its metadata describes it (RFC 8414, OpenID Connect Discovery).
struct OAuthServer {
    std::string issuer = {};  ///< exactly as the server spells it
    std::string authorization_endpoint = {};
    std::string token_endpoint = {};
    std::string registration_endpoint = {};  ///< empty: clients cannot register themselves
    std::vector<std::string> scopes = {};
    std::vector<std::string> auth_methods =
        {};  ///< of clients at the token endpoint; empty: not stated
    bool supports_pkce = false;
    bool states_issuer = false;          ///< in its redirects (RFC 9207)
    bool reads_client_metadata = false;  ///< accepts a URL as the id of a client
};

/// The facts that a login needs.
struct OAuthDiscovery {
    /// The identifier of the MCP server, as its metadata spells it; empty if it has none.
    std::string resource = {};
    std::vector<std::string> scopes = {};  ///< of the MCP server
    OAuthServer server = {};
};

/// Finds the authorization server of the MCP server: by its metadata (RFC 9728) at `resource_metadata`, or at a well-known place
/// if that is empty; for servers of 2025-03-26, which have none, at the server itself. Of several ones, `preferred_issuer` if
/// it is one of them, else the first one. Throws Error: protocol for metadata that contradicts itself or the server, auth if
/// there is no authorization server, permission_denied, and those of HttpTransport.
Task<OAuthDiscovery> discover_oauth(std::shared_ptr<const GuardedHttp> http,
                                    std::string resource_metadata, std::string preferred_issuer);

/// Reads the keys with which the tokens of an authorization server are verified, a JWK set (RFC 7517), by its metadata. Throws Error: auth if
/// it has no metadata or no keys, protocol for the metadata of another one, and those of GuardedHttp.
Task<JsonObject> read_token_keys(std::shared_ptr<const GuardedHttp> http, std::string issuer);

/// Returns the code in the URL to which a browser was redirected after a login. Throws Error(auth) if the user or the server has
/// refused, and Error(protocol) if the redirect is not the answer to `page`, or comes from another authorization server (RFC
/// 9207).
std::string login_code(const std::string& redirect, const McpLoginPage& page,
                       const OAuthServer& server);

/// Names and values of a form, in order.
using OAuthForm = std::vector<std::pair<std::string, std::string>>;

/// Returns the form as `application/x-www-form-urlencoded`, which is also the form of a query.
std::string encoded_form(const OAuthForm& form);

/// An authorization server has refused a request with an error of OAuth.
class OAuthRefused : public Error {
public:
    OAuthRefused(std::string oauth_error, const std::string& message)
        : Error(ErrorCode::auth, message), error_(std::move(oauth_error)) {}
    const std::string& error() const noexcept { return error_; }

private:
    std::string error_;
};

/// Requests tokens with a grant, and authenticates the client by the best method that both sides have. Sets the tokens, their scope
/// (`wanted_scope` if the server states none) and their time in `credentials`. Throws OAuthRefused, Error(protocol) and those of
/// HttpTransport.
Task<McpCredentials> request_tokens(std::shared_ptr<const GuardedHttp> http, OAuthServer server,
                                    McpOAuthClient client, OAuthForm grant,
                                    std::string wanted_scope, McpCredentials credentials);

/// Registers this client under a name for users (RFC 7591). Throws as request_tokens().
Task<McpOAuthClient> register_client(std::shared_ptr<const GuardedHttp> http, OAuthServer server,
                                     std::string client_name, std::string redirect_uri);

}  // namespace cubepi::detail
