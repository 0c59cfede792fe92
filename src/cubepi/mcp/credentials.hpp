#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <cubepi/core/json.hpp>
#include <cubepi/core/task.hpp>

namespace cubepi {

/// A client as an authorization server knows it.
struct McpOAuthClient {
    std::string id = {};
    std::string secret = {};       ///< empty: none
    std::string private_key = {};  ///< PEM, for signed assertions (RFC 7523); empty: none
    /// "none", "client_secret_basic", "client_secret_post", "private_key_jwt". Empty: by what there is and the server supports.
    std::string auth_method = {};
    std::string redirect_uri = {};       ///< the one of its registration
    std::int64_t secret_expires_at = 0;  ///< Unix time in s; 0: never

    McpOAuthClient() {}
};

/// The credentials that one authorization server has issued for one MCP server. Another authorization server never receives them.
struct McpCredentials {
    std::string issuer = {};     ///< empty: there are none
    McpOAuthClient client = {};  ///< of a dynamic registration; an empty id: none
    std::string access_token = {};
    std::string refresh_token = {};
    std::string scope = {};       ///< granted, separated by blanks
    std::int64_t expires_at = 0;  ///< Unix time in s, as promised; 0: not stated

    McpCredentials() {}
};

JsonObject to_json(const McpCredentials& credentials);
/// Members of another type count as absent.
McpCredentials mcp_credentials_from_json(const JsonObject& json);

/// Stores the credentials for one MCP server. An exception of it ends a login. Used on one serial executor.
class McpCredentialStore {
public:
    virtual ~McpCredentialStore() = default;

    /// Returns what was saved last, also by another process.
    virtual Task<McpCredentials> load() = 0;
    virtual Task<> save(McpCredentials credentials) = 0;
    /// Excludes other processes that would use the same refresh token, while the result exists. May return null.
    virtual Task<std::shared_ptr<void>> lock();

    McpCredentialStore(const McpCredentialStore&) = delete;
    McpCredentialStore& operator=(const McpCredentialStore&) = delete;

protected:
    McpCredentialStore() = default;
};

/// Returns a store that ends with the process.
std::shared_ptr<McpCredentialStore> mcp_memory_credentials();

}  // namespace cubepi
