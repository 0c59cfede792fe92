#include "status_server.hpp"

#include <utility>

namespace cubepi::app {

namespace {

constexpr const char* plain = "text/plain; charset=utf-8";
constexpr const char* prometheus = "text/plain; version=0.0.4; charset=utf-8";

Task<ServerResponse> answer(unsigned status, std::string text, const char* type) {
    co_return ServerResponse(status, std::move(text), type);
}

}  // namespace

std::unique_ptr<HttpServer> status_server(Executor executor, const ListenAddress& address,
                                          StatusSources sources) {
    HttpServerOptions options;
    options.name = "status";
    options.host = address.host;
    options.port = address.port;
    auto server = std::make_unique<HttpServer>(std::move(executor), std::move(options));
    server->route("GET", "/healthz", [](ServerRequest) { return answer(200, "ok\n", plain); });
    server->route("GET", "/readyz", [ready = std::move(sources.is_ready)](ServerRequest) {
        return ready() ? answer(200, "ready\n", plain) : answer(503, "not ready\n", plain);
    });
    server->route("GET", "/metrics", [metrics = std::move(sources.metrics)](ServerRequest) {
        return answer(200, metrics(), prometheus);
    });
    return server;
}

}  // namespace cubepi::app
