#include "http_mcp.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <cubepi/agent/tool.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/support/digest.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/core/version.hpp>
#include <cubepi/mcp/server.hpp>
#include <cubepi/mcp/server_routes.hpp>
#include <cubepi/schema/json_schema.hpp>
#include <cubepi/schema/json_text.hpp>

namespace cubepi::app {

namespace {

/// Clients give up a request that shows no progress, many of them after a minute.
constexpr auto progress_interval = std::chrono::seconds(15);

struct MessageArguments {
    std::string text;
    std::optional<std::string> session;
};
struct SessionArguments {
    std::string session;
};
struct ReadArguments {
    std::string session;
    std::int64_t limit = 20;
};

HttpServerRequest request_for(std::string session, std::stop_token closed) {
    HttpServerRequest request;
    request.method = "POST";
    if (!session.empty()) request.parameters["session"] = std::move(session);
    request.closed = std::move(closed);
    return request;
}

JsonObject body_of(const HttpServerResponse& response) {
    boost::system::error_code failed;
    Json body = boost::json::parse(response.body, failed);
    return !failed && body.is_object() ? std::move(body.as_object()) : JsonObject();
}

std::string error_in(const JsonObject& body) {
    const Json* const error = body.if_contains("error");
    const Json* const message =
        error && error->is_object() ? error->get_object().if_contains("message") : nullptr;
    return message && message->is_string() ? std::string(message->get_string())
                                           : "the gateway has not answered";
}

/// The sessions of a user, whose names begin with the name of the user.
struct UserSessions {
    std::string user = {};  ///< empty: the client names all sessions

    std::string full(const std::string& session) const {
        return user.empty() ? session : user + ":" + session;
    }
    /// Removes the user from the names in a reply of the channel.
    void shorten(JsonObject& body) const {
        Json* const name = body.if_contains("session");
        if (user.empty() || !name || !name->is_string()) return;
        const std::string text(name->get_string());
        if (text.starts_with(user + ":")) *name = text.substr(user.size() + 1);
    }
};

/// The reply of the channel as a result: the texts of the outputs, or the JSON of it.
McpToolResult result_of(const HttpServerResponse& response, const UserSessions& sessions) {
    JsonObject body = body_of(response);
    sessions.shorten(body);
    McpToolResult result;
    if (response.status >= 400) {
        result = McpToolResult(error_in(body));
        result.is_error = true;
        return result;
    }
    const Json* const ok = body.if_contains("ok");
    result.is_error = ok && *ok == Json(false);
    std::string text;
    if (const Json* const outputs = body.if_contains("outputs"); outputs && outputs->is_array()) {
        for (const Json& output : outputs->get_array()) {
            const Json* const one =
                output.is_object() ? output.get_object().if_contains("text") : nullptr;
            if (!one || !one->is_string()) continue;
            if (!text.empty()) text += "\n\n";
            text += std::string_view(one->get_string());
        }
    }
    if (text.empty() && result.is_error) text = error_in(body);
    if (text.empty()) text = json_text(body);
    result.content.push_back(mcp_content::text(text));
    result.structured = std::move(body);
    return result;
}

Task<> show_progress(ToolContext* context) {
    const auto start = context->runtime().clock->now();
    for (;;) {
        co_await context->runtime().clock->sleep_for(progress_interval);
        const auto passed = std::chrono::duration_cast<std::chrono::seconds>(
            context->runtime().clock->now() - start);
        co_await context->update(Json("works for " + std::to_string(passed.count()) + " s"));
    }
}

Task<HttpServerResponse> post_with_progress(bub::HttpChannel* channel, HttpServerRequest request,
                                            ToolContext* context, TaskScope& scope) {
    scope.spawn(show_progress(context));
    Task<HttpServerResponse> posting = channel->post_message(std::move(request));
    HttpServerResponse posted = co_await std::move(posting);
    scope.cancel();
    co_return posted;
}

Task<McpToolResult> send_message(bub::HttpChannel* channel, UserSessions sessions,
                                 MessageArguments arguments, ToolContext* context) {
    const std::stop_token stop = context->stop_token();
    const std::string key = context->runtime().ids->next();
    JsonObject body;
    body["text"] = std::move(arguments.text);
    std::string session = arguments.session.value_or("");
    if (!sessions.user.empty()) {
        body["user"] = sessions.user;
        if (session.empty()) session = context->runtime().ids->next();
    }
    HttpServerRequest request = request_for(session.empty() ? "" : sessions.full(session), stop);
    request.body = json_text(body);
    request.headers.set("idempotency-key", key);
    if (const auto& trace = context->run().origin.trace)
        request.headers.set("traceparent", trace->traceparent);
    const auto post = [channel, &request, context](TaskScope& scope) {
        return post_with_progress(channel, std::move(request), context, scope);
    };
    Task<HttpServerResponse> posting = with_task_scope(post);
    const HttpServerResponse posted = co_await std::move(posting);
    // A client that cancels its request does not want the rest of its turn either.
    if (stop.stop_requested()) {
        Task<bool> stopping = channel->stop_message(key);
        (void)co_await std::move(stopping);
    }
    co_return result_of(posted, sessions);
}

Task<McpToolResult> read_session(bub::HttpChannel* channel, UserSessions sessions,
                                 ReadArguments arguments) {
    HttpServerRequest request = request_for(sessions.full(arguments.session), {});
    request.query = "limit=" + std::to_string(arguments.limit);
    Task<HttpServerResponse> reading = channel->read_session(std::move(request));
    const HttpServerResponse response = co_await std::move(reading);
    co_return result_of(response, sessions);
}

Task<McpToolResult> stop_session(bub::HttpChannel* channel, UserSessions sessions,
                                 SessionArguments arguments) {
    Task<HttpServerResponse> stopping =
        channel->stop_session(request_for(sessions.full(arguments.session), {}));
    const HttpServerResponse response = co_await std::move(stopping);
    co_return result_of(response, sessions);
}

UserSessions sessions_of(const McpRequest& request, bool has_users) {
    UserSessions sessions;
    if (has_users) sessions.user = oauth_user_name(request.client());
    return sessions;
}

McpServerTool message_tool(bub::HttpChannel* channel, bool has_users) {
    Json schema = json_schema_of<MessageArguments>();
    describe(schema, "text", "The message, with all that the agent needs to know");
    describe(schema, "session",
             "The conversation that it continues, as an earlier result has named it. Absent: a new "
             "one");
    McpServerTool tool(
        "send_message",
        "Sends a message to the agent of this gateway and returns its answer. If the agent waits "
        "for an approval, the result shows the question; the answer follows in the "
        "session.",
        std::move(schema),
        [channel, has_users](JsonObject arguments, ToolContext& context, McpRequest& request) {
            return send_message(channel, sessions_of(request, has_users),
                                from_json<MessageArguments>(Json(std::move(arguments))), &context);
        });
    tool.definition.time_limit = std::chrono::milliseconds::zero();
    return tool;
}

McpServerTool read_tool(bub::HttpChannel* channel, bool has_users) {
    Json schema = json_schema_of<ReadArguments>();
    constrain(schema, "limit", Constraints().minimum(1).maximum(200));
    McpServerTool tool(
        "read_session", "Returns the state, the open questions and the last messages of a session.",
        std::move(schema),
        [channel, has_users](JsonObject arguments, ToolContext&, McpRequest& request) {
            return read_session(channel, sessions_of(request, has_users),
                                from_json<ReadArguments>(Json(std::move(arguments))));
        });
    tool.definition.risk_level = ToolRisk::read_only;
    return tool;
}

McpServerTool stop_tool(bub::HttpChannel* channel, bool has_users) {
    return McpServerTool(
        "stop_session", "Ends what the agent does in a session.",
        json_schema_of<SessionArguments>(),
        [channel, has_users](JsonObject arguments, ToolContext&, McpRequest& request) {
            return stop_session(channel, sessions_of(request, has_users),
                                from_json<SessionArguments>(Json(std::move(arguments))));
        });
}

}  // namespace

std::string oauth_user_name(std::string_view subject) {
    constexpr std::string_view letters =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.@";
    constexpr std::size_t longest = 64;
    // Others could be mistaken for a part of a session's name.
    if (!subject.empty() && subject.size() <= longest &&
        subject.find_first_not_of(letters) == std::string_view::npos)
        return "oauth+" + std::string(subject);
    return "oauth+~" + detail::sha256_hex(subject).substr(0, 32);
}

void add_mcp_interface(HttpRoutes& routes, bub::HttpChannel& channel, GatewayMcpOptions options) {
    const bool has_users = options.user != nullptr;
    McpServerOptions server;
    server.implementation.name = "cubepi-gateway";
    server.implementation.version = std::string(version());
    server.server_tools = {message_tool(&channel, has_users), read_tool(&channel, has_users),
                           stop_tool(&channel, has_users)};
    McpRouteOptions limits;
    limits.local_hosts_only = options.local_hosts_only;
    limits.client = std::move(options.user);
    add_mcp_routes(routes, std::make_shared<McpServer>(std::move(server)), std::move(limits));
}

}  // namespace cubepi::app
