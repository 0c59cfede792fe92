#pragma once

#include <string>
#include <string_view>
#include <utility>

#include <cubepi/core/error.hpp>
#include <cubepi/core/http_transport.hpp>
#include <cubepi/core/task.hpp>

namespace cubepi {

/// A refusal of a server: status 401, or 403 for a token that lacks a scope (RFC 6750, RFC 9728).
struct McpChallenge {
    int status = 0;
    std::string token = {};              ///< that of the refused request; empty: none
    std::string resource_metadata = {};  ///< a URL; empty: not stated
    std::string scope = {};              ///< separated by blanks; empty: not stated
    std::string error = {};              ///< "invalid_token", "insufficient_scope"

    McpChallenge() {}
};

/// A server has refused a request because of its token. The request was not executed.
class McpUnauthorized : public Error {
public:
    McpUnauthorized(McpChallenge challenge, const std::string& message)
        : Error(ErrorCode::auth, message), challenge_(std::move(challenge)) {}
    const McpChallenge& challenge() const noexcept { return challenge_; }

private:
    McpChallenge challenge_;
};

/// Obtains the tokens for the requests to a server. Used on one serial executor.
class McpAuthorizer {
public:
    virtual ~McpAuthorizer() = default;

    /// Returns the token for a request to `url`; empty if there is none, or if the URL has another origin than the server.
    virtual Task<std::string> token(std::string url) = 0;
    /// Obtains another token after a refusal; the request may be sent again when this returns. Throws Error(auth) if that needs
    /// a user who is not there, or if another token would not help; and what failed otherwise.
    virtual Task<> authorize(McpChallenge challenge) = 0;

    McpAuthorizer(const McpAuthorizer&) = delete;
    McpAuthorizer& operator=(const McpAuthorizer&) = delete;

protected:
    McpAuthorizer() = default;
};

namespace detail {

/// Reads the first challenge of the scheme Bearer in `WWW-Authenticate`. What cannot be read is left out.
McpChallenge read_mcp_challenge(int status, const HttpHeaders& headers);

/// Returns true if a refused request may be worth another token: each 401, and a 403 for a scope.
bool wants_authorization(const McpChallenge& challenge) noexcept;

}  // namespace detail

}  // namespace cubepi
