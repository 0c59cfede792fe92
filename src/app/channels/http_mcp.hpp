#pragma once

#include <bub/channel/http_channel.hpp>
#include <cubepi/net/http_server.hpp>

namespace cubepi::app {

/// Adds the route `/mcp` to those of the channel http: an MCP server whose tools send a message to a session and wait for the answer, read
/// a session, and stop its turn. The model of a client has no tool that answers questions, so that it cannot approve what it has asked for.
/// `local_hosts_only`: see McpRouteOptions.
void add_mcp_interface(HttpRoutes& routes, bub::HttpChannel& channel, bool local_hosts_only);

}  // namespace cubepi::app
