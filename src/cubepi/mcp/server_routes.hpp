#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
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
    /// Sessions of clients of the era that has them. When there are more, the one that has not been used for the longest time ends;
    /// if all are in use, a further client is refused.
    std::size_t max_sessions = 1000;
    /// Identifies the client that has sent a request, after authentication: tasks (McpServerOptions::tasks) are found by those who have
    /// the same text only. Empty: the header `Authorization`. Set it where tokens change, or where all clients have the same one. A
    /// session is then used by the client that has opened it only.
    std::function<std::string(const HttpServerRequest& request)> client = {};
    std::chrono::nanoseconds session_idle_time = std::chrono::hours(1);
    /// A call of a session continues after its connection is lost, and is aborted if the client does not return within this time
    /// (header Last-Event-ID). Zero: it is aborted at once, as calls without a session are. With another value calls can outlive the
    /// routes, so await McpServer::close() before the objects are destroyed that the tools use.
    std::chrono::nanoseconds resume_time = std::chrono::nanoseconds::zero();
    /// The answers of a session that are stored for this, in bytes; of one answer at most 256 notifications.
    std::size_t max_replay_bytes = std::size_t{256} << 10U;
};

/// Adds the transport "streamable HTTP" of a server to the routes of an HTTP server. A client of 2026-07-28 has no session, and one of
/// an earlier revision may do without: it is then not asked during its calls. Authentication
/// and limits are those of the routes. The routes must be stopped before the server is destroyed.
void add_mcp_routes(HttpRoutes& routes, std::shared_ptr<McpServer> server,
                    McpRouteOptions options = McpRouteOptions());

}  // namespace cubepi
