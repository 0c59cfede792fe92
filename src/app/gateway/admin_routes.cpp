#include "admin_routes.hpp"

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <optional>
#include <string_view>
#include <utility>

#include <cubepi/core/error.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/support/percent_decoded.hpp>

#include "../channels/channel_kinds.hpp"
#include "../failure.hpp"
#include "gateway_findings.hpp"
#include "gateway_instance.hpp"
#include "live_answers.hpp"
#include "sent_files.hpp"

namespace cubepi::app {

namespace {

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

Task<HttpServerResponse> answer(GatewayApi* api, const GatewayOperation* operation,
                                GatewayCaller caller, HttpServerRequest request, Secure secure) {
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

}  // namespace

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
            return answer(&api, &operation, std::move(caller), std::move(request), secure);
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

}  // namespace cubepi::app
