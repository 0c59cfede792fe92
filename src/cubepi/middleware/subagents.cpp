#include <cubepi/middleware/subagents.hpp>

#include <algorithm>
#include <utility>

#include <cubepi/core/outcome.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/middleware/detail/subagent_run.hpp>
#include <cubepi/schema/json_text.hpp>

// The middleware: its types and tool. Sub-agents in the background are in subagent_tasks.cpp, limits in subagent_limits.cpp.

namespace cubepi {

namespace detail {

namespace {

constexpr std::string_view general_purpose = "general-purpose";

SubagentOptions checked(SubagentOptions options) {
    std::vector<SubagentSpec>& types = options.subagents;
    const auto is_general = [](const SubagentSpec& one) { return one.name == general_purpose; };
    if (std::none_of(types.begin(), types.end(), is_general)) {
        SubagentSpec general;
        general.name = general_purpose;
        general.description = "Any task.";
        general.system_prompt =
            "You do one task for another agent. Do all of it, then answer with what it needs to "
            "know; nothing else of your work reaches it.";
        types.push_back(std::move(general));
    }
    for (std::size_t i = 0; i < types.size(); ++i) {
        const SubagentSpec& type = types[i];
        if (type.name.empty())
            throw Error(ErrorCode::invalid_argument, "a type of sub-agents has no name");
        if (!type.model && !options.default_model) {
            throw Error(ErrorCode::invalid_argument,
                        "the sub-agents of type '" + type.name +
                            "' have no model: set it, or SubagentOptions::default_model");
        }
        for (std::size_t k = 0; k < i; ++k) {
            if (types[k].name == type.name)
                throw Error(ErrorCode::invalid_argument,
                            "two types of sub-agents have the name '" + type.name + "'");
        }
        (void)ToolList(tools_of(options, type));  // throws for two tools of one name
    }
    return options;
}

std::string description_of(const SubagentShared& shared) {
    std::string text =
        "Has another agent do a task and returns its answer. It knows nothing of this "
        "conversation: the prompt has all that it needs. Types of agents:";
    for (const SubagentSpec& type : shared.options.subagents) {
        text += "\n- \"" + type.name + "\"";
        if (!type.description.empty()) text += ": " + type.description;
    }
    return text;
}

Task<AgentToolResult> call_subagent(std::shared_ptr<SubagentShared> shared,
                                    std::shared_ptr<SubagentOwner> owner, std::size_t depth,
                                    std::string parent_key, JsonObject arguments,
                                    ToolContext* caller) {
    SubagentPlan plan;
    plan.request = from_json<SubagentRequest>(Json(std::move(arguments)));
    plan.type = plan.request.subagent_type.value_or(std::string(general_purpose));
    plan.depth = depth + 1;
    plan.parent_key = std::move(parent_key);
    if (plan.request.prompt.empty()) co_return AgentToolResult::error("the prompt is empty");
    if (!shared->find(plan.type)) {
        co_return AgentToolResult::error("there is no type of sub-agents '" + plan.type +
                                         "'; the types are " + shared->type_names());
    }
    plan.shared = shared;
    if (plan.request.run_in_background.value_or(false)) {
        if (!owner || owner->shared->limits.max_background == 0)
            co_return AgentToolResult::error("a sub-agent cannot run in the background here");
        const Executor executor = co_await this_executor;
        auto task = std::make_shared<BackgroundTask>();
        task->name = plan.request.name.value_or("");
        task->type = plan.type;
        task->task = plan.request.task.value_or("");
        plan.task = task;
        co_return start_subagent_task(*owner, executor, std::move(task), *caller,
                                      [&] { return run_subagent(std::move(plan), *caller); });
    }
    SubagentResult ended = co_await run_subagent(std::move(plan), *caller);
    co_return result_of(std::move(ended), counted_call(*shared, caller->call_key()));
}

}  // namespace

std::vector<AgentTool> tools_of(const SubagentOptions& options, const SubagentSpec& type) {
    std::vector<AgentTool> tools = options.shared_tools;
    tools.insert(tools.end(), type.tools.begin(), type.tools.end());
    std::erase_if(tools, [](const AgentTool& tool) {
        return tool.name == subagent_tool_name || tool.name == subagent_tasks_tool_name;
    });
    return tools;
}

SubagentShared::SubagentShared(SubagentOptions chosen)
    : SubagentTasks(chosen.limits, chosen.on_task_end), options(checked(std::move(chosen))) {}

const SubagentSpec* SubagentShared::find(std::string_view type) const {
    const auto found = std::find_if(options.subagents.begin(), options.subagents.end(),
                                    [&](const SubagentSpec& one) { return one.name == type; });
    return found == options.subagents.end() ? nullptr : &*found;
}

std::string SubagentShared::type_names() const {
    std::string names;
    for (const SubagentSpec& type : options.subagents)
        names += (names.empty() ? "'" : ", '") + type.name + "'";
    return names;
}

ReplayPolicy subagent_replay_policy(const JsonObject& arguments) {
    const Json* const in_background = arguments.if_contains("run_in_background");
    return in_background && *in_background == Json(true) ? ReplayPolicy::never
                                                         : ReplayPolicy::idempotent;
}

AgentTool subagent_tool(std::shared_ptr<SubagentShared> shared,
                        std::shared_ptr<SubagentOwner> owner, std::size_t depth,
                        std::string call_key) {
    Json schema = json_schema_of<SubagentRequest>();
    describe(schema, "name", "A short name, for the user.");
    describe(schema, "role", "What the agent is, in a few words, for the user.");
    describe(schema, "task", "The task in one line, for the user.");
    describe(schema, "prompt", "The task, with all that the agent has to know of it.");
    describe(schema, "subagent_type", "The type of the agent. Default: general-purpose.");
    if (owner && shared->options.limits.max_background != 0) {
        describe(schema, "run_in_background", background_text);
    } else {
        schema.as_object().at("properties").as_object().erase("run_in_background");
    }
    std::string description = description_of(*shared);
    const auto call = [shared, owner, depth, call_key = std::move(call_key)](JsonObject arguments,
                                                                             ToolContext& caller) {
        return call_subagent(shared, owner, depth, call_key, std::move(arguments), &caller);
    };
    AgentTool made =
        tool(std::string(subagent_tool_name), std::move(description), std::move(schema), call)
            .risk(ToolRisk::writes)
            .replay(subagent_replay_policy);
    // It has limits of its own.
    made.time_limit = std::chrono::milliseconds(0);
    return made;
}

}  // namespace detail

SubagentMiddleware::SubagentMiddleware(SubagentOptions options) {
    auto shared = std::make_shared<detail::SubagentShared>(std::move(options));
    owner_ = std::make_shared<detail::SubagentOwner>(shared);
    tools.push_back(detail::subagent_tool(shared, owner_, 0));
    if (shared->limits.max_background != 0) tools.push_back(detail::subagent_tasks_tool(shared));
}

SubagentMiddleware::SubagentMiddleware(std::shared_ptr<detail::SubagentOwner> owner)
    : owner_(std::move(owner)) {}

Spending SubagentMiddleware::spending() const { return owner_->shared->spent; }

/// Before the first sub-agent of a run that another process has begun.
std::optional<ToolCall> SubagentMiddleware::resolve_tool_call(ToolCall call, HookContext& ctx) {
    if (call.name == detail::subagent_tool_name)
        detail::count_history(*owner_->counts, ctx.messages, ctx.run_id);
    return std::nullopt;
}

}  // namespace cubepi
