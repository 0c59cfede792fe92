#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include <cubepi/agent/run_account.hpp>
#include <cubepi/agent/tool.hpp>
#include <cubepi/core/detail/async_function.hpp>
#include <cubepi/core/json.hpp>
#include <cubepi/core/message_list.hpp>
#include <cubepi/core/notice.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/task.hpp>
#include <cubepi/provider/provider.hpp>

namespace cubepi {

/// A callable with one of the hooks' signatures: a lambda, function or object that returns R or Task<R>. Contexts
/// are passed by reference and outlive the call. A hook whose second argument is the context may leave it out.
/// A callable with another signature or result does not compile; the message of `Slot` names the hook.
template <class Signature, class Slot>
class Hook;

template <class R, class... A, class Slot>
class Hook<R(A...), Slot> {
public:
    Hook() = default;
    template <class F>
        requires(!std::is_same_v<std::remove_cvref_t<F>, Hook>)
    Hook(F callable) : call_(std::move(callable)) {}
    template <class T, class Member>
    Hook(detail::SharedCall<T, Member> member) : call_(std::move(member)) {}

    explicit operator bool() const noexcept { return static_cast<bool>(call_); }
    /// The callable runs when the task is awaited.
    Task<R> operator()(A... args) const {
        return detail::await_call<R, Call, A...>(call_, std::forward<A>(args)...);
    }

private:
    static constexpr detail::AsyncRules rules{.last_is_optional = sizeof...(A) > 1};
    using Call = detail::AsyncFunction<R(A...), Slot, rules>;

    Call call_;
};

/// The context of a run that is passed to every hook. Valid until the hook returns.
struct HookContext {
    const SharedString& system_prompt;
    /// The history so far; during after_model_response it includes the current assistant message.
    const MessageList& messages;
    /// The thread's persistent state: middleware stores data here that must survive, under its own keys. A null value
    /// removes its key when the state is saved.
    JsonObject& extra;
    const std::string& run_id;
    const std::string& thread_id;
    std::uint32_t turn;
    /// Stopped when the run is aborted. A hook that is awaiting is then cancelled.
    std::stop_token stop_token;
    const std::shared_ptr<const Runtime>& runtime;
    const std::shared_ptr<RunAccount>& account;
    /// The request of this turn's model call, with the model, the system prompt, the messages, the tools with their schemas and
    /// the options that the run made it with: a copy of the pointer is a record of the turn. Null before the call, and while a
    /// continued run takes up the calls of an earlier one. around_model_call may have sent another request.
    const std::shared_ptr<const ModelRequest>& request;

    const RunInfo& run() const noexcept { return account->info(); }
    /// Returns the channel of the agent (AgentOptions::channel), on which a hook that also decides about the calls of sub-agents
    /// asks: that of a sub-agent forwards its questions to the root. Null if the agent has none.
    const std::shared_ptr<HitlChannel>& channel() const noexcept { return account->channel(); }
    /// Adds model calls that this hook made to the usage and cost of the run (D67). An absent cost makes the cost of the run
    /// unknown.
    void charge(const Usage& usage, std::optional<double> cost) const {
        account->charge(usage, cost);
    }
    /// Returns the options for a model call of this hook, so that observers know which run it belongs to. `purpose` is a short
    /// name such as "compaction".
    StreamOptions call_options(std::string_view purpose) const {
        return options_for_call(run(), purpose).stop_token(stop_token).runtime(runtime);
    }
};

/// A call that is about to be executed.
struct BeforeToolCallContext {
    const AssistantMessage& assistant_message;
    const ToolCall& tool_call;
    const AgentTool& tool;
    JsonObject args;  ///< validated, with defaults, and with the edits of earlier middleware
    const HookContext& context;
    /// Where a policy records the file by which it decides (ToolContext::judged_file()); null: not recorded.
    std::optional<JudgedFile>* judged_file = nullptr;
};

/// The decision about a call. With nothing set, it runs unchanged.
struct BeforeToolCallResult {
    bool block = false;            ///< do not run the tool; the model gets an error result
    std::string reason = {};       ///< for the model, and for the event's block_reason
    std::string deny_reason = {};  ///< takes precedence over `reason` in the event
    std::optional<JsonObject> edited_args = {};  ///< replaces the arguments; validated again
    std::optional<AgentToolResult> result =
        {};                ///< replaces the execution; after_tool_call is still called (D44)
    Json hitl_trace = {};  ///< stored in the result's details.hitl
};

/// A call that has a result.
struct AfterToolCallContext {
    const AssistantMessage& assistant_message;
    const ToolCall& tool_call;
    const JsonObject& args;
    AgentToolResult result;  ///< merged so far (D11)
    bool is_error;
    bool blocked;  ///< before_tool_call blocked the call (D29)
    const HookContext& context;
};

/// Fields that are set replace those of the result; later middleware overrides earlier, field by field (D11).
struct AfterToolCallResult {
    std::optional<ContentList<Content>> content = {};
    std::optional<Json> details = {};
    std::optional<bool> is_error = {};
    std::optional<bool> terminate = {};
    /// Shortens the result's texts to so many code points instead of AgentLimits::tool_result_chars; 0: not at all.
    std::optional<std::size_t> max_chars = {};
};

/// The continuation of a run after an answer.
enum class TurnDecision : std::uint8_t {
    natural,        ///< continue according to the response
    stop,           ///< end the run after this response
    loop_to_model,  ///< call the model again; the response's tool calls are not run
};

/// The result of after_model_response. With nothing set, the answer is unchanged.
struct TurnAction {
    std::optional<AssistantMessage> response = {};  ///< replaces the response
    MessageList inject_messages = {};               ///< added to the history before the next turn
    std::optional<TurnDecision> decision = {};      ///< absent: no preference
};

/// A turn that has ended and whose results are stored.
struct ShouldStopAfterTurnContext {
    const Message& message;  ///< the assistant's
    const MessageList& tool_results;
    const MessageList& new_messages;  ///< of this run
    const HookContext& context;
};

/// The remaining handlers of a model call, for around_model_call. May be called any number of times, or not at all.
using ModelCallNext = std::function<Task<MessageStream>(ModelRequest)>;

// clang-format off
/// The list of hooks (docs/guides/middleware.md has an example of each): type, name, result, arguments. They run on the
/// agent's executor and must not block. An exception ends the run as failed; in a hook about a tool call it becomes the
/// call's error result instead. A new hook is an entry here, its composition rule in middleware.cpp and its call in the
/// run; the rest is generated from this list.
#define CUBEPI_AGENT_HOOKS(HOOK)                                                                                       \
    /* Returns the messages to send to the model in place of the history, which is unchanged. A request that           \
       becomes invalid (a result without its call) is repaired before it is sent (D1). */                              \
    HOOK(TransformContextHook, transform_context, MessageList, MessageList, HookContext&)                              \
    /* Makes the last change of the messages before the request, e.g. to omit messages intended only for the user.     \
       */                                                                                                              \
    HOOK(ConvertToLlmHook, convert_to_llm, MessageList, MessageList, HookContext&)                                     \
    /* Returns the system prompt of this request. */                                                                   \
    HOOK(TransformSystemPromptHook, transform_system_prompt, std::string, std::string, HookContext&)                   \
    /* Called for each call before its arguments are validated; may return another call in its place (D84). */           \
    HOOK(ResolveToolCallHook, resolve_tool_call, std::optional<ToolCall>, ToolCall, HookContext&)                      \
    /* Receives a call with valid arguments before it runs: may block it, edit it, or answer in its place. */          \
    HOOK(BeforeToolCallHook, before_tool_call, std::optional<BeforeToolCallResult>, BeforeToolCallContext&)            \
    /* Receives a result before it is stored, including that of a blocked call (D29). */                               \
    HOOK(AfterToolCallHook, after_tool_call, std::optional<AfterToolCallResult>, AfterToolCallContext&)                \
    /* Receives an answer before it is stored, and decides how the run continues. */                                   \
    HOOK(AfterModelResponseHook, after_model_response, std::optional<TurnAction>, AssistantMessage, HookContext&)      \
    /* Returns true to end the run after this turn. Queued messages wait for the next run (D5). */                     \
    HOOK(ShouldStopAfterTurnHook, should_stop_after_turn, bool, ShouldStopAfterTurnContext&)                           \
    /* Called when the run would end by itself; returning messages continues it (D33). */                              \
    HOOK(OnRunEndHook, on_run_end, MessageList, HookContext&)                                                          \
    /* Wraps the model call: may change the request, call another model, or answer without one (D44). */               \
    HOOK(AroundModelCallHook, around_model_call, MessageStream, ModelRequest, ModelCallNext)
// clang-format on

namespace detail {

#define CUBEPI_DETAIL_HOOK_SLOT(type, name, result, ...)                                        \
    CUBEPI_DETAIL_SLOT(name,                                                                    \
                       "hook " #name " must be callable as " #result " " #name "(" #__VA_ARGS__ \
                       "); it may return a Task and leave out a trailing context")
CUBEPI_AGENT_HOOKS(CUBEPI_DETAIL_HOOK_SLOT)
#undef CUBEPI_DETAIL_HOOK_SLOT

}  // namespace detail

#define CUBEPI_DETAIL_HOOK_TYPE(type, name, result, ...) \
    using type = Hook<result(__VA_ARGS__), detail::name##_slot>;
CUBEPI_AGENT_HOOKS(CUBEPI_DETAIL_HOOK_TYPE)
#undef CUBEPI_DETAIL_HOOK_TYPE

/// Declares a member for a hook of the list.
#define CUBEPI_DETAIL_HOOK_MEMBER(type, name, ...) type name = {};

/// Hooks of middleware that do not run because another callable replaces them.
struct ReplacedHook {
    std::string_view name;                ///< the name of the hook: "before_tool_call"
    std::vector<std::string> middleware;  ///< the classes whose hook does not run
    std::string
        by;  ///< the class of the middleware that replaces them; empty: an explicit callable

    /// Returns a notice with the code "hook_replaced"; its details have `hook`, `replaced` and `by`.
    Notice notice() const;
};

/// The hooks of one middleware, or of an agent's explicit callables. Empty ones are not called.
struct HookSet {
    CUBEPI_AGENT_HOOKS(CUBEPI_DETAIL_HOOK_MEMBER)

    /// Filled by compose_middleware(); an agent reports them at its first run, run_agent_loop at each run.
    std::vector<ReplacedHook> replaced = {};

    bool empty() const noexcept;
};

namespace detail {

template <class First, class...>
using FirstOf = First;

#define CUBEPI_DETAIL_HOOK_NAME(type, name, ...) int name;
struct HookNames {
    CUBEPI_AGENT_HOOKS(CUBEPI_DETAIL_HOOK_NAME)
};
#undef CUBEPI_DETAIL_HOOK_NAME

/// A member of any kind of `M` that is named X makes `&HookProbe<M>::X` ambiguous, so overloads and templates are detected too.
template <class M>
struct HookProbe : M, HookNames {};

// A final class has no probe: in it, overloads and templates are detected only if they accept the arguments of the hook.
#define CUBEPI_DETAIL_HOOK(type, name, result, ...)                             \
    struct name##_member {                                                      \
        template <class M, class... A>                                          \
        using Result = decltype(std::declval<M&>().name(std::declval<A>()...)); \
        template <class M, class... A>                                          \
        static Result<M, A...> call(M& middleware, A&&... args) {               \
            return middleware.name(std::forward<A>(args)...);                   \
        }                                                                       \
    };                                                                          \
    template <class M>                                                          \
    concept FinalHas_##name = requires { &M::name; } || requires {              \
        typename name##_member::Result<M, __VA_ARGS__>;                         \
    } || requires { typename name##_member::Result<M, FirstOf<__VA_ARGS__>>; }; \
    template <class M>                                                          \
    concept Has_##name = (std::is_final_v<M> && FinalHas_##name<M>) ||          \
                         (!std::is_final_v<M> && !requires { &HookProbe<M>::name; });
CUBEPI_AGENT_HOOKS(CUBEPI_DETAIL_HOOK)
#undef CUBEPI_DETAIL_HOOK

}  // namespace detail

/// A middleware: a plain class with any subset of the hooks, with the signatures above, synchronous or returning a
/// Task. No base class. A member that has a hook's name but not its signature does not compile. A member `tools` (a
/// vector of AgentTool) adds tools to the agent. A member `models` (a vector of BoundModel) names the models that the hooks
/// call, so that tracers observe them (D70).
///
///     struct SlidingWindow {
///         std::size_t keep = 20;
///         MessageList transform_context(MessageList messages) { return messages.last(keep); }
///     };
///     Agent agent({.model = model, .middleware = {SlidingWindow{}}});
class Middleware {
public:
    template <class M>
        requires(!std::is_same_v<std::remove_cvref_t<M>, Middleware>)
    Middleware(M middleware)
        : Middleware(std::type_identity<M>(), detail::SharedObject::make(std::move(middleware))) {}

    /// Shares an object that the caller continues to use.
    template <class M>
    Middleware(std::shared_ptr<M> middleware)
        : Middleware(std::type_identity<M>(), detail::SharedObject::share(std::move(middleware))) {}

    const HookSet& hooks() const noexcept { return hooks_; }
    const std::vector<AgentTool>& tools() const noexcept { return tools_; }
    const std::vector<BoundModel>& models() const noexcept { return models_; }
    /// Returns the name of the class, for messages: "app::SafetyFilter".
    std::string type_name() const;

private:
    template <class M>
    Middleware(std::type_identity<M> type, const detail::SharedObject& object);

    HookSet hooks_;
    std::vector<AgentTool> tools_;
    std::vector<BoundModel> models_;
    const std::type_info* type_ = nullptr;
};

/// Returns the agent's hooks: middleware composed by each hook's rule (docs/guides/middleware/composition.md),
/// overridden by explicit callables. An explicit resolve_tool_call is called before the middleware's; every other
/// explicit callable replaces the composed hook, and of several convert_to_llm only the last runs. HookSet::replaced
/// lists the hooks that do not run.
HookSet compose_middleware(const std::vector<Middleware>& middleware, HookSet explicit_hooks = {});

#define CUBEPI_DETAIL_HAS(type, name, ...) detail::Has_##name<M> ||
#define CUBEPI_DETAIL_NAME(type, name, ...) #name ", "
#define CUBEPI_DETAIL_BIND(type, name, ...)                                 \
    if constexpr (detail::Has_##name<M>) {                                  \
        hooks_.name = detail::SharedCall<M, detail::name##_member>{object}; \
    }

template <class M>
Middleware::Middleware(std::type_identity<M>, const detail::SharedObject& object)
    : type_(&typeid(M)) {
    M& middleware = *static_cast<M*>(object.get());
    CUBEPI_AGENT_HOOKS(CUBEPI_DETAIL_BIND)
    constexpr bool has_tools = requires { std::vector<AgentTool>(middleware.tools); };
    if constexpr (has_tools) tools_ = middleware.tools;
    if constexpr (requires { std::vector<BoundModel>(middleware.models); }) {
        models_ = middleware.models;
    }
    static_assert(
        CUBEPI_AGENT_HOOKS(CUBEPI_DETAIL_HAS) has_tools,
        "a middleware has at least one hook: " CUBEPI_AGENT_HOOKS(CUBEPI_DETAIL_NAME) "or tools");
}
#undef CUBEPI_DETAIL_BIND
#undef CUBEPI_DETAIL_HAS
#undef CUBEPI_DETAIL_NAME

}  // namespace cubepi
