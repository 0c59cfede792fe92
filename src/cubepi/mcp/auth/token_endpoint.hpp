#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <cubepi/core/error.hpp>
#include <cubepi/core/task.hpp>
#include <cubepi/mcp/auth/discovery.hpp>
#include <cubepi/mcp/credentials.hpp>
#include <cubepi/mcp/oauth_session.hpp>

namespace cubepi::detail {

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
