#include "gateway_http.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include <sys/resource.h>

#include <cubepi/core/error.hpp>
#include <cubepi/mcp/resource_server.hpp>

#include "../config/paths.hpp"

namespace cubepi::app {

namespace {

constexpr const char* plain = "text/plain; charset=utf-8";
constexpr const char* prometheus = "text/plain; version=0.0.4; charset=utf-8";

Task<HttpServerResponse> answer(unsigned status, std::string text, const char* type) {
    co_return HttpServerResponse(status, std::move(text), type);
}

Task<HttpServerResponse> show(Task<std::string> metrics) {
    std::string text = co_await std::move(metrics);
    co_return HttpServerResponse(200, std::move(text), prometheus);
}

}  // namespace

std::shared_ptr<HttpServer> GatewayServers::at(std::string key, const ListenAddress& address) {
    if (address.is_common) key = "gateway.listen";
    for (const Entry& one : entries_) {
        const bool has_port = address.port == 0 ? one.address.port == 0 && one.key == key
                                                : one.server->port() == address.port;
        if (has_port && one.address.host == address.host) return one.server;
    }
    HttpServerOptions options;
    options.host = address.host;
    options.port = address.port;
    options.spares_descriptors = true;
    auto made = std::make_shared<HttpServer>(executor_, std::move(options));
    try {
        made->open();
    } catch (const Error& error) {
        throw Error(ErrorCode::invalid_argument,
                    config_path().string() + ": " + key + ": " + error.what());
    }
    entries_.push_back(Entry{std::move(key), address, made});
    return made;
}

std::shared_ptr<McpResourceServer> GatewayServers::token_checks(McpResourceServerOptions options) {
    std::vector<std::string> settings = options.scopes;
    settings.insert(settings.end(), {options.issuer, options.resource});
    std::erase_if(token_checks_, [](const auto& entry) { return entry.second.expired(); });
    std::weak_ptr<McpResourceServer>& known = token_checks_[std::move(settings)];
    std::shared_ptr<McpResourceServer> checks = known.lock();
    if (checks) return checks;
    checks = std::make_shared<McpResourceServer>(executor_, std::move(options));
    known = checks;
    // An issuer that is down does not delay the gateway.
    checks->start();
    return checks;
}

Task<> GatewayServers::stop_unused() {
    for (;;) {
        const auto unused = std::find_if(entries_.begin(), entries_.end(), [](const Entry& one) {
            return one.server.use_count() == 1;
        });
        if (unused == entries_.end()) co_return;
        const std::shared_ptr<HttpServer> server = std::move(unused->server);
        entries_.erase(unused);
        co_await server->stop(std::chrono::seconds(1));
    }
}

Task<> GatewayServers::stop() {
    for (const Entry& one : std::exchange(entries_, {}))
        co_await one.server->stop(std::chrono::seconds(1));
}

std::size_t max_waiting_requests() {
    constexpr rlim_t most = 512;
    struct rlimit files = {};
    if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return most;
    return std::clamp<rlim_t>(files.rlim_cur / 4, 16, most);
}

std::unique_ptr<HttpRoutes> status_routes(HttpServer& server, StatusSources sources) {
    constexpr std::size_t most_metrics = 4;
    HttpRouteOptions options;
    options.max_body_bytes = 0;
    options.max_requests = 32;
    auto routes = std::make_unique<HttpRoutes>(server, "status", std::move(options));
    routes->add("GET", "/healthz", [](HttpServerRequest) { return answer(200, "ok\n", plain); });
    routes->add("GET", "/readyz", [problem = std::move(sources.problem)](HttpServerRequest) {
        const std::string text = problem();
        return text.empty() ? answer(200, "ready\n", plain)
                            : answer(503, "not ready: " + text + "\n", plain);
    });
    routes->add(
        "GET", "/metrics",
        [metrics = std::move(sources.metrics)](HttpServerRequest) { return show(metrics()); },
        most_metrics);
    return routes;
}

}  // namespace cubepi::app
