#include <cubepi/agent/middleware.hpp>

#include <iterator>

namespace cubepi {

bool HookSet::empty() const noexcept {
    return !(transform_context || convert_to_llm || transform_system_prompt || resolve_tool_call ||
             before_tool_call || after_tool_call || after_model_response ||
             should_stop_after_turn || on_run_end || around_model_call);
}

namespace {

/// The hooks of one name that the list has, in its order.
template <class H>
std::vector<H> collect(const std::vector<Middleware>& middleware, H HookSet::* member) {
    std::vector<H> found;
    for (const Middleware& one : middleware) {
        if (const H& hook = one.hooks().*member) found.push_back(hook);
    }
    return found;
}

Task<MessageList> chain_context(const std::vector<TransformContextHook>& hooks,
                                MessageList messages, HookContext& ctx) {
    for (const auto& hook : hooks) messages = co_await hook(std::move(messages), ctx);
    co_return messages;
}

Task<std::string> chain_prompt(const std::vector<TransformSystemPromptHook>& hooks,
                               std::string prompt, HookContext& ctx) {
    for (const auto& hook : hooks) prompt = co_await hook(std::move(prompt), ctx);
    co_return prompt;
}

Task<std::optional<ToolCall>> first_resolved(const std::vector<ResolveToolCallHook>& hooks,
                                             ToolCall call, HookContext& ctx) {
    std::optional<ToolCall> resolved;
    for (const auto& hook : hooks) {
        ToolCall asked = call;
        resolved = co_await hook(std::move(asked), ctx);
        if (resolved) break;
    }
    co_return resolved;
}

/// The newest trace stands on top, the earlier ones in its `_chain`.
void add_trace(Json& trace, Json newer) {
    if (newer.is_null()) return;
    if (!trace.is_null() && newer.is_object()) {
        JsonArray chain;
        if (trace.is_object()) {
            if (const Json* old = trace.get_object().if_contains("_chain");
                old && old->is_array()) {
                chain = old->get_array();
                trace.get_object().erase("_chain");
            }
        }
        chain.push_back(std::move(trace));
        newer.get_object()["_chain"] = std::move(chain);
    }
    trace = std::move(newer);
}

Task<std::optional<BeforeToolCallResult>> before_chain(const std::vector<BeforeToolCallHook>& hooks,
                                                       BeforeToolCallContext& ctx) {
    BeforeToolCallResult merged;
    bool any = false;
    for (const auto& hook : hooks) {
        std::optional<BeforeToolCallResult> result = co_await hook(ctx);
        if (!result) continue;
        any = true;
        add_trace(merged.hitl_trace, std::move(result->hitl_trace));
        if (result->edited_args) {
            ctx.args = *result->edited_args;
            merged.edited_args = std::move(result->edited_args);
        }
        if (result->block || result->result) {
            merged.block = result->block;
            merged.reason = std::move(result->reason);
            merged.deny_reason = std::move(result->deny_reason);
            merged.result = std::move(result->result);
            break;
        }
    }
    std::optional<BeforeToolCallResult> outcome;
    if (any) outcome = std::move(merged);
    co_return outcome;
}

template <class T>
void override_with(std::optional<T>& merged, std::optional<T>& newer) {
    if (newer) merged = std::move(newer);
}

Task<std::optional<AfterToolCallResult>> after_chain(const std::vector<AfterToolCallHook>& hooks,
                                                     AfterToolCallContext& ctx) {
    AfterToolCallResult merged;
    for (const auto& hook : hooks) {
        std::optional<AfterToolCallResult> result = co_await hook(ctx);
        if (!result) continue;
        if (result->content) ctx.result.content = *result->content;
        if (result->details) ctx.result.details = *result->details;
        if (result->terminate) ctx.result.terminate = result->terminate;
        if (result->is_error) {
            ctx.result.is_error = result->is_error;
            ctx.is_error = *result->is_error;
        }
        override_with(merged.content, result->content);
        override_with(merged.details, result->details);
        override_with(merged.is_error, result->is_error);
        override_with(merged.terminate, result->terminate);
    }
    std::optional<AfterToolCallResult> outcome(std::move(merged));
    co_return outcome;
}

Task<std::optional<TurnAction>> response_chain(const std::vector<AfterModelResponseHook>& hooks,
                                               AssistantMessage response, HookContext& ctx) {
    TurnAction merged;
    for (const auto& hook : hooks) {
        AssistantMessage seen = response;
        std::optional<TurnAction> action = co_await hook(std::move(seen), ctx);
        if (!action) continue;
        if (action->response) {
            response = *action->response;
            merged.response = std::move(action->response);
        }
        merged.inject_messages.append(action->inject_messages);
        if (action->decision) merged.decision = action->decision;
    }
    std::optional<TurnAction> outcome(std::move(merged));
    co_return outcome;
}

Task<bool> any_stop(const std::vector<ShouldStopAfterTurnHook>& hooks,
                    ShouldStopAfterTurnContext& ctx) {
    for (const auto& hook : hooks) {
        const bool stop = co_await hook(ctx);
        if (stop) co_return true;
    }
    co_return false;
}

Task<MessageList> run_end_chain(const std::vector<OnRunEndHook>& hooks, HookContext& ctx) {
    MessageList injected;
    for (const auto& hook : hooks) {
        const MessageList more = co_await hook(ctx);
        injected.append(more);
    }
    co_return injected;
}

/// `hooks[first]` around the rest of them around the call itself.
Task<MessageStream> around_from(std::shared_ptr<const std::vector<AroundModelCallHook>> hooks,
                                std::size_t first, ModelRequest request, ModelCallNext call) {
    if (first == hooks->size()) return call(std::move(request));
    ModelCallNext next = [hooks, first, call](ModelRequest inner) {
        return around_from(hooks, first + 1, std::move(inner), call);
    };
    return (*hooks)[first](std::move(request), std::move(next));
}

}  // namespace

HookSet compose_middleware(const std::vector<Middleware>& middleware, HookSet explicit_hooks) {
    HookSet set = std::move(explicit_hooks);
    if (auto hooks = collect(middleware, &HookSet::transform_context);
        !set.transform_context && !hooks.empty()) {
        set.transform_context = [hooks](MessageList messages, HookContext& ctx) {
            return chain_context(hooks, std::move(messages), ctx);
        };
    }
    if (auto hooks = collect(middleware, &HookSet::convert_to_llm);
        !set.convert_to_llm && !hooks.empty()) {
        set.convert_to_llm = hooks.back();
    }
    if (auto hooks = collect(middleware, &HookSet::transform_system_prompt);
        !set.transform_system_prompt && !hooks.empty()) {
        set.transform_system_prompt = [hooks](std::string prompt, HookContext& ctx) {
            return chain_prompt(hooks, std::move(prompt), ctx);
        };
    }
    auto resolvers = collect(middleware, &HookSet::resolve_tool_call);
    if (set.resolve_tool_call) resolvers.insert(resolvers.begin(), set.resolve_tool_call);
    if (!resolvers.empty()) {
        set.resolve_tool_call = [resolvers](ToolCall call, HookContext& ctx) {
            return first_resolved(resolvers, std::move(call), ctx);
        };
    }
    if (auto hooks = collect(middleware, &HookSet::before_tool_call);
        !set.before_tool_call && !hooks.empty()) {
        set.before_tool_call = [hooks](BeforeToolCallContext& ctx) {
            return before_chain(hooks, ctx);
        };
    }
    if (auto hooks = collect(middleware, &HookSet::after_tool_call);
        !set.after_tool_call && !hooks.empty()) {
        set.after_tool_call = [hooks](AfterToolCallContext& ctx) {
            return after_chain(hooks, ctx);
        };
    }
    if (auto hooks = collect(middleware, &HookSet::after_model_response);
        !set.after_model_response && !hooks.empty()) {
        set.after_model_response = [hooks](AssistantMessage response, HookContext& ctx) {
            return response_chain(hooks, std::move(response), ctx);
        };
    }
    if (auto hooks = collect(middleware, &HookSet::should_stop_after_turn);
        !set.should_stop_after_turn && !hooks.empty()) {
        set.should_stop_after_turn = [hooks](ShouldStopAfterTurnContext& ctx) {
            return any_stop(hooks, ctx);
        };
    }
    if (auto hooks = collect(middleware, &HookSet::on_run_end); !set.on_run_end && !hooks.empty()) {
        set.on_run_end = [hooks](HookContext& ctx) { return run_end_chain(hooks, ctx); };
    }
    auto wrappers = collect(middleware, &HookSet::around_model_call);
    if (!set.around_model_call && !wrappers.empty()) {
        auto hooks = std::make_shared<const std::vector<AroundModelCallHook>>(std::move(wrappers));
        set.around_model_call = [hooks](ModelRequest request, ModelCallNext call) {
            return around_from(hooks, 0, std::move(request), std::move(call));
        };
    }
    return set;
}

}  // namespace cubepi
