#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <cubepi/net/http_server.hpp>

#include "../config/gateway_settings.hpp"
#include "gateway_api.hpp"

namespace cubepi::app {

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

}  // namespace cubepi::app
