#include "product_middleware.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include <cubepi/hitl/confirm_tool_calls.hpp>
#include <cubepi/middleware/compaction.hpp>
#include <cubepi/middleware/deferred_tools.hpp>
#include <cubepi/middleware/goal.hpp>
#include <cubepi/middleware/result_limit.hpp>
#include <cubepi/middleware/subagents.hpp>
#include <cubepi/middleware/todo_list.hpp>

#include "support.hpp"

namespace conformance {

namespace {

std::vector<std::string> texts_or_none(const JsonObject& options, std::string_view key) {
    std::vector<std::string> texts;
    if (const Json* list = options.if_contains(key)) {
        for (const Json& text : as_array(*list, key)) texts.push_back(as_text(text, key));
    }
    return texts;
}

std::vector<cubepi::AgentTool> make_tools(const JsonObject& options, const MiddlewareParts& parts) {
    std::vector<cubepi::AgentTool> tools;
    if (const Json* list = options.if_contains("tools")) {
        for (const Json& form : as_array(*list, "tools"))
            tools.push_back(parts.make_tool(parse_tool(form)));
    }
    return tools;
}

cubepi::Middleware make_confirm(const JsonObject& form, const MiddlewareParts& parts) {
    only_keys(form, "confirm", {"tools", "timeout_ms"});
    cubepi::ConfirmToolCallOptions options;
    if (form.contains("tools")) options.require_confirm = texts_or_none(form, "tools");
    if (form.contains("timeout_ms"))
        options.timeout = std::chrono::milliseconds(number_or(form, "timeout_ms", 0));
    return cubepi::ConfirmToolCallMiddleware(parts.channel, std::move(options));
}

cubepi::Middleware make_todo_list(const JsonObject& form, const MiddlewareParts&) {
    only_keys(form, "todo_list", {});
    return cubepi::TodoListMiddleware();
}

cubepi::Middleware make_goal(const JsonObject& form, const MiddlewareParts& parts) {
    only_keys(form, "goal", {"max_evaluations"});
    cubepi::GoalOptions options{.evaluator = parts.helper};
    options.max_evaluations = static_cast<int>(number_or(form, "max_evaluations", 10));
    return cubepi::GoalMiddleware(std::move(options));
}

cubepi::Middleware make_compaction(const JsonObject& form, const MiddlewareParts& parts) {
    only_keys(form, "compaction",
              {"max_tokens_before_compact", "keep_tail_tokens", "min_compact_messages",
               "prune_tool_outputs", "preserved_tools"});
    cubepi::CompactionOptions options;
    options.summary_model = parts.helper;
    options.max_tokens_before_compact = number_or(form, "max_tokens_before_compact", 0);
    options.keep_tail_tokens = number_or(form, "keep_tail_tokens", options.keep_tail_tokens);
    options.min_compact_messages =
        static_cast<std::size_t>(number_or(form, "min_compact_messages", 4));
    options.prune_tool_outputs = flag_or(form, "prune_tool_outputs", true);
    options.preserved_tools = texts_or_none(form, "preserved_tools");
    options.with_recall = false;  // CubePi has no such tool
    return cubepi::CompactionMiddleware(std::move(options));
}

cubepi::Middleware make_result_limit(const JsonObject& form, const MiddlewareParts&) {
    only_keys(form, "result_limit", {"max_chars", "exclude_tool_names"});
    cubepi::ToolResultLimitMiddleware limit;
    limit.max_chars = static_cast<std::size_t>(number_or(form, "max_chars", 20'000));
    limit.exclude_tool_names = texts_or_none(form, "exclude_tool_names");
    return limit;
}

cubepi::Middleware make_subagent(const JsonObject& form, const MiddlewareParts& parts) {
    only_keys(form, "subagent", {"types", "tools"});
    cubepi::SubagentOptions options;
    if (const Json* types = form.if_contains("types")) {
        for (const auto& [name, type] : as_object(*types, "types")) {
            const JsonObject& object = as_object(type, name);
            only_keys(object, name, {"system_prompt", "tools"});
            cubepi::SubagentSpec spec;
            spec.name = name;
            spec.system_prompt = text_or(object, "system_prompt", "");
            spec.tools = make_tools(object, parts);
            options.subagents.push_back(std::move(spec));
        }
    }
    options.default_model = parts.model;
    options.shared_tools = make_tools(form, parts);
    options.on_agent = parts.on_agent;
    return cubepi::SubagentMiddleware(std::move(options));
}

cubepi::Task<std::vector<cubepi::AgentTool>> loaded(std::vector<cubepi::AgentTool> tools) {
    co_return tools;
}

cubepi::DeferredToolGroup make_group(const Json& form, const MiddlewareParts& parts) {
    const JsonObject& object = as_object(form, "groups");
    only_keys(object, "groups", {"group_id", "display_name", "description", "tools"});
    cubepi::DeferredToolGroup group;
    group.group_id = text_or(object, "group_id", "");
    group.display_name = text_or(object, "display_name", "");
    group.description = text_or(object, "description", "");
    const std::vector<cubepi::AgentTool> tools = make_tools(object, parts);
    for (const cubepi::AgentTool& tool : tools) group.tool_names.push_back(tool.name);
    group.loader = [tools] { return loaded(tools); };
    return group;
}

cubepi::Middleware make_deferred_tools(const JsonObject& form, const MiddlewareParts& parts) {
    only_keys(form, "deferred_tools", {"groups", "strategy"});
    std::vector<cubepi::DeferredToolGroup> groups;
    for (const Json& group : as_array(form.at("groups"), "groups"))
        groups.push_back(make_group(group, parts));
    cubepi::DeferredToolsOptions options;
    options.with_search = false;  // CubePi has no such tool
    if (text_or(form, "strategy", "dispatch") == "inject")
        options.strategy = cubepi::DeferredStrategy::inject;
    return cubepi::DeferredToolsMiddleware(std::move(groups), std::move(options));
}

struct Kind {
    std::string_view name;
    cubepi::Middleware (*make)(const JsonObject& form, const MiddlewareParts& parts);
};

constexpr std::array kinds = {
    Kind{"compaction", make_compaction},         Kind{"confirm", make_confirm},
    Kind{"deferred_tools", make_deferred_tools}, Kind{"goal", make_goal},
    Kind{"result_limit", make_result_limit},     Kind{"subagent", make_subagent},
    Kind{"todo_list", make_todo_list},
};

const Kind* find_kind(std::string_view name) {
    const auto* found = std::find_if(kinds.begin(), kinds.end(),
                                     [name](const Kind& kind) { return kind.name == name; });
    return found == kinds.end() ? nullptr : found;
}

}  // namespace

bool is_product_middleware(std::string_view key) { return find_kind(key) != nullptr; }

cubepi::Middleware make_product_middleware(const ProductSpec& spec, const MiddlewareParts& parts) {
    return find_kind(spec.kind)->make(spec.options, parts);
}

}  // namespace conformance
