#pragma once

#include <functional>
#include <string>
#include <string_view>

#include <bub/channel/http_channel.hpp>
#include <cubepi/net/http_server.hpp>

namespace cubepi::app {

struct GatewayMcpOptions {
    bool local_hosts_only = true;  ///< see McpRouteOptions
    /// Returns the user of a request (McpResourceServer::client()), whose sessions are separate from those of others, and are named without
    /// the user in calls and results. Empty: clients have the token of the channel, and name all sessions.
    std::function<std::string(const HttpServerRequest& request)> user = {};
};

/// Adds the route `/mcp` to those of the channel http: an MCP server whose tools send a message to a session and wait for the answer, read
/// a session, and stop its turn. The model of a client has no tool that answers questions, so that it cannot approve what it has asked for.
void add_mcp_interface(HttpRoutes& routes, bub::HttpChannel& channel, GatewayMcpOptions options);

/// Returns the name of a user of an issuer in the channel: "oauth+ann". No key and no session of the channel's token has such a name.
std::string oauth_user_name(std::string_view subject);

}  // namespace cubepi::app
