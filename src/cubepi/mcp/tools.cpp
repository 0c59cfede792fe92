#include <cubepi/mcp/tools.hpp>

#include <algorithm>
#include <exception>
#include <optional>
#include <set>
#include <utility>

#include <cubepi/agent/hitl_channel.hpp>
#include <cubepi/agent/run_account.hpp>
#include <cubepi/agent/transcript.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/offload.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/support/digest.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/mcp/elicitation.hpp>
#include <cubepi/mcp/sampling.hpp>
#include <cubepi/mcp/tools/suspended_call.hpp>
#include <cubepi/mcp/tools/tool_result.hpp>
#include <cubepi/provider/stream_options.hpp>
#include <cubepi/schema/json_text.hpp>

namespace cubepi {

namespace {

constexpr std::size_t max_tool_name = 64;
constexpr std::size_t hash_characters = 8;
/// Between the server and the title of a tool, for display.
constexpr std::string_view label_separator = ": ";
/// Reports of a call that listeners have not taken yet; further ones are dropped.
constexpr std::size_t max_queued_progress = 16;

using ProgressQueue = AsyncQueue<Json>;

/// Answers the requests of a server during one call of a tool.
struct Asked {
    std::shared_ptr<McpClient> client;
    ToolContext* ctx;
    std::shared_ptr<HitlChannel> channel;  ///< of the call
    std::size_t samplings_left = 0;
    std::shared_ptr<detail::McpSuspendedCall> suspended = {};  ///< null: the call ends here
};
using AskedPtr = std::shared_ptr<Asked>;

Task<JsonObject> sample(AskedPtr asked, std::shared_ptr<HitlChannel> channel, std::string server,
                        JsonObject params) {
    if (asked->suspended) {
        asked->suspended->begin_sampling();
    } else {
        if (asked->samplings_left == 0)
            throw McpInputRefused("The call has asked for messages too many times.");
        --asked->samplings_left;
    }
    const ToolContext& ctx = *asked->ctx;
    McpSamplingRequest request;
    request.server = std::move(server);
    request.params = std::move(params);
    request.may_have_tools = asked->client->has_sampling_tools();
    request.channel = std::move(channel);
    request.account = ctx.account();
    // Without the token of the tool, which would have to end by itself: a cancellation ends the call of the model.
    StreamOptions call = options_for_call(ctx.run(), "mcp_sampling", ctx.tool_call_id().str())
                             .runtime(ctx.shared_runtime());
    Task<JsonObject> answering =
        answer_mcp_sampling(asked->client->sampling(), std::move(request), std::move(call));
    co_return co_await std::move(answering);
}

Task<JsonObject> answer_input(AskedPtr asked, std::shared_ptr<HitlChannel> channel,
                              std::string server, std::string method, JsonObject params) {
    if (method == "sampling/createMessage" && asked->client->sampling()) {
        Task<JsonObject> sampling =
            sample(std::move(asked), std::move(channel), std::move(server), std::move(params));
        co_return co_await std::move(sampling);
    }
    if (method != "elicitation/create") {
        throw Error(ErrorCode::unsupported, "The MCP server " + server + " asks for " +
                                                detail::shown_mcp_text(method, 64) +
                                                ", which this client does not support.");
    }
    co_return co_await ask_mcp_elicitation(std::move(channel), std::move(server),
                                           std::move(params));
}

/// "git (in one of its calls log, status)"
std::string with_calls(const std::string& server, const std::vector<std::string>& tools) {
    constexpr std::size_t max_named = 5;
    std::string names;
    for (std::size_t i = 0; i < tools.size() && i < max_named; ++i)
        names += (i == 0 ? "" : ", ") + detail::shown_mcp_text(tools[i], 64);
    if (tools.size() > max_named) names += ", ...";
    return server + " (in one of its calls " + names + ")";
}

/// Returns null if the agent has no channel.
std::shared_ptr<HitlChannel> channel_of(const ToolContext& ctx) {
    try {
        return ctx.channel();
    } catch (const Error&) {
        return nullptr;
    }
}

/// Lets the server ask the user of the call, if there is one.
void add_handlers(McpCall& call, const std::shared_ptr<McpClient>& client, ToolContext* ctx,
                  std::shared_ptr<HitlChannel> channel,
                  std::shared_ptr<detail::McpSuspendedCall> suspended) {
    if (!channel || (channel->is_durable() && !suspended)) return;
    auto asked = std::make_shared<Asked>(Asked{client, ctx, std::move(channel)});
    asked->suspended = std::move(suspended);
    if (asked->suspended) asked->channel = asked->suspended;
    call.progress = asked->suspended;
    if (client->sampling()) {
        asked->samplings_left = client->sampling()->max_per_call;
        if (asked->suspended) asked->suspended->limit_samplings(asked->samplings_left);
    }
    call.on_input = [asked](std::string method, JsonObject params) {
        return answer_input(asked, asked->channel, asked->client->server(), std::move(method),
                            std::move(params));
    };
    // A question that may belong to several calls names none of them: it is asked on the channel of the agent. Only a call that waits for
    // suspended runs asks there itself, because its answer must be found again.
    if (!ctx->account() || !ctx->account()->channel()) return;
    call.asker = ctx->account()->channel();
    call.on_shared_input = [asked](std::string method, JsonObject params,
                                   std::vector<std::string> tools) {
        std::shared_ptr<HitlChannel> asks = asked->suspended;
        if (!asks) asks = asked->ctx->account()->channel();
        return answer_input(asked, std::move(asks), with_calls(asked->client->server(), tools),
                            std::move(method), std::move(params));
    };
}

/// For the model and the user, who would take the result for the answer to a question that was asked.
constexpr std::string_view refused_notice =
    "\n(The MCP server asked the user for input during this call, and was told that the user "
    "cannot answer: it waits for the answer on "
    "its connection, which this process does not hold open while a run is suspended. Ask the user "
    "for the input before you call the tool "
    "again, and pass it as an argument if the tool takes it. A chat or a gateway can ask such "
    "questions.)";

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

/// Takes the size of a value from `left`. Returns false, without reading the rest of the value, if it is larger.
bool fits(const Json& value, std::size_t& left) {
    const std::size_t size = 16 + (value.is_string() ? value.get_string().size() : 0);
    if (size > left) return false;
    left -= size;
    if (const JsonArray* const list = value.if_array()) {
        return std::ranges::all_of(*list, [&left](const Json& one) { return fits(one, left); });
    }
    const JsonObject* const object = value.if_object();
    return !object || std::ranges::all_of(*object, [&left](const auto& member) {
        return fits(member.value(), left);
    });
}

/// The conversion of a large result would delay the other sessions of the process.
Task<AgentToolResult> convert(std::shared_ptr<McpClient> client, JsonObject result,
                              std::shared_ptr<const Runtime> runtime) {
    std::size_t left = std::size_t{64} << 10U;
    Json whole = std::move(result);
    const bool is_small = fits(whole, left);
    auto work = [server = client->server(), limit = client->limits().max_result_bytes,
                 whole = std::move(whole)] {
        return mcp_tool_result(server, whole.get_object(), limit);
    };
    if (is_small) co_return work();
    co_return co_await offload(*runtime->workers, std::move(work));
}

Task<AgentToolResult> call_tool(std::shared_ptr<McpClient> client, std::string tool,
                                std::string digest, std::shared_ptr<const McpDataStore> store,
                                JsonObject arguments, ToolContext* ctx) {
    std::shared_ptr<HitlChannel> channel = channel_of(*ctx);
    std::shared_ptr<detail::McpSuspendedCall> suspended;
    if (channel && channel->is_durable()) {
        detail::McpSuspendedCall::Identity identity{client->server(), std::move(digest),
                                                    json_text(arguments)};
        suspended = detail::suspended_mcp_call(*ctx, channel, std::move(identity));
    }
    // The server may have executed it.
    if (ctx->is_repeated() && !suspended)
        co_return AgentToolResult::error(std::string(interrupted_call_text));
    McpCall call(std::move(tool), std::move(arguments));
    add_handlers(call, client, ctx, std::move(channel), suspended);
    if (const auto& trace = ctx->run().origin.trace) call.traceparent = trace->traceparent;
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
    if (store) {
        detail::McpDataLocation place{store, ctx->tool_name().str(), ctx->shared_runtime()};
        Task<> storing = detail::store_data_of(&result, std::move(place));
        co_await std::move(storing);
    }
    Task<AgentToolResult> converting = convert(client, std::move(result), ctx->shared_runtime());
    AgentToolResult converted = co_await std::move(converting);
    if (suspended && suspended->was_refused())
        converted.content.emplace_back(TextContent{std::string(refused_notice)});
    co_return converted;
}

/// The callback of a tool.
struct ToolBody {
    std::shared_ptr<McpClient> client;
    std::string called;
    std::string digest;
    std::shared_ptr<const McpDataStore> store = {};  ///< null: none

    MaybeTask<AgentToolResult> operator()(JsonObject arguments, ToolContext& ctx) const {
        return MaybeTask<AgentToolResult>(
            call_tool(client, called, digest, store, std::move(arguments), &ctx));
    }
};

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
    made.label = client->server() + std::string(label_separator) +
                 (tool.title.empty() ? tool.name : tool.title);
    const bool is_destructive = detail::flag_member(tool.annotations, "destructiveHint");
    made.risk_level =
        is_destructive ? std::max(options.risk, ToolRisk::irreversible) : options.risk;
    made.execute = ToolBody{client, tool.name, tool.digest};
    // So that a call may wait for its user in a suspended run. The body does not repeat what the server may have executed.
    made.replay_policy = ReplayPolicy::idempotent;
    return made;
}

}  // namespace

void store_mcp_data(AgentTool& tool, McpDataStore store) {
    auto* const body = tool.execute.target<ToolBody>();
    if (body) body->store = std::make_shared<const McpDataStore>(std::move(store));
}

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

std::string mcp_server_of(const AgentTool& tool) {
    const std::size_t end = tool.label.find(label_separator);
    if (!tool.name.str().starts_with(McpToolOptions().prefix) || end == std::string::npos)
        return {};
    return tool.label.substr(0, end);
}

Task<McpTools> mcp_tools(std::shared_ptr<McpClient> client, McpToolOptions options) {
    const std::shared_ptr<const McpToolList> listed = co_await client->tools();
    McpTools made;
    made.server = client->server();
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
