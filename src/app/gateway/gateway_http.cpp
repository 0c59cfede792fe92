#include "gateway_http.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <optional>
#include <string_view>
#include <utility>

#include <sys/resource.h>

#include <cubepi/core/error.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/support/parsed_number.hpp>
#include <cubepi/core/support/percent_decoded.hpp>
#include <cubepi/mcp/resource_server.hpp>
#include <cubepi/workspace/files/content.hpp>

#include "../channels/channel_kinds.hpp"
#include "../config/paths.hpp"
#include "../failure.hpp"
#include "gateway_findings.hpp"
#include "gateway_instance.hpp"
#include "live_answers.hpp"

namespace cubepi::app {

namespace {

constexpr const char* plain_text = "text/plain; charset=utf-8";
constexpr const char* prometheus_text = "text/plain; version=0.0.4; charset=utf-8";

Task<HttpServerResponse> text_answer(unsigned status, std::string text, const char* type) {
    co_return HttpServerResponse(status, std::move(text), type);
}

Task<HttpServerResponse> show(Task<std::string> metrics) {
    std::string text = co_await std::move(metrics);
    co_return HttpServerResponse(200, std::move(text), prometheus_text);
}

/// At a time, of all programs with a token.
constexpr std::size_t most_streams = 64;

std::string token_in(const std::string& variable) {
    if (variable.empty()) return {};
    const char* const value = std::getenv(variable.c_str());
    const std::string token = value ? value : "";
    const std::string problem =
        token.empty() ? variable + " is not set" : token_problem(variable, token);
    if (problem.empty()) return token;
    throw Error(ErrorCode::invalid_argument, "gateway.admin: " + problem +
                                                 ".\n  To make one: export " + variable +
                                                 "=$(openssl rand -hex 16)");
}

/// Returns nothing for a request without one of the tokens. Compares both in any case, so that the time does not depend on them.
std::optional<GatewayRole> role_of(const AdminTokens& tokens, const HttpServerRequest& request) {
    const std::string_view token = request.bearer_token();
    const bool is_viewer = equal_secrets(token, tokens.viewer) && !token.empty();
    const bool is_operator = equal_secrets(token, tokens.operator_) && !token.empty();
    if (is_operator) return GatewayRole::operator_;
    return is_viewer ? std::optional(GatewayRole::viewer) : std::nullopt;
}

std::string decoded(std::string_view text) {
    std::optional<std::string> plain = detail::percent_decoded(text);
    if (!plain) throw Error(ErrorCode::invalid_argument, "the query is not percent-encoded");
    return std::move(*plain);
}

JsonObject query_arguments(std::string_view query) {
    JsonObject arguments;
    while (!query.empty()) {
        const std::string_view one = query.substr(0, query.find('&'));
        query.remove_prefix(std::min(one.size() + 1, query.size()));
        const std::string_view name = one.substr(0, one.find('='));
        arguments[decoded(name)] = decoded(one.substr(std::min(name.size() + 1, one.size())));
    }
    return arguments;
}

JsonObject arguments_of(const HttpServerRequest& request) {
    JsonObject arguments;
    if (request.method != "POST") {
        arguments = query_arguments(request.query);
    } else if (!request.body.empty()) {
        boost::system::error_code failed;
        Json body = boost::json::parse(request.body, failed);
        if (failed || !body.is_object())
            throw Error(ErrorCode::invalid_argument, "the body must be a JSON object");
        arguments = std::move(body.get_object());
    }
    for (const auto& [name, value] : request.parameters) arguments[name] = value;
    return arguments;
}

Task<JsonObject> perform_request(GatewayApi* api, const GatewayOperation* operation,
                                 GatewayCaller caller, HttpServerRequest request) {
    // The body of a caller who may not is not read.
    JsonObject arguments;
    if (caller.role >= operation->role) arguments = arguments_of(request);
    Task<JsonObject> performing = perform(api, operation, std::move(caller), std::move(arguments));
    JsonObject result = co_await std::move(performing);
    co_return result;
}

Task<HttpServerResponse> answer_events(GatewayApi* api, HttpServerRequest request) {
    const Executor executor = co_await this_executor;
    co_return live_events(api->live_answers(), request, executor, LiveReader());
}

using Secure = std::function<HttpServerResponse(HttpServerResponse)>;

Task<HttpServerResponse> answer_operation(GatewayApi* api, const GatewayOperation* operation,
                                          GatewayCaller caller, HttpServerRequest request,
                                          Secure secure) {
    Task<JsonObject> performing =
        perform_request(api, operation, std::move(caller), std::move(request));
    Outcome<JsonObject> done = co_await outcome_of(std::move(performing));
    if (done.cancelled()) done.rethrow();
    HttpServerResponse response;
    if (done) {
        response = HttpServerResponse::json(200, Json(std::move(done).value()));
    } else {
        response = failure_response(done.failure());
    }
    response.headers.set("cache-control", "no-store");
    response.headers.set("x-content-type-options", "nosniff");
    if (secure) response = secure(std::move(response));
    co_return std::move(response);
}

/// Each may have as many bytes as a file of a session.
constexpr std::size_t most_requests = 12;
constexpr std::size_t longest_session = 1'024;

/// Nothing in a file runs, or loads anything, also if it is opened by itself.
constexpr const char* file_policy = "default-src 'none'; sandbox; frame-ancestors 'none'";

std::string ascii_name(std::string_view name) {
    std::string plain;
    for (const char c : name) {
        const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                              (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '_';
        plain += is_plain ? c : '_';
    }
    return plain.empty() ? "file" : plain;
}

std::int64_t number_of(std::string_view text) {
    return detail::parsed_number<std::int64_t>(text).value_or(-1);
}

Task<HttpServerResponse> file_answer(Task<SentFile> reading, Secure secure) {
    Outcome<SentFile> read = co_await outcome_of(std::move(reading));
    if (read.cancelled()) read.rethrow();
    HttpServerResponse response;
    const bool is_read = static_cast<bool>(read);
    if (is_read) {
        SentFile file = std::move(read).value();
        response = file_response(file.name, std::move(file.bytes));
    } else {
        response = failure_response(read.failure());
    }
    response.headers.set("cache-control", "no-store");
    response.headers.set("x-content-type-options", "nosniff");
    if (secure) response = secure(std::move(response));
    if (is_read) response.headers.set("content-security-policy", file_policy);
    co_return response;
}

Task<HttpServerResponse> answer_file(GatewayApi* api, HttpServerRequest request, Secure secure) {
    std::string session(request.parameter("id").substr(0, longest_session));
    std::string file(request.parameter("file"));
    Task<SentFile> reading = api->sent_file(std::move(session), std::move(file));
    Task<HttpServerResponse> answering = file_answer(std::move(reading), std::move(secure));
    co_return co_await std::move(answering);
}

Task<HttpServerResponse> answer_image(GatewayApi* api, HttpServerRequest request, Secure secure) {
    std::string session(request.parameter("id").substr(0, longest_session));
    const std::int64_t entry = number_of(request.parameter("entry"));
    const std::int64_t number = number_of(request.parameter("number"));
    Task<SentFile> reading = api->image(std::move(session), entry, number);
    Task<HttpServerResponse> answering = file_answer(std::move(reading), std::move(secure));
    co_return co_await std::move(answering);
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
    routes->add("GET", "/healthz",
                [](HttpServerRequest) { return text_answer(200, "ok\n", plain_text); });
    routes->add("GET", "/readyz", [problem = std::move(sources.problem)](HttpServerRequest) {
        const std::string text = problem();
        return text.empty() ? text_answer(200, "ready\n", plain_text)
                            : text_answer(503, "not ready: " + text + "\n", plain_text);
    });
    routes->add(
        "GET", "/metrics",
        [metrics = std::move(sources.metrics)](HttpServerRequest) { return show(metrics()); },
        most_metrics);
    return routes;
}

HttpServerResponse failure_response(const std::exception_ptr& failure) {
    unsigned status = 500;
    try {
        std::rethrow_exception(failure);
    } catch (const Error& error) {
        switch (error.code()) {
            case ErrorCode::invalid_argument:
            case ErrorCode::validation:
            case ErrorCode::bad_answer: status = 400; break;
            case ErrorCode::permission_denied: status = 403; break;
            case ErrorCode::not_found: status = 404; break;
            case ErrorCode::invalid_state:
            case ErrorCode::busy: status = 409; break;
            case ErrorCode::limit: status = 429; break;
            case ErrorCode::unavailable: status = 503; break;
            default: break;
        }
    } catch (...) {
        // Of another library.
    }
    return HttpServerResponse::error(status, explain(failure).text);
}

AdminTokens admin_tokens(const GatewaySettings& settings) {
    AdminTokens tokens;
    if (!settings.admin) return tokens;
    tokens.viewer = token_in(settings.admin->viewer_token_env);
    tokens.operator_ = token_in(settings.admin->operator_token_env);
    if (!tokens.viewer.empty() && tokens.viewer == tokens.operator_)
        throw Error(ErrorCode::invalid_argument,
                    "gateway.admin: the tokens of viewers and operators must differ");
    for (const ChannelSettings& channel : settings.configured) {
        for (const std::string& variable : secret_variables(channel)) {
            const char* const value = std::getenv(variable.c_str());
            const std::string secret = value ? value : "";
            if (!secret.empty() && (secret == tokens.viewer || secret == tokens.operator_))
                throw Error(ErrorCode::invalid_argument,
                            "gateway.admin: its tokens must differ from that in " + variable +
                                ", which clients of a channel have");
        }
    }
    return tokens;
}

void add_operations(HttpRoutes& routes, GatewayApi& api, const CallerOf& caller_of,
                    const OperationOptions& options) {
    for (const GatewayOperation& operation : gateway_operations()) {
        if (operation.name == options.omitted) continue;
        if (options.takes_files.value_or(operation.takes_files) != operation.takes_files) continue;
        HttpRoutes::Handler handler = [&api, &operation, caller_of,
                                       secure = options.secure](HttpServerRequest request) {
            GatewayCaller caller = caller_of(request);
            return answer_operation(&api, &operation, std::move(caller), std::move(request),
                                    secure);
        };
        routes.add(std::string(operation.method), options.prefix + std::string(operation.path),
                   std::move(handler));
    }
}

std::unique_ptr<HttpRoutes> admin_routes(HttpServer& server, GatewayApi& api, AdminTokens tokens) {
    HttpRouteOptions options;
    options.max_body_bytes = 64 * 1024;
    options.max_requests = 32 + std::size(event_paths) * most_streams;
    // Without one of the tokens it is without this one.
    auto refuse = bearer_authentication(tokens.viewer.empty() ? tokens.operator_ : tokens.viewer);
    options.authentication =
        [tokens, refuse = std::move(refuse)](
            const HttpServerRequest& request) -> std::optional<HttpServerResponse> {
        if (role_of(tokens, request)) return std::nullopt;
        return refuse(request);
    };
    auto routes = std::make_unique<HttpRoutes>(server, "admin", std::move(options));
    const CallerOf caller_of = [tokens](const HttpServerRequest& request) {
        const GatewayRole role = role_of(tokens, request).value_or(GatewayRole::viewer);
        return GatewayCaller{role, role == GatewayRole::operator_ ? "operator token" : "",
                             request.client};
    };
    add_operations(*routes, api, caller_of, OperationOptions());
    for (const std::string_view path : event_paths) {
        routes->add(
            "GET", std::string(path),
            [&api](HttpServerRequest request) { return answer_events(&api, std::move(request)); },
            most_streams);
    }
    add_file_routes(*routes, api, "", {});
    return routes;
}

HttpServerResponse file_response(std::string_view name, std::string bytes) {
    const std::string_view type = detail::image_type(bytes);
    const bool is_image = !type.empty();
    HttpServerResponse response(200, std::move(bytes),
                                std::string(is_image ? type : "application/octet-stream"));
    response.headers.set("content-disposition", std::string(is_image ? "inline" : "attachment") +
                                                    "; filename=\"" + ascii_name(name) +
                                                    "\"; filename*=UTF-8''" +
                                                    detail::percent_encoded(name));
    return response;
}

void add_file_routes(HttpRoutes& routes, GatewayApi& api, const std::string& prefix,
                     Secure secure) {
    const std::string path = prefix + "/v1/admin/sessions/{id}";
    routes.add(
        "GET", path + "/files/{file}",
        [&api, secure](HttpServerRequest request) {
            return answer_file(&api, std::move(request), secure);
        },
        most_requests);
    routes.add(
        "GET", path + "/images/{entry}/{number}",
        [&api, secure](HttpServerRequest request) {
            return answer_image(&api, std::move(request), secure);
        },
        most_requests);
}

}  // namespace cubepi::app
