#include <cubepi/mcp/server.hpp>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <optional>
#include <utility>

#include <cubepi/agent/loop.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/mcp/server/connection.hpp>
#include <cubepi/schema/json_text.hpp>

namespace cubepi {

namespace {

using detail::object_member;
using detail::shown_mcp_text;
using detail::string_member;

/// An error response, as an exception.
struct Refusal {
    int code;
    std::string text;
    Json data;

    Refusal(int its_code, std::string its_text, Json its_data = {})
        : code(its_code), text(std::move(its_text)), data(std::move(its_data)) {}
};

/// Returns true if the request states its version itself; throws Refusal if it does so incorrectly.
bool is_stateless_request(const JsonObject& params) {
    const JsonObject* meta = object_member(params, "_meta");
    const Json* version = meta ? meta->if_contains(mcp_meta::version) : nullptr;
    const Json* capabilities = meta ? meta->if_contains(mcp_meta::client_capabilities) : nullptr;
    if (!version && !capabilities) return false;
    if (!version || !version->is_string()) {
        throw Refusal(mcp_error::invalid_params,
                      "`_meta` needs " + std::string(mcp_meta::version) + ", a text.");
    }
    if (!is_stateless_mcp_version(version->get_string())) {
        JsonObject data;
        data["supported"] = JsonArray{mcp_stateless_version};
        data["requested"] = *version;
        throw Refusal(mcp_error::unsupported_version, "This protocol version is not supported.",
                      std::move(data));
    }
    if (!capabilities || !capabilities->is_object()) {
        throw Refusal(
            mcp_error::invalid_params,
            "`_meta` needs " + std::string(mcp_meta::client_capabilities) + ", an object.");
    }
    const Json* client = meta->if_contains(mcp_meta::client_info);
    const JsonObject* described = client ? client->if_object() : nullptr;
    const bool is_described = described && !string_member(*described, "name").empty();
    if (client && !is_described) {
        throw Refusal(
            mcp_error::invalid_params,
            std::string(mcp_meta::client_info) + " must be an object with a name and a version.");
    }
    return true;
}

JsonObject content_block(const Content& content) {
    JsonObject block;
    if (const auto* text = std::get_if<TextContent>(&content)) {
        block["type"] = "text";
        block["text"] = text->text;
        return block;
    }
    const ImageContent& image = std::get<ImageContent>(content);
    if (image.source.starts_with("http://") || image.source.starts_with("https://")) {
        block["type"] = "resource_link";
        block["uri"] = image.source;
        block["name"] = "image";
        return block;
    }
    block["type"] = "image";
    block["data"] = image.source;
    block["mimeType"] = image.media_type.str();
    return block;
}

JsonObject result_of(const ToolResultMessage& message) {
    JsonArray content;
    for (const Content& block : message.content) content.emplace_back(content_block(block));
    JsonObject result;
    result["content"] = std::move(content);
    if (message.is_error) result["isError"] = true;
    return result;
}

/// Converts the progress that a tool reports, which may have any form, to the parameters of a notification.
JsonObject progress_of(const Json& token, const Json& reported, std::int64_t count) {
    JsonObject params;
    params["progressToken"] = token;
    params["progress"] = count;
    const JsonObject* members = reported.if_object();
    if (members) {
        if (const Json* progress = members->if_contains("progress");
            progress && progress->is_number())
            params["progress"] = *progress;
        if (const Json* total = members->if_contains("total"); total && total->is_number())
            params["total"] = *total;
        const std::string_view message = string_member(*members, "message");
        if (!message.empty()) params["message"] = message;
    } else if (reported.is_string()) {
        params["message"] = reported;
    }
    return params;
}

/// Passes the progress of a call on to its client.
class ProgressReporter {
public:
    ProgressReporter(Json token, std::function<Task<>(RpcMessage)> notify)
        : token_(std::move(token)), notify_(std::move(notify)) {}

    Task<> operator()(const AgentEvent& event) {
        const auto* update = std::get_if<ToolExecutionUpdateEvent>(&event.body);
        if (!update || !notify_ || token_.is_null()) co_return;
        JsonObject params = progress_of(token_, update->partial_result, ++count_);
        co_await notify_(rpc_notification("notifications/progress", std::move(params)));
    }

private:
    Json token_;
    std::function<Task<>(RpcMessage)> notify_;
    std::int64_t count_ = 0;
};

}  // namespace

struct McpServer::State {
    explicit State(McpServerOptions settings) : options(std::move(settings)) {
        JsonArray listed;
        for (const AgentTool& tool : options.tools) {
            if (!tool.expose_to_model) continue;
            JsonObject described;
            described["name"] = tool.name.str();
            if (!tool.label.empty()) described["title"] = tool.label;
            described["description"] = tool.description.str();
            described["inputSchema"] = tool.parameters.source();
            JsonObject annotations;
            annotations["readOnlyHint"] = tool.risk_level == ToolRisk::read_only;
            annotations["destructiveHint"] = tool.risk_level == ToolRisk::irreversible;
            annotations["openWorldHint"] = tool.risk_level == ToolRisk::network;
            described["annotations"] = std::move(annotations);
            listed.emplace_back(std::move(described));
        }
        tools["tools"] = std::move(listed);
    }

    JsonObject capabilities() const {
        JsonObject object;
        object["tools"] = JsonObject();
        return object;
    }

    JsonObject discover() const {
        JsonObject result;
        result["supportedVersions"] = JsonArray{mcp_stateless_version};
        result["capabilities"] = capabilities();
        if (!options.instructions.empty()) result["instructions"] = options.instructions;
        return result;
    }

    JsonObject initialize(const JsonObject& params) const {
        const std::string wanted = detail::text_member(params, "protocolVersion");
        if (wanted.empty()) {
            throw Refusal(mcp_error::invalid_params,
                          "`initialize` needs `protocolVersion`, a text.");
        }
        JsonObject result;
        result["protocolVersion"] =
            is_session_mcp_version(wanted) ? wanted : std::string(mcp_session_version);
        result["capabilities"] = capabilities();
        result["serverInfo"] = to_json(options.implementation);
        if (!options.instructions.empty()) result["instructions"] = options.instructions;
        return result;
    }

    Task<JsonObject> result(McpServerCall call, bool is_stateless);
    Task<JsonObject> call_tool(McpServerCall call);

    const McpServerOptions options;
    JsonObject tools;  ///< the result of tools/list, in the order of the list
};

Task<JsonObject> McpServer::State::result(McpServerCall call, bool is_stateless) {
    const std::string method = call.request.method;
    if (is_stateless) {
        if (method == "server/discover") co_return discover();
    } else {
        if (method == "initialize") co_return initialize(call.request.params);
        if (method == "ping") co_return JsonObject();
        const bool is_known = method == "tools/list" || method == "tools/call";
        if (is_known && call.session_version.empty()) {
            throw Refusal(mcp_error::invalid_request,
                          "The first request must be `initialize`, or each request must state its "
                          "version in `_meta`.");
        }
    }
    if (method == "tools/list") {
        if (call.request.params.contains("cursor"))
            throw Refusal(mcp_error::invalid_params,
                          "This cursor is unknown; the list has one page.");
        co_return tools;
    }
    if (method == "tools/call") co_return co_await call_tool(std::move(call));
    throw Refusal(mcp_error::method_not_found,
                  "The method " + shown_mcp_text(method, 64) + " is not supported.");
}

Task<JsonObject> McpServer::State::call_tool(McpServerCall call) {
    const JsonObject& params = call.request.params;
    const std::string name = detail::text_member(params, "name");
    const AgentTool* tool = options.tools.find(name);
    if (!tool || !tool->expose_to_model)
        throw Refusal(mcp_error::invalid_params, "Unknown tool: " + shown_mcp_text(name, 64));
    JsonObject arguments;
    if (const Json* sent = params.if_contains("arguments")) {
        if (!sent->is_object())
            throw Refusal(mcp_error::invalid_params, "`arguments` must be an object.");
        arguments = sent->get_object();
    }
    AgentContext context;
    context.tools.push_back(*tool);
    AssistantMessage calling;
    ToolCall requested;
    requested.id = SharedString(options.runtime->ids->next());
    requested.name = tool->name;
    requested.arguments = std::move(arguments);
    calling.content.emplace_back(std::move(requested));
    calling.stop_reason = stop_reason::shared(stop_reason::tool_use);
    LoopOptions loop;
    loop.hooks = options.hooks;
    loop.limits = options.limits;
    loop.runtime = options.runtime;
    loop.stop_token = call.stop;
    Json token;
    if (const JsonObject* meta = object_member(params, "_meta")) {
        if (const Json* sent = meta->if_contains(mcp_meta::progress_token)) token = *sent;
    }
    const auto reporter = std::make_shared<ProgressReporter>(std::move(token), call.notify);
    AgentListener emit = [reporter](const AgentEvent& event) { return (*reporter)(event); };
    const ToolCallBatch batch =
        co_await execute_tool_calls(context, std::move(calling), std::move(loop), std::move(emit));
    const ToolResultMessage* message =
        batch.messages.empty() ? nullptr : batch.messages[0].tool_result();
    if (!message) throw Refusal(mcp_error::internal, "The tool has no result.");
    co_return result_of(*message);
}

McpServer::McpServer(McpServerOptions options)
    : state_(std::make_shared<State>(std::move(options))) {}

McpServer::~McpServer() = default;

const McpServerOptions& McpServer::options() const noexcept { return state_->options; }

Task<RpcMessage> McpServer::answer(McpServerCall call) {
    const std::shared_ptr<State> state = state_;
    const Json id = call.request.id;
    const std::string method = call.request.method;
    std::optional<Refusal> refusal;
    try {
        const bool is_stateless = is_stateless_request(call.request.params);
        JsonObject result = co_await state->result(std::move(call), is_stateless);
        if (is_stateless) {
            result["resultType"] = "complete";
            JsonObject meta;
            meta[mcp_meta::server_info] = to_json(state->options.implementation);
            result["_meta"] = std::move(meta);
            if (method == "server/discover" || method == "tools/list") {
                result["ttlMs"] = 0;
                result["cacheScope"] = "private";
            }
        }
        co_return rpc_result(id, std::move(result));
    } catch (const Refusal& error) {
        refusal = error;
    } catch (const Error& error) {
        if (error.code() == ErrorCode::cancelled) throw;
        refusal.emplace(mcp_error::internal, "The server failed.");
        state->options.runtime->log.write(LogLevel::error, "mcp.request_failed",
                                          {{"code", to_string(error.code())}});
    }
    co_return rpc_error(id, refusal->code, std::move(refusal->text), std::move(refusal->data));
}

Task<> McpServer::serve(std::unique_ptr<McpByteStream> stream) {
    co_await detail::serve_mcp_connection(*this, std::move(stream));
}

}  // namespace cubepi
