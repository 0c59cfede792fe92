#pragma once

#include <functional>
#include <memory>
#include <string>

#include <cubepi/net/http_server.hpp>

#include "../config/gateway_settings.hpp"

namespace cubepi::app {

/// The sources of the routes of the status server.
struct StatusSources {
    std::function<bool()> is_ready = {};        ///< messages are accepted and turns begin
    std::function<std::string()> metrics = {};  ///< in the text format of Prometheus
};

/// Returns the server of `gateway.status`: GET /healthz (the process serves), /readyz (503 while it starts, reloads or
/// ends) and /metrics. Not listening yet.
std::unique_ptr<HttpServer> status_server(Executor executor, const ListenAddress& address,
                                          StatusSources sources);

}  // namespace cubepi::app
