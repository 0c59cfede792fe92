#pragma once

#include <string>

#include <cubepi/net/http_server.hpp>

#include "../config/gateway_settings.hpp"
#include "gateway_api.hpp"

namespace cubepi::app {

/// The tokens of `gateway.admin`; an empty one is not configured.
struct AdminTokens {
    std::string viewer = {};
    std::string operator_ = {};
};

/// Reads the tokens from their variables. Throws Error(invalid_argument) for a variable that is not set, a token that can be guessed, and
/// equal tokens.
AdminTokens admin_tokens(const AdminSettings& settings);

/// Returns a function that answers requests without one of the tokens with 401, and limits for requests.
HttpRouteOptions admin_route_options(const AdminTokens& tokens);

/// Adds a route for each of gateway_operations(). A viewer's token gets 403 from those of operators. The arguments of a GET request are in
/// its query, those of a POST request in its body, a JSON object. `api` must outlive the routes.
void add_admin_routes(HttpRoutes& routes, GatewayApi& api, const AdminTokens& tokens);

}  // namespace cubepi::app
