#include <cubepi/mcp/server_routes.hpp>

#include <algorithm>
#include <exception>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/core/support/lower_case.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/mcp/http/origin.hpp>
#include <cubepi/mcp/http/parameter_headers.hpp>
#include <cubepi/schema/json_text.hpp>

namespace cubepi {

namespace {

using detail::object_member;
using detail::string_member;

/// Notifications that a client has not read yet; further ones are dropped.
constexpr std::size_t max_queued_notifications = 256;

/// The data that the handlers of the routes share.
struct Endpoint {
    std::shared_ptr<McpServer> server;
    McpRouteOptions options;
    std::map<std::string, std::vector<McpHeaderParameter>> header_parameters;  ///< by tool
};

using EndpointPtr = std::shared_ptr<const Endpoint>;

/// Returns true for "localhost", "127.0.0.1" and "[::1]", with or without a port.
bool is_local_host(std::string_view host) {
    const std::string lower = detail::lower_case(host);
    std::string_view name = lower;
    // The colons of an IPv6 address are in brackets.
    const std::size_t bracket = name.rfind(']');
    const std::size_t port = name.find(':', bracket == std::string_view::npos ? 0 : bracket);
    name = name.substr(0, port);
    return name == "localhost" || name == "127.0.0.1" || name == "[::1]";
}

/// Returns why a request may come from a foreign web page; empty if it does not.
std::string origin_problem(const McpRouteOptions& options, const HttpServerRequest& request) {
    if (options.local_hosts_only && !is_local_host(request.headers.get("host")))
        return "This host is not accepted.";
    const std::string* origin = request.headers.find("origin");
    if (!origin) return {};
    if (std::ranges::find(options.allowed_origins, *origin) != options.allowed_origins.end())
        return {};
    const std::string normal = detail::mcp_url_origin(*origin);
    const std::size_t host = normal.find("://");
    const bool is_local = host != std::string::npos && is_local_host(normal.substr(host + 3));
    return is_local ? std::string() : std::string("This origin is not accepted.");
}

HttpServerResponse json_response(unsigned status, const RpcMessage& message) {
    return HttpServerResponse(status, rpc_text(message), "application/json");
}

/// The statuses that the revision without sessions requires.
unsigned status_of(const RpcMessage& response) {
    if (response.kind != RpcMessage::Kind::error) return 200;
    switch (response.code) {
        case mcp_error::method_not_found: return 404;
        case mcp_error::parse:
        case mcp_error::invalid_request:
        case mcp_error::invalid_params:
        case mcp_error::header_mismatch:
        case mcp_error::missing_client_capability:
        case mcp_error::unsupported_version: return 400;
        default: return 200;
    }
}

bool is_stateless(const RpcMessage& message) {
    const JsonObject* meta = object_member(message.params, "_meta");
    return meta && meta->contains(mcp_meta::version);
}

/// Returns why the headers of a request of the era without sessions differ from its body; empty if they do not.
std::string header_problem(const Endpoint& endpoint, const HttpHeaders& headers,
                           const RpcMessage& message) {
    const JsonObject& meta = *object_member(message.params, "_meta");
    const std::string* version = headers.find("MCP-Protocol-Version");
    if (!version || *version != string_member(meta, mcp_meta::version))
        return "The header MCP-Protocol-Version differs from the version in `_meta`.";
    if (headers.get("Mcp-Method") != message.method)
        return "The header Mcp-Method differs from the method.";
    std::string_view member;
    if (message.method == "tools/call" || message.method == "prompts/get") member = "name";
    if (message.method == "resources/read") member = "uri";
    if (member.empty()) return {};
    const std::string name = detail::text_member(message.params, member);
    const std::string* sent = headers.find("Mcp-Name");
    if (!sent || detail::decode_mcp_header(*sent) != name)
        return "The header Mcp-Name differs from the name in the request.";
    const auto known = endpoint.header_parameters.find(name);
    if (message.method != "tools/call" || known == endpoint.header_parameters.end()) return {};
    const JsonObject* arguments = object_member(message.params, "arguments");
    const std::string problem = detail::check_parameter_headers(
        headers, known->second, arguments ? *arguments : JsonObject());
    return problem.empty() ? std::string() : problem + ".";
}

bool accepts_events(const HttpServerRequest& request) {
    return request.headers.get("accept").find("text/event-stream") != std::string_view::npos;
}

bool wants_progress(const RpcMessage& message) {
    const JsonObject* meta = object_member(message.params, "_meta");
    return meta && meta->contains(mcp_meta::progress_token);
}

using EventQueue = AsyncQueue<RpcMessage>;

Task<> queue_event(std::shared_ptr<EventQueue> queue, RpcMessage notification) {
    (void)queue->try_push(std::move(notification));
    co_return;
}

Task<> answer_into(EndpointPtr endpoint, McpServerCall call, std::shared_ptr<EventQueue> queue) {
    struct Closing {
        EventQueue& queue;
        ~Closing() { queue.close(); }
    };
    const Closing closing{*queue};
    RpcMessage response = co_await endpoint->server->answer(std::move(call));
    (void)queue->force_push(std::move(response));
}

Task<> write_events(std::shared_ptr<EventQueue> queue, ResponseStream* out) {
    while (true) {
        const std::optional<RpcMessage> message = co_await queue->next();
        if (!message) co_return;
        std::string event = server_sent_event("message", rpc_text(*message));
        co_await out->write(std::move(event));
    }
}

/// Writes the notifications of a call while it is executed, and then its response. A client that is gone ends the call.
Task<> stream_answer(EndpointPtr endpoint, McpServerCall call, ResponseStream* out) {
    const auto queue = std::make_shared<EventQueue>(max_queued_notifications);
    call.notify = [queue](RpcMessage notification) {
        return queue_event(queue, std::move(notification));
    };
    std::vector<Task<>> both;
    both.push_back(answer_into(endpoint, std::move(call), queue));
    both.push_back(write_events(queue, out));
    co_await when_all(std::move(both));
}

Task<HttpServerResponse> post(EndpointPtr endpoint, HttpServerRequest request) {
    const std::string foreign = origin_problem(endpoint->options, request);
    if (!foreign.empty()) co_return HttpServerResponse::error(403, foreign);
    McpServerCall call;
    std::optional<HttpServerResponse> refusal;
    try {
        call.request = read_rpc_message(std::string_view(request.body));
    } catch (const Error& error) {
        const bool is_json = error.code() == ErrorCode::protocol;
        const int code = is_json ? mcp_error::invalid_request : mcp_error::parse;
        refusal = json_response(400, rpc_error(nullptr, code, error.what()));
    }
    if (refusal) co_return std::move(*refusal);
    if (call.request.kind != RpcMessage::Kind::request) co_return HttpServerResponse(202, "", "");

    // A request without sessions is recognized by its body or its header; if only one of them says so, they differ.
    const std::string_view version = request.headers.get("MCP-Protocol-Version");
    const bool is_new = is_stateless(call.request);
    if (is_new) {
        std::string problem = header_problem(*endpoint, request.headers, call.request);
        if (!problem.empty()) {
            co_return json_response(
                400, rpc_error(call.request.id, mcp_error::header_mismatch, std::move(problem)));
        }
    } else if (is_stateless_mcp_version(version)) {
        co_return json_response(
            400, rpc_error(call.request.id, mcp_error::invalid_params,
                           "`_meta` needs " + std::string(mcp_meta::version) + ", a text."));
    } else if (!version.empty() && !is_session_mcp_version(version)) {
        JsonObject data;
        data["supported"] = JsonArray{mcp_stateless_version};
        data["requested"] = version;
        co_return json_response(
            400, rpc_error(call.request.id, mcp_error::unsupported_version,
                           "This protocol version is not supported.", std::move(data)));
    }
    // Clients of the first revision with this transport send no header.
    call.session_version = version.empty() ? "2025-03-26" : std::string(version);
    call.stop = request.closed;
    if (wants_progress(call.request) && accepts_events(request)) {
        const auto shared_call = std::make_shared<McpServerCall>(std::move(call));
        co_return HttpServerResponse::events([endpoint, shared_call](ResponseStream& out) {
            return stream_answer(endpoint, std::move(*shared_call), &out);
        });
    }
    const RpcMessage response = co_await endpoint->server->answer(std::move(call));
    co_return json_response(is_new ? status_of(response) : 200, response);
}

}  // namespace

void add_mcp_routes(HttpRoutes& routes, std::shared_ptr<McpServer> server,
                    McpRouteOptions options) {
    auto endpoint = std::make_shared<Endpoint>();
    endpoint->server = std::move(server);
    endpoint->options = std::move(options);
    for (const AgentTool& tool : endpoint->server->options().tools) {
        std::vector<McpHeaderParameter> parameters =
            detail::header_parameters(tool.parameters.source());
        if (!parameters.empty())
            endpoint->header_parameters.emplace(tool.name.str(), std::move(parameters));
    }
    const std::string path = endpoint->options.path;
    routes.add("POST", path, [endpoint](HttpServerRequest request) {
        return post(endpoint, std::move(request));
    });
}

}  // namespace cubepi
