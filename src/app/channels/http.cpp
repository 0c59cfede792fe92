#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <bub/channel/http_channel.hpp>
#include <cubepi/agent/tool.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/support/digest.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/core/version.hpp>
#include <cubepi/mcp/resource_server.hpp>
#include <cubepi/mcp/server.hpp>
#include <cubepi/mcp/server_routes.hpp>
#include <cubepi/net/http_server.hpp>
#include <cubepi/schema/json_schema.hpp>
#include <cubepi/schema/json_text.hpp>

#include "../gateway/gateway_findings.hpp"
#include "../gateway/gateway_instance.hpp"
#include "../gateway/gateway_sessions.hpp"
#include "channel_kinds.hpp"
#include "http_openai.hpp"

namespace cubepi::app {

namespace {

struct GatewayMcpOptions {
    bool local_hosts_only = true;  ///< see McpRouteOptions
    /// Returns the user of a request (McpResourceServer::client()), whose sessions are separate from those of others, and are named without
    /// the user in calls and results. Empty: clients have the token of the channel, and name all sessions.
    std::function<std::string(const HttpServerRequest& request)> user = {};
};

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
    const std::stop_token closed = request.closed;
    const std::string id(request.parameter("id"));
    const std::string session(request.parameter("session"));
    Task<HttpServerResponse> posting = channel->post_message(std::move(request));
    HttpServerResponse posted = co_await std::move(posting);
    // A client that cancels its request does not want the rest of its turn either.
    if (closed.stop_requested()) channel->abandon_message(id, session);
    scope.cancel();
    co_return posted;
}

Task<McpToolResult> send_message(bub::HttpChannel* channel, UserSessions sessions,
                                 MessageArguments arguments, ToolContext* context) {
    JsonObject body;
    body["text"] = std::move(arguments.text);
    std::string session = arguments.session.value_or("");
    if (session.empty()) session = context->runtime().ids->next();
    session = sessions.full(session);
    if (!sessions.user.empty()) body["user"] = sessions.user;
    HttpServerRequest request = request_for(std::move(session), context->stop_token());
    request.body = json_text(body);
    request.parameters["id"] = context->runtime().ids->next();
    if (const auto& trace = context->run().origin.trace)
        request.headers.set("traceparent", trace->traceparent);
    const auto post = [channel, &request, context](TaskScope& scope) {
        return post_with_progress(channel, std::move(request), context, scope);
    };
    Task<HttpServerResponse> posting = with_task_scope(post);
    const HttpServerResponse posted = co_await std::move(posting);
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

/// Returns the name of a user of an issuer in the channel: "oauth+ann". No key and no session of the channel's token has such a name.
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
        "for an answer, the result shows the question; an operator answers it, and what follows is "
        "in the session. stop_session withdraws the question. The text is never a command.",
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

/// Adds the route `/mcp` to those of the channel http: an MCP server whose tools send a message to a session and wait for the answer, read
/// a session, and stop its turn. The model of a client has no tool that answers questions, and its texts are neither answers nor commands
/// (HttpChannel::post_message()), so that it cannot approve what it has asked for.
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

constexpr std::size_t most_body_mb = 64;

constexpr std::array keys{
    ChannelKey{"listen", KeyType::address, "127.0.0.1:8642", "The address of the channel."},
    ChannelKey{"token_env", KeyType::variable, "CUBEPI_HTTP_TOKEN",
               "The variable that has the bearer token of the requests."},
    ChannelKey{"operators", KeyType::list, "",
               "Users who may answer every question and use comma commands.", "users"},
    ChannelKey{"max_body_mb", KeyType::number, "1", "The limit of a request, in MiB."},
    ChannelKey{"mcp", KeyType::flag, "false",
               "Offers the agent at /mcp of the same address to MCP clients."},
    ChannelKey{
        "mcp_issuer", KeyType::text, "",
        "The authorization server whose access tokens MCP clients send in place of the token."},
    ChannelKey{"mcp_url", KeyType::text, "",
               "The URL of MCP clients, for which these tokens are: https://HOST/mcp."},
    ChannelKey{"mcp_scopes", KeyType::list, "", "The scopes that each of these tokens must have.",
               "scopes"},
    ChannelKey{"openai", KeyType::flag, "false",
               "Offers the agent at /v1/responses and /v1/chat/completions of the same address to "
               "OpenAI's SDKs."},
    ChannelKey{"ag_ui", KeyType::flag, "false",
               "Offers the agent at /v1/ag-ui of the same address to AG-UI clients, which see its "
               "reasoning and the calls of its tools."},
    ChannelKey{"keys", KeyType::list, "",
               "Further tokens for clients of 'openai' and 'ag_ui', each of a user with sessions "
               "of its own: the name "
               "and the variable of each, \"ann=ANN_TOKEN\".",
               "names with variables"},
    ChannelKey{"key_turns", KeyType::number, "8",
               "The turns of such a token that are in progress at a time."},
    ChannelKey{"certificate", KeyType::file, "", "PEM files, for TLS."},
    ChannelKey{"key", KeyType::file}};

/// A further token: the name of its user, and the variable that has it.
struct NamedKey {
    std::string name = {};
    std::string variable = {};
};

/// Returns an empty name for a text that is not in the form NAME=VARIABLE.
NamedKey named_key(const std::string& text) {
    constexpr std::string_view letters =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_";
    constexpr std::size_t longest_name = 64;
    const std::size_t middle = text.find('=');
    NamedKey key;
    if (middle == 0 || middle > longest_name || middle + 1 >= text.size()) return key;
    key.name = text.substr(0, middle);
    key.variable = text.substr(middle + 1);
    const bool is_valid = key.name.find_first_not_of(std::string(letters) + "-.@") == text.npos &&
                          key.variable.find_first_not_of(letters) == text.npos;
    return is_valid ? key : NamedKey();
}

void check(const ChannelSettings& settings) {
    std::set<std::string> names;
    for (const std::string& text : settings.list("keys")) {
        const NamedKey key = named_key(text);
        if (key.name.empty() || !names.insert(key.name).second)
            settings.refuse("keys", "different names with variables, such as \"ann=ANN_TOKEN\"");
    }
    if (!settings.list("keys").empty() && !settings.flag("openai") && !settings.flag("ag_ui"))
        settings.refuse("keys", "set together with 'openai: true' or 'ag_ui: true'");

    const bool has_issuer = !settings.text("mcp_issuer").empty();
    if (has_issuer && (!settings.flag("mcp") || settings.text("mcp_url").empty()))
        settings.refuse("mcp_issuer", "set together with 'mcp: true' and 'mcp_url'");
    if (!has_issuer && !settings.list("mcp_scopes").empty())
        settings.refuse("mcp_scopes", "set together with 'mcp_issuer'");

    if (settings.number("max_body_mb") > most_body_mb)
        settings.refuse("max_body_mb", "at most " + std::to_string(most_body_mb));
    if (settings.text("certificate").empty() != settings.text("key").empty())
        settings.refuse("key", "set together with the certificate");
}

std::string token_command(const ChannelSettings& settings) {
    return "export " + settings.text("token_env") + "=$(openssl rand -hex 16)";
}

/// Returns the tokens of OpenAI's protocols and AG-UI: that of the channel first. Throws Error(invalid_argument) for one that is missing or not
/// its own.
std::vector<OpenAIKey> openai_keys(const ChannelSettings& settings, const std::string& token) {
    std::vector<OpenAIKey> keys(1);
    keys.front().token = token;
    for (const std::string& text : settings.list("keys")) {
        const NamedKey named = named_key(text);
        const char* const value = std::getenv(named.variable.c_str());
        OpenAIKey key;
        key.name = named.name;
        key.token = value ? value : "";
        key.most_turns = settings.number("key_turns");
        std::string problem = key.token.empty() ? named.variable + " is not set"
                                                : token_problem(named.variable, key.token);
        for (const OpenAIKey& other : keys)
            if (problem.empty() && other.token == key.token)
                problem = named.variable + " has the token of another key";
        if (!problem.empty()) {
            throw Error(ErrorCode::invalid_argument,
                        "channel http: the key '" + named.name + "': " + problem +
                            ".\n  To make a token: openssl rand -hex 16");
        }
        keys.push_back(std::move(key));
    }
    return keys;
}

/// Returns the routes of MCP clients that have access tokens of an issuer, and those of the metadata, which clients without one read.
std::vector<bub::HttpInterface> oauth_interfaces(const ChannelSettings& settings,
                                                 const GatewayInstance& gateway, bool is_local) {
    McpResourceServerOptions options;
    options.issuer = settings.text("mcp_issuer");
    options.resource = settings.text("mcp_url");
    options.scopes = settings.list("mcp_scopes");
    const std::shared_ptr<McpResourceServer> resource =
        gateway.servers().token_checks(std::move(options));
    bub::HttpInterface mcp;
    mcp.name = "mcp";
    mcp.authentication = resource->authentication();
    mcp.add = [resource, is_local](HttpRoutes& routes, bub::HttpChannel& channel) {
        GatewayMcpOptions options;
        options.local_hosts_only = is_local;
        options.user = resource->client();
        add_mcp_interface(routes, channel, std::move(options));
    };
    bub::HttpInterface metadata;
    metadata.name = "mcp-metadata";
    metadata.add = [resource](HttpRoutes& routes, bub::HttpChannel&) {
        resource->add_metadata_route(routes);
    };
    std::vector<bub::HttpInterface> both;
    both.push_back(std::move(mcp));
    both.push_back(std::move(metadata));
    return both;
}

std::shared_ptr<bub::Channel> make(const ChannelSettings& settings, const GatewayInstance& gateway,
                                   bub::ProvideChannelsCall& call) {
    bub::HttpChannelOptions options;
    options.server = gateway.server(settings.path_of("listen"));
    options.max_requests = max_waiting_requests();
    options.operators = settings.list("operators");
    options.sessions = std::make_shared<GatewaySessions>(gateway);
    options.failure_text = gateway.failure_text();
    options.max_body_bytes = settings.number("max_body_mb") << 20U;
    options.token = settings.secret("token", "token", "To make one: " + token_command(settings));
    const std::string problem = token_problem(settings.text("token_env"), options.token);
    if (!problem.empty())
        throw Error(ErrorCode::invalid_argument,
                    "channel http: " + problem + ".\n  To make one: " + token_command(settings));
    // Names that a proxy sends are checked by the server.
    const bool is_local = gateway.settings().allowed_hosts.empty();
    if (settings.flag("mcp") && settings.text("mcp_issuer").empty()) {
        options.add_routes = [is_local](HttpRoutes& routes, bub::HttpChannel& channel) {
            GatewayMcpOptions mcp;
            mcp.local_hosts_only = is_local;
            add_mcp_interface(routes, channel, std::move(mcp));
        };
    } else if (settings.flag("mcp")) {
        options.interfaces = oauth_interfaces(settings, gateway, is_local);
    }
    OpenAIRoutes offered;
    offered.openai = settings.flag("openai");
    offered.ag_ui = settings.flag("ag_ui");
    if (offered.openai || offered.ag_ui) {
        std::vector<OpenAIKey> keys = openai_keys(settings, options.token);
        bub::HttpInterface interface;
        interface.name = "http-keys";
        interface.authentication = openai_authentication(keys);
        interface.add = [offered, keys = std::move(keys)](HttpRoutes& routes,
                                                          bub::HttpChannel& channel) {
            add_openai_interface(routes, channel, offered, keys);
        };
        options.interfaces.push_back(std::move(interface));
    }
    return std::make_shared<bub::HttpChannel>(std::move(options), call.handler);
}

void find(const ChannelSettings& settings, const Environment& environment, Findings& findings) {
    const std::string variable = settings.text("token_env");
    const auto token = environment.find(variable);
    const std::string problem =
        token == environment.end() ? "" : token_problem(variable, token->second);
    if (!problem.empty()) findings.problem("channel http: " + problem, token_command(settings));
}

}  // namespace

const ChannelKind http_kind{"http", "A channel for programs.", keys, check, make, find};

}  // namespace cubepi::app
