#pragma once

#include <functional>
#include <string>
#include <string_view>

#include <cubepi/net/http_server.hpp>

#include "gateway_api.hpp"

namespace cubepi::app {

/// Returns the type of a picture that browsers show without running anything in it, by its first bytes: PNG, JPEG, GIF or WebP. Empty for
/// everything else, also SVG.
std::string_view shown_image_type(std::string_view bytes);

/// Returns a file as the body of a response. A picture that browsers may show has its type; everything else is a download without one. The
/// name is that of a model or of a client.
HttpServerResponse file_response(std::string_view name, std::string bytes);

/// Adds the routes of the files that sessions have sent, and of the pictures in their histories (D251): GET
/// {prefix}/v1/admin/sessions/{id}/files/{file} and /images/{entry}/{number}. `api` must outlive the routes and their requests.
void add_file_routes(HttpRoutes& routes, GatewayApi& api, const std::string& prefix,
                     std::function<HttpServerResponse(HttpServerResponse)> secure);

}  // namespace cubepi::app
