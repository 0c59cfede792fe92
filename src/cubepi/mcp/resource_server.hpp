#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <cubepi/core/runtime.hpp>
#include <cubepi/core/task.hpp>
#include <cubepi/net/http_server.hpp>
#include <cubepi/net/name_resolver.hpp>

namespace cubepi {

struct McpResourceServerOptions {
    /// The URL that clients use, which is the audience of their tokens: "https://agents.example/mcp". It ends with `path`. Required.
    std::string resource = {};
    /// The authorization server whose tokens are accepted, exactly as it spells itself. Required.
    std::string issuer = {};
    std::vector<std::string> scopes = {};  ///< that every token must have
    std::string path = "/mcp";             ///< McpRouteOptions::path
    /// The age at which keys are read again, in the background; they are used meanwhile, up to `max_key_age`.
    std::chrono::nanoseconds refresh_after = std::chrono::minutes(15);
    std::chrono::nanoseconds max_key_age = std::chrono::hours(24);
    /// The least time between two attempts to read the keys. A token with an unknown key causes one, because the issuer may have a new key.
    std::chrono::nanoseconds retry_after = std::chrono::seconds(10);
    Resolver resolve = {};  ///< empty: that of the system
    std::shared_ptr<const Runtime> runtime = Runtime::standard();
};

/// The checks of an OAuth resource server (RFC 6750, RFC 9068, RFC 9728) for the routes of an MCP server: its clients send access tokens, JSON
/// Web Tokens of one issuer, whose signatures are verified with the keys that the metadata of the issuer names (D224).
///
///     McpResourceServer resource(co_await this_executor, options);
///     co_await resource.read_keys();
///     HttpRouteOptions limits;
///     limits.authentication = resource.authentication();
///     HttpRoutes routes(http, "mcp", limits);
///     McpRouteOptions mcp;
///     mcp.client = resource.client();
///     add_mcp_routes(routes, server, mcp);
///     HttpRoutes metadata(http, "mcp-metadata");   // clients read it without a token
///     resource.add_metadata_route(metadata);
///
/// Used on one serial executor, that of the HTTP server. Functions that it has returned stay valid after its end, and then refuse requests.
class McpResourceServer {
public:
    /// Throws Error(invalid_argument) for URLs that are invalid, or are neither https nor of this machine.
    McpResourceServer(Executor executor, McpResourceServerOptions options);
    /// Cancels what reads keys.
    ~McpResourceServer();
    McpResourceServer(const McpResourceServer&) = delete;
    McpResourceServer& operator=(const McpResourceServer&) = delete;

    /// Reads the keys. Otherwise the first requests are answered with 503 until they have been read. Throws Error if the issuer cannot be
    /// reached, or has no usable keys.
    Task<> read_keys();
    /// Reads the keys in the background.
    void start();
    /// Answers requests without a valid token with 401, or 403 if it lacks a scope, and the URL of the metadata.
    HttpAuthentication authentication() const;
    /// Returns the user of a request that the authentication has accepted: its subject, or its client if it has none.
    std::function<std::string(const HttpServerRequest& request)> client() const;
    /// Adds the protected-resource metadata to routes without an authentication.
    void add_metadata_route(HttpRoutes& routes) const;
    /// The URL of the metadata.
    const std::string& metadata_url() const noexcept;

private:
    struct State;
    std::shared_ptr<State> state_;
};

}  // namespace cubepi
