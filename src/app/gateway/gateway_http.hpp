#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <cubepi/core/task.hpp>
#include <cubepi/net/http_server.hpp>

#include "../config/gateway_settings.hpp"

namespace cubepi {
class McpResourceServer;
struct McpResourceServerOptions;
}  // namespace cubepi

namespace cubepi::app {

/// The HTTP servers of a gateway, one for each address, on which its parts mount their routes. A reload replaces a server only if its
/// address changes (D90). Used on one executor.
class GatewayServers {
public:
    explicit GatewayServers(Executor executor) : executor_(std::move(executor)) {}

    /// Returns the server on the address that a key of the settings has; it listens. Port 0 is a free port for this key, or for all
    /// that use `gateway.listen`, as long as the key has it. Throws Error(invalid_argument) that names the key.
    std::shared_ptr<HttpServer> at(std::string key, const ListenAddress& address);
    /// Returns what checks access tokens with these settings, of which only the URLs and scopes may differ from the defaults. A reload
    /// that does not change them continues with the keys that the gateway has, because the issuer may be down.
    std::shared_ptr<McpResourceServer> token_checks(McpResourceServerOptions options);
    /// Stops the servers that have no other owner.
    Task<> stop_unused();
    /// Stops all servers.
    Task<> stop();

private:
    struct Entry {
        std::string key;
        ListenAddress address;
        std::shared_ptr<HttpServer> server;
    };

    const Executor executor_;
    std::vector<Entry> entries_;
    std::map<std::vector<std::string>, std::weak_ptr<McpResourceServer>> token_checks_;
};

/// Returns the requests that a route may wait for at a time, so that a flood of them leaves descriptors to the turns and connections to
/// the other routes.
std::size_t max_waiting_requests();

/// The sources of the routes for health, readiness and metrics.
struct StatusSources {
    /// Returns why messages are not accepted or processed; empty: they are.
    std::function<std::string()> problem = {};
    std::function<Task<std::string>()> metrics = {};  ///< in the text format of Prometheus
};

/// Returns the routes of `gateway.status`: GET /healthz (the process serves), /readyz (503 while it starts, reloads or ends) and
/// /metrics. Not served yet.
std::unique_ptr<HttpRoutes> status_routes(HttpServer& server, StatusSources sources);

}  // namespace cubepi::app
