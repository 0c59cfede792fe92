#include <cubepi/mcp/tools.hpp>

#include <algorithm>
#include <exception>
#include <optional>
#include <set>
#include <utility>

#include <cubepi/agent/hitl_channel.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/support/digest.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/mcp/elicitation.hpp>

namespace cubepi {

namespace {

constexpr std::size_t max_tool_name = 64;
constexpr std::size_t hash_characters = 8;
/// Reports of a call that listeners have not taken yet; further ones are dropped.
constexpr std::size_t max_queued_progress = 16;

using ProgressQueue = AsyncQueue<Json>;

/// Asks the channel of the call.
Task<JsonObject> answer_input(std::shared_ptr<HitlChannel> channel, std::string server,
                              std::string method, JsonObject params) {
    if (method != "elicitation/create") {
        throw Error(ErrorCode::unsupported, "The MCP server " + server + " asks for " +
                                                detail::shown_mcp_text(method, 64) +
                                                ", which this client does not support.");
    }
    co_return co_await ask_mcp_elicitation(std::move(channel), std::move(server),
                                           std::move(params));
}

/// Returns null if the agent has no channel, or one that stores its requests: a call that waits for a later process cannot be repeated.
std::shared_ptr<HitlChannel> channel_of(const ToolContext& ctx) {
    try {
        std::shared_ptr<HitlChannel> channel = ctx.channel();
        if (channel->is_durable()) channel.reset();
        return channel;
    } catch (const Error&) {
        return nullptr;
    }
}

Task<> run_call(std::shared_ptr<McpClient> client, McpCall call,
                std::shared_ptr<ProgressQueue> queue, JsonObject* result) {
    struct Closing {
        ProgressQueue& queue;
        ~Closing() { queue.close(); }
    };
    const Closing closing{*queue};
    *result = co_await client->call(std::move(call));
}

Task<> report_progress(std::shared_ptr<ProgressQueue> queue, ToolContext* ctx) {
    while (true) {
        std::optional<Json> progress = co_await queue->next();
        if (!progress) co_return;
        co_await ctx->update(std::move(*progress));
    }
}

Task<AgentToolResult> call_tool(std::shared_ptr<McpClient> client, std::string tool,
                                JsonObject arguments, ToolContext* ctx) {
    McpCall call(std::move(tool), std::move(arguments));
    if (std::shared_ptr<HitlChannel> channel = channel_of(*ctx)) {
        call.on_input = [channel = std::move(channel), server = client->server()](
                            std::string method, JsonObject params) {
            return answer_input(channel, server, std::move(method), std::move(params));
        };
    }
    const auto queue = std::make_shared<ProgressQueue>(max_queued_progress);
    call.on_progress = [queue](const JsonObject& progress) {
        (void)queue->try_push(Json(progress));
    };
    JsonObject result;
    std::vector<Task<>> parts;
    parts.push_back(run_call(client, std::move(call), queue, &result));
    parts.push_back(report_progress(queue, ctx));
    Task<> both = when_all(std::move(parts));
    const Outcome<> done = co_await outcome_of(std::move(both));
    try {
        done.rethrow();
    } catch (const Error& error) {
        if (error.code() == ErrorCode::cancelled) throw;
        co_return AgentToolResult::error(error.what());
    }
    co_return mcp_tool_result(client->server(), result, client->limits().max_result_bytes);
}

bool has(std::string_view text, std::string_view part) {
    return text.find(part) != std::string_view::npos;
}

bool is_wanted(const McpToolOptions& options, const std::string& name) {
    const auto is_in = [&](const std::vector<std::string>& names) {
        return std::ranges::find(names, name) != names.end();
    };
    return !is_in(options.except) && (options.only.empty() || is_in(options.only));
}

AgentTool agent_tool(const std::shared_ptr<McpClient>& client, const McpTool& tool,
                     std::string name, const McpToolOptions& options) {
    AgentTool made;
    made.name = SharedString(std::move(name));
    made.description = SharedString(tool.description);
    made.parameters = JsonSchema(*tool.input_schema);
    made.label = client->server() + ": " + (tool.title.empty() ? tool.name : tool.title);
    const bool is_destructive = detail::flag_member(tool.annotations, "destructiveHint");
    made.risk_level =
        is_destructive ? std::max(options.risk, ToolRisk::irreversible) : options.risk;
    made.execute = [client, called = tool.name](JsonObject arguments, ToolContext& ctx) {
        return MaybeTask<AgentToolResult>(call_tool(client, called, std::move(arguments), &ctx));
    };
    return made;
}

}  // namespace

std::string mcp_tool_name(std::string_view prefix, std::string_view server, std::string_view tool) {
    const std::string wanted = std::string(prefix) + std::string(server) + "__" + std::string(tool);
    std::string name = wanted;
    for (char& c : name) {
        const bool is_allowed = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
                                (c >= '0' && c <= '9') || c == '_' || c == '-';
        if (!is_allowed) c = '_';
    }
    // "git" with "hub__push" is not "git__hub" with "push": only a name with one possible end of its server needs no hash.
    const bool is_clear =
        !has(server, "__") && !server.ends_with('_') && !has(tool, "__") && !tool.starts_with('_');
    if (name == wanted && is_clear && name.size() <= max_tool_name) return name;
    const std::string hash = detail::sha256_hex(std::string(server) + '\n' + std::string(tool))
                                 .substr(0, hash_characters);
    name.resize(std::min(name.size(), max_tool_name - hash_characters - 1));
    return name + "_" + hash;
}

Task<McpTools> mcp_tools(std::shared_ptr<McpClient> client, McpToolOptions options) {
    const std::shared_ptr<const McpToolList> listed = co_await client->tools();
    McpTools made;
    made.problems = listed->problems;
    std::set<std::string> names;
    for (const McpTool& tool : listed->tools) {
        if (!is_wanted(options, tool.name)) continue;
        std::string name = mcp_tool_name(options.prefix, client->server(), tool.name);
        if (!names.insert(name).second) {
            made.problems.push_back("tool '" + tool.name + "': another tool has the name " + name);
            continue;
        }
        made.tools.push_back(agent_tool(client, tool, std::move(name), options));
        made.origins.push_back(tool);
    }
    co_return made;
}

}  // namespace cubepi
