#pragma once

#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/core/task.hpp>
#include <cubepi/net/http_server.hpp>

#include "../config/gateway_settings.hpp"
#include "gateway_api.hpp"

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

/// The tokens of `gateway.admin`; an empty one is not configured.
struct AdminTokens {
    std::string viewer = {};
    std::string operator_ = {};

    bool any() const { return !viewer.empty() || !operator_.empty(); }
};

/// Reads the tokens from their variables. Throws Error(invalid_argument) for a variable that is not set, a token that can be guessed, and
/// equal tokens.
AdminTokens admin_tokens(const GatewaySettings& settings);

/// Returns the caller of a request that the authentication of its routes has allowed.
using CallerOf = std::function<GatewayCaller(const HttpServerRequest& request)>;

struct OperationOptions {
    std::string prefix = {};  ///< of the paths
    /// Selects the operations whose arguments may have files; the others if false. Nothing: all of them.
    std::optional<bool> takes_files = {};
    std::string_view omitted = {};  ///< the name of an operation without a route
    std::function<HttpServerResponse(HttpServerResponse)> secure =
        {};  ///< adds headers to each response
};

/// The paths of the streams of live_events(): of a session's running turn, and of changes of the lists only.
inline constexpr std::string_view event_paths[] = {"/v1/admin/sessions/{id}/events",
                                                   "/v1/admin/events"};

/// Returns the response to a request whose operation has failed.
HttpServerResponse failure_response(const std::exception_ptr& failure);

/// Adds a route for each of gateway_operations(). The arguments of a GET request are in its query, those of a POST request in its
/// body, a JSON object. `api` must outlive the routes and their requests.
void add_operations(HttpRoutes& routes, GatewayApi& api, const CallerOf& caller_of,
                    const OperationOptions& options);

/// Returns a route for each of gateway_operations(), not served yet. A request without one of the tokens gets 401, a viewer's token 403
/// from operations of operators. It also has `event_paths`. `api` must outlive the routes and their requests.
std::unique_ptr<HttpRoutes> admin_routes(HttpServer& server, GatewayApi& api, AdminTokens tokens);

/// Returns a file as the body of a response. A picture that browsers show without running anything in it (not SVG) has its type; everything
/// else is a download without one. The name is that of a model or of a client.
HttpServerResponse file_response(std::string_view name, std::string bytes);

/// Adds the routes of the files that sessions have sent, and of the pictures in their histories (D251): GET
/// {prefix}/v1/admin/sessions/{id}/files/{file} and /images/{entry}/{number}. `api` must outlive the routes and their requests.
void add_file_routes(HttpRoutes& routes, GatewayApi& api, const std::string& prefix,
                     std::function<HttpServerResponse(HttpServerResponse)> secure);

}  // namespace cubepi::app
