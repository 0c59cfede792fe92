#pragma once

#include <memory>
#include <string>
#include <vector>

#include <cubepi/net/http_server.hpp>

#include "console_sessions.hpp"
#include "gateway_api.hpp"

namespace cubepi::app {

/// Returns the routes of the web console (D199), not served yet: the page at /console/, the login by a one-time link, and the routes of
/// gateway_operations() below /console, for browsers that are logged in. Pages of other origins can neither read nor change anything.
/// `api` must outlive the routes and their requests.
std::vector<std::unique_ptr<HttpRoutes>> console_routes(HttpServer& server, GatewayApi& api,
                                                        std::shared_ptr<ConsoleSessions> sessions);

/// Returns the path of the page with the secret of a link, which is in the fragment: browsers send it to no server, so that no log has it.
std::string console_link_path(const std::string& secret);

}  // namespace cubepi::app
