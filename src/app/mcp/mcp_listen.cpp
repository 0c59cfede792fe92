#include "mcp_listen.hpp"

#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <ostream>
#include <string_view>
#include <system_error>
#include <utility>

#include <cubepi/core/error.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/mcp/resource_server.hpp>
#include <cubepi/mcp/server_routes.hpp>
#include <cubepi/net/http_server.hpp>

#include "../terminal/terminal_stream.hpp"

namespace cubepi::app {

namespace {

constexpr const char* token_variable = "CUBEPI_MCP_TOKEN";
constexpr std::size_t min_token_bytes = 16;

HttpServerOptions options_at(const std::string& address) {
    const std::size_t colon = address.rfind(':');
    const std::string host = address.substr(0, colon);
    const std::string_view port = colon == std::string::npos
                                      ? std::string_view()
                                      : std::string_view(address).substr(colon + 1);
    HttpServerOptions options;
    const auto [end, failed] =
        std::from_chars(port.data(), port.data() + port.size(), options.port);
    const bool is_port = !port.empty() && failed == std::errc() && end == port.data() + port.size();
    if (!is_port || (host != "127.0.0.1" && host != "localhost" && host != "[::1]")) {
        throw Error(
            ErrorCode::invalid_argument,
            "--listen: '" + address +
                "' is not an address of this machine such as 127.0.0.1:8080; other machines "
                "need a proxy with TLS");
    }
    options.host = host == "[::1]" ? "::1" : "127.0.0.1";
    return options;
}

std::string token() {
    const char* value = std::getenv(token_variable);
    std::string token = value ? value : "";
    if (token.size() < min_token_bytes) {
        throw Error(ErrorCode::invalid_argument,
                    std::string(token_variable) +
                        " must have a secret of at least 16 characters, which clients send as "
                        "'Authorization: Bearer ...'; make one: openssl rand -hex 32");
    }
    return token;
}

/// Returns the host of a URL, with its port.
std::string host_of(std::string_view url) {
    const std::size_t begin = url.find("://");
    if (begin != std::string_view::npos) url.remove_prefix(begin + 3);
    return std::string(url.substr(0, url.find_first_of("/?#")));
}

std::unique_ptr<McpResourceServer> resource_of(Executor executor, const McpTokens& tokens,
                                               const std::string& url) {
    McpResourceServerOptions options;
    options.issuer = tokens.issuer;
    options.resource = tokens.url.empty() ? url : tokens.url;
    options.scopes = tokens.scopes;
    return std::make_unique<McpResourceServer>(std::move(executor), std::move(options));
}

/// Reads the keys. A failure is not one of a model.
Task<> read_keys(McpResourceServer* resource, std::string issuer) {
    std::string problem;
    try {
        co_await resource->read_keys();
    } catch (const Error& error) {
        if (error.code() == ErrorCode::cancelled) throw;
        problem = error.what();
    }
    if (!problem.empty()) {
        throw Error(ErrorCode::invalid_argument,
                    "--issuer: the keys of " + issuer + " cannot be read: " + problem);
    }
}

}  // namespace

Task<> serve_mcp_http(std::shared_ptr<McpServer> server, std::string address, McpTokens tokens,
                      std::ostream& output) {
    const Executor executor = co_await this_executor;
    const HttpServerOptions options = options_at(address);
    HttpRouteOptions limits;
    if (tokens.issuer.empty()) limits.authentication = bearer_authentication(token());
    limits.max_body_bytes = server->options().max_message_bytes;
    McpRouteOptions settings;
    settings.resume_time = std::chrono::minutes(1);
    HttpServer http(executor, options);
    http.open();
    const std::string host = options.host == "::1" ? "[::1]" : options.host;
    const std::string url = "http://" + host + ":" + std::to_string(http.port()) + "/mcp";
    std::unique_ptr<McpResourceServer> resource;
    std::optional<HttpRoutes> metadata;
    if (!tokens.issuer.empty()) {
        resource = resource_of(executor, tokens, url);
        Task<> reading = read_keys(resource.get(), tokens.issuer);
        co_await std::move(reading);
        limits.authentication = resource->authentication();
        settings.client = resource->client();
        HttpRouteOptions without_body;
        without_body.max_body_bytes = 0;
        metadata.emplace(http, "mcp-metadata", without_body);
        resource->add_metadata_route(*metadata);
        metadata->serve();
    }
    if (!tokens.url.empty()) {
        // The names that a proxy leaves in its requests.
        HttpAccess access;
        access.allowed_hosts = {host_of(tokens.url)};
        http.set_access(std::move(access));
        settings.local_hosts_only = false;
    }
    HttpRoutes routes(http, "mcp", limits);
    add_mcp_routes(routes, std::move(server), std::move(settings));
    routes.serve();
    TerminalStream(output) << "Serving " << for_terminal(url) << "\n";
    output.flush();
    AsyncEvent never;
    co_await never.wait();
}

}  // namespace cubepi::app
