#pragma once

#include <memory>
#include <string>
#include <vector>

#include <cubepi/mcp/server.hpp>
#include <cubepi/net/http_server.hpp>

namespace cubepi {

struct McpRouteOptions {
    std::string path = "/mcp";
    /// The values of the header `Origin` that are accepted, such as "https://app.example.com". Requests of web pages of this machine
    /// are accepted if their host is a name of this machine ("localhost", "127.0.0.1", "[::1]"); programs send no origin.
    std::vector<std::string> allowed_origins = {};
    /// Accepts requests to names of this machine only, so that a web page cannot reach the server through a name of its own (DNS
    /// rebinding). Turn it off for servers with HttpAccess::allowed_hosts.
    bool local_hosts_only = true;
};

/// Adds the transport "streamable HTTP" of a server to the routes of an HTTP server. Each request stands alone: there are no
/// sessions, also not for clients of the era that has them optionally. Authentication and limits are those of the routes. The
/// routes must be stopped before the server is destroyed.
void add_mcp_routes(HttpRoutes& routes, std::shared_ptr<McpServer> server,
                    McpRouteOptions options = McpRouteOptions());

}  // namespace cubepi
