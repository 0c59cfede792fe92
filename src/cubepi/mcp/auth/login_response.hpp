#pragma once

#include <string>

#include <cubepi/mcp/auth/discovery.hpp>
#include <cubepi/mcp/oauth_session.hpp>

namespace cubepi::detail {

/// Returns the code in the URL to which a browser was redirected after a login. Throws Error(auth) if the user or the server has
/// refused, and Error(protocol) if the redirect is not the answer to `page`, or comes from another authorization server (RFC
/// 9207).
std::string login_code(const std::string& redirect, const McpLoginPage& page,
                       const OAuthServer& server);

}  // namespace cubepi::detail
