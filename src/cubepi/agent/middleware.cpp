#include <cubepi/agent/middleware.hpp>

#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <boost/core/demangle.hpp>

namespace cubepi {

bool HookSet::empty() const noexcept {
#define IS_ABSENT(type, name, ...) !name&&
    return CUBEPI_AGENT_HOOKS(IS_ABSENT) true;
#undef IS_ABSENT
}

namespace {

/// Returns the hooks of one name in the list, in order.
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

/// The newest trace is at the top level, the earlier ones in its `_chain`.
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
        override_with(merged.max_chars, result->max_chars);
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

/// Runs `hooks[first]` around the remaining hooks and the call.
Task<MessageStream> around_from(std::shared_ptr<const std::vector<AroundModelCallHook>> hooks,
                                std::size_t first, ModelRequest request, ModelCallNext call) {
    if (first == hooks->size()) return call(std::move(request));
    ModelCallNext next = [hooks, first, call](ModelRequest inner) {
        return around_from(hooks, first + 1, std::move(inner), call);
    };
    return (*hooks)[first](std::move(request), std::move(next));
}

// The composition rule of each hook: returns one hook that calls all of `hooks`, which are at least one, in order.

TransformContextHook compose(std::vector<TransformContextHook> hooks) {
    return [hooks = std::move(hooks)](MessageList messages, HookContext& ctx) {
        return chain_context(hooks, std::move(messages), ctx);
    };
}

/// Only the last one runs.
ConvertToLlmHook compose(std::vector<ConvertToLlmHook> hooks) { return std::move(hooks.back()); }

TransformSystemPromptHook compose(std::vector<TransformSystemPromptHook> hooks) {
    return [hooks = std::move(hooks)](std::string prompt, HookContext& ctx) {
        return chain_prompt(hooks, std::move(prompt), ctx);
    };
}

ResolveToolCallHook compose(std::vector<ResolveToolCallHook> hooks) {
    return [hooks = std::move(hooks)](ToolCall call, HookContext& ctx) {
        return first_resolved(hooks, std::move(call), ctx);
    };
}

BeforeToolCallHook compose(std::vector<BeforeToolCallHook> hooks) {
    return
        [hooks = std::move(hooks)](BeforeToolCallContext& ctx) { return before_chain(hooks, ctx); };
}

AfterToolCallHook compose(std::vector<AfterToolCallHook> hooks) {
    return
        [hooks = std::move(hooks)](AfterToolCallContext& ctx) { return after_chain(hooks, ctx); };
}

AfterModelResponseHook compose(std::vector<AfterModelResponseHook> hooks) {
    return [hooks = std::move(hooks)](AssistantMessage response, HookContext& ctx) {
        return response_chain(hooks, std::move(response), ctx);
    };
}

ShouldStopAfterTurnHook compose(std::vector<ShouldStopAfterTurnHook> hooks) {
    return [hooks = std::move(hooks)](ShouldStopAfterTurnContext& ctx) {
        return any_stop(hooks, ctx);
    };
}

OnRunEndHook compose(std::vector<OnRunEndHook> hooks) {
    return [hooks = std::move(hooks)](HookContext& ctx) { return run_end_chain(hooks, ctx); };
}

AroundModelCallHook compose(std::vector<AroundModelCallHook> wrappers) {
    auto hooks = std::make_shared<const std::vector<AroundModelCallHook>>(std::move(wrappers));
    return [hooks](ModelRequest request, ModelCallNext call) {
        return around_from(hooks, 0, std::move(request), std::move(call));
    };
}

/// True if an explicit callable is called before the middleware's instead of replacing them.
template <class H>
constexpr bool explicit_runs_first = std::is_same_v<H, ResolveToolCallHook>;

/// True if the hook of the last middleware replaces those of the others.
template <class H>
constexpr bool last_replaces_others = std::is_same_v<H, ConvertToLlmHook>;

/// The composition of an agent's hooks; records the middleware hooks that do not run.
class Composition {
public:
    Composition(const std::vector<Middleware>& middleware, HookSet explicit_hooks)
        : middleware_(middleware), set_(std::move(explicit_hooks)) {}

    /// Composes the hooks of one name.
    template <class H>
    void add(std::string_view name, H HookSet::* member) {
        std::vector<H> hooks = collect(middleware_, member);
        if (hooks.empty()) return;
        H& composed = set_.*member;
        if (composed && !explicit_runs_first<H>) {
            note_replaced(name, member, hooks.size(), std::string());
            return;
        }
        if (last_replaces_others<H> && hooks.size() > 1) {
            note_replaced(name, member, hooks.size() - 1, last_with(member));
        }
        if (composed) hooks.insert(hooks.begin(), std::move(composed));
        composed = compose(std::move(hooks));
    }

    HookSet& set() noexcept { return set_; }

private:
    /// Returns the class of the last middleware with the hook.
    template <class H>
    std::string last_with(H HookSet::* member) const {
        std::string last;
        for (const Middleware& one : middleware_) {
            if (one.hooks().*member) last = one.type_name();
        }
        return last;
    }

    template <class H>
    void note_replaced(std::string_view name, H HookSet::* member, std::size_t count,
                       std::string by) {
        ReplacedHook replaced;
        replaced.name = name;
        replaced.by = std::move(by);
        for (const Middleware& one : middleware_) {
            if (replaced.middleware.size() == count) break;
            if (one.hooks().*member) replaced.middleware.push_back(one.type_name());
        }
        set_.replaced.push_back(std::move(replaced));
    }

    const std::vector<Middleware>& middleware_;
    HookSet set_;
};

}  // namespace

std::string Middleware::type_name() const {
    return type_ ? boost::core::demangle(type_->name()) : std::string();
}

Notice ReplacedHook::notice() const {
    JsonArray classes;
    std::string names;
    for (const std::string& one : middleware) {
        if (!names.empty()) names += ", ";
        names += one;
        classes.emplace_back(one);
    }
    const std::string hook(name);
    Notice made;
    made.code = "hook_replaced";
    made.text = "The hook " + hook + " of middleware " + names + " does not run: ";
    made.text += by.empty() ? "the explicit callable AgentOptions::" + hook + " replaces it."
                            : "of several, only the last runs, which is that of " + by + ".";
    made.details["hook"] = hook;
    made.details["replaced"] = std::move(classes);
    made.details["by"] = by.empty() ? "explicit" : by;
    return made;
}

HookSet compose_middleware(const std::vector<Middleware>& middleware, HookSet explicit_hooks) {
    Composition all(middleware, std::move(explicit_hooks));
#define ADD(type, name, ...) all.add(#name, &HookSet::name);
    CUBEPI_AGENT_HOOKS(ADD)
#undef ADD
    return std::move(all.set());
}

}  // namespace cubepi
