#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <cubepi/agent/named_arguments.hpp>
#include <cubepi/agent/tool_context.hpp>
#include <cubepi/core/detail/async_function.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/json.hpp>
#include <cubepi/core/maybe_task.hpp>
#include <cubepi/core/message.hpp>
#include <cubepi/core/model.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/task.hpp>
#include <cubepi/schema/json_convert.hpp>
#include <cubepi/schema/json_schema.hpp>
#include <cubepi/schema/json_text.hpp>
#include <cubepi/schema/validate.hpp>

namespace cubepi {

/// A destination for text that is too long for the model (D24). The workspace module has one that writes files.
class SpillSink {
public:
    virtual ~SpillSink() = default;
    /// Stores `text` and returns how the model can read it, e.g. a path. Called on a worker thread.
    virtual std::string spill(std::string_view tool_name, std::string_view tool_call_id,
                              std::string_view text) = 0;
};

/// The possible effects of a tool (D52). Approval policies, parallelism and replay after a crash depend on it.
enum class ToolRisk : std::uint8_t { read_only, writes, network, irreversible };
std::string_view to_string(ToolRisk risk) noexcept;

/// The execution of one answer's calls: concurrently, or one after the other in the model's order.
enum class ExecutionMode : std::uint8_t { parallel, sequential };

/// Whether a call may be executed again that was interrupted by the end of its process, or by the suspension of its run
/// while its body waited for the user (D69). A call that a killed process has left is executed again when its run
/// continues (resume(), or a prompt with the id of its input), and its hooks are called again; ToolContext::is_repeated()
/// tells the body. Its third repetition in a row that a process does not survive is the last one.
enum class ReplayPolicy : std::uint8_t {
    never,       ///< the model is told that the outcome is unknown
    idempotent,  ///< the body may begin again
};
std::string_view to_string(ReplayPolicy policy) noexcept;

namespace detail {

/// The text forms that a callback may return, as a tool result.
template <class T>
AgentToolResult to_tool_result(T&& value) {
    using U = std::remove_cvref_t<T>;
    if constexpr (std::is_constructible_v<AgentToolResult, T&&>) {
        return AgentToolResult(std::forward<T>(value));
    } else if constexpr (std::is_convertible_v<T&&, Json>) {
        return AgentToolResult(json_text(Json(std::forward<T>(value))));
    } else {
        static_assert(std::is_class_v<U>,
                      "a tool returns std::string, AgentToolResult, Json, a struct, or a Task of "
                      "one of these");
        return AgentToolResult(json_text(Json(to_json(value))));
    }
}

template <class T>
Task<AgentToolResult> await_tool_result(Task<T> task) {
    T value = co_await std::move(task);
    co_return to_tool_result(std::move(value));
}

}  // namespace detail

/// A tool as the agent runs it: name, description, parameters, callback. Created by `tool<Args>(...)`, or field by
/// field for parameters that are only known at run time. A value; copies share the schema.
struct AgentTool {
    /// Returns the schema of a tool without arguments.
    static JsonSchema no_parameters();

    /// Runs the tool with arguments that satisfy `parameters` (defaults filled in). `ctx` outlives the call.
    /// What it throws becomes an error result. May be called for several calls at once.
    using Execute =
        std::function<MaybeTask<AgentToolResult>(JsonObject arguments, ToolContext& ctx)>;

    AgentTool() = default;
    AgentTool(std::string tool_name, std::string tool_description, JsonSchema schema,
              Execute callback)
        : name(std::move(tool_name)),
          description(std::move(tool_description)),
          parameters(std::move(schema)),
          execute(std::move(callback)) {}

    SharedString name = {};
    SharedString description = {};
    JsonSchema parameters = no_parameters();
    Execute execute = {};
    std::string label = {};  ///< display name; empty: the name
    std::optional<ExecutionMode> execution_mode = {};
    ToolRisk risk_level = ToolRisk::writes;                    ///< unknown tools may write
    std::optional<std::chrono::milliseconds> time_limit = {};  ///< absent: the agent's; zero: none
    ReplayPolicy replay_policy = ReplayPolicy::never;
    /// Decides by the arguments of a call instead of `replay_policy`, if set. May see arguments that do not satisfy
    /// `parameters`; what it throws counts as ReplayPolicy::never.
    std::function<ReplayPolicy(const JsonObject& arguments)> replay_policy_for = {};
    bool runs_blocking = false;   ///< runs on the worker pool
    bool expose_to_model = true;  ///< false: executable, not advertised

    // Chained settings, each returning the tool.
    /// Sets the description of one argument; nested ones by their path ("where.city"). If there is no such argument,
    /// throws Error(invalid_argument) that lists the arguments.
    AgentTool& describe(std::string_view path, std::string_view text) & {
        Json schema = parameters.source();
        cubepi::describe(schema, path, text);
        parameters = JsonSchema(std::move(schema));
        return *this;
    }
    AgentTool&& describe(std::string_view path, std::string_view text) && {
        return std::move(describe(path, text));
    }
    /// Adds limits and remarks to one argument: `.constrain("days", Constraints().minimum(1).maximum(7))`. Throws
    /// Error(invalid_argument) if there is no such argument, or a constraint does not apply to its type.
    AgentTool& constrain(std::string_view path, const Constraints& constraints) & {
        Json schema = parameters.source();
        cubepi::constrain(schema, path, constraints);
        parameters = JsonSchema(std::move(schema));
        return *this;
    }
    AgentTool&& constrain(std::string_view path, const Constraints& constraints) && {
        return std::move(constrain(path, constraints));
    }
    /// Batches with this tool run one call at a time.
    AgentTool&& sequential() && {
        execution_mode = ExecutionMode::sequential;
        return std::move(*this);
    }
    AgentTool&& risk(ToolRisk level) && {
        risk_level = level;
        return std::move(*this);
    }
    /// For all arguments: replaces what decides by the arguments.
    AgentTool&& replay(ReplayPolicy policy) && {
        replay_policy = policy;
        replay_policy_for = nullptr;
        return std::move(*this);
    }
    AgentTool&& replay(std::function<ReplayPolicy(const JsonObject& arguments)> policy_for) && {
        replay_policy_for = std::move(policy_for);
        return std::move(*this);
    }
    // In parentheses, because <curses.h> defines a macro of this name.
    AgentTool && (timeout)(std::chrono::milliseconds limit) && {
        time_limit = limit;
        return std::move(*this);
    }
    AgentTool&& hidden() && {
        expose_to_model = false;
        return std::move(*this);
    }

    ToolDefinition definition() const;
};

namespace detail {

template <class Args>
consteval void check_arguments() {
    static_assert(std::is_same_v<JsonFor<Args>, JsonObject> || is_json<Args>,
                  "cubepi: the arguments of a tool are a struct with one field for each, as in "
                  "`struct Args { std::string city; };`");
}

template <class Args, class F>
concept TakesContext =
    requires(F& callback, Args args, ToolContext& ctx) { callback(std::move(args), ctx); };

template <class Args, class F>
concept ToolCallback =
    TakesContext<Args, F> || requires(F& callback, Args args) { callback(std::move(args)); };

template <class Args, class F>
decltype(auto) call_tool(F& callback, Args args, ToolContext& ctx) {
    if constexpr (TakesContext<Args, F>) {
        return callback(std::move(args), ctx);
    } else {
        return callback(std::move(args));
    }
}

template <class Args, class F>
consteval void check_callback() {
    static_assert(ToolCallback<Args, F>, "a tool's callable takes (Args) or (Args, ToolContext&)");
    if constexpr (ToolCallback<Args, F>) {
        using Result = decltype(call_tool<Args>(std::declval<F&>(), std::declval<Args>(),
                                                std::declval<ToolContext&>()));
        static_assert(!std::is_void_v<typename Awaited<Result>::type>,
                      "a tool returns what the model is to read, not void; one that only does "
                      "something may return std::string(\"done\")");
    }
}

// The callable of a tool is called through a function pointer, so that the code around the call is compiled once, not for each
// callable. `callback` points to the callable.

using ToolFunction = MaybeTask<AgentToolResult> (*)(void* callback, JsonObject&& arguments,
                                                    ToolContext& ctx);
using BlockingToolFunction = AgentToolResult (*)(void* callback, JsonObject&& arguments,
                                                 ToolContext& ctx);

template <class Args, class F>
MaybeTask<AgentToolResult> run_tool(void* callback, JsonObject&& arguments, ToolContext& ctx) {
    F& callable = *static_cast<F*>(callback);
    Args args = from_json<Args>(Json(std::move(arguments)));
    using Result = decltype(call_tool<Args>(callable, std::move(args), ctx));
    if constexpr (Awaited<Result>::is_task) {
        return await_tool_result(call_tool<Args>(callable, std::move(args), ctx));
    } else {
        return to_tool_result(call_tool<Args>(callable, std::move(args), ctx));
    }
}

template <class Args, class F>
AgentToolResult run_blocking_tool(void* callback, JsonObject&& arguments, ToolContext& ctx) {
    Args args = from_json<Args>(Json(std::move(arguments)));
    return to_tool_result(call_tool<Args>(*static_cast<F*>(callback), std::move(args), ctx));
}

AgentTool make_tool(std::string name, std::string description, JsonSchema schema,
                    SharedObject callback, ToolFunction function);
/// The function runs on the worker pool.
AgentTool make_blocking_tool(std::string name, std::string description, JsonSchema schema,
                             SharedObject callback, BlockingToolFunction function);

/// Returns the schema of a struct of arguments. All tools with the struct share it, so that it is written and compiled once: each turn
/// of a gateway has tools of its own.
template <class Args>
JsonSchema argument_schema() {
    static const JsonSchema schema(json_schema_of<Args>());
    return schema;
}

}  // namespace detail

/// Creates a tool from a plain struct of arguments and a callable `(Args)` or `(Args, ToolContext&)`, which returns
/// std::string, a struct, Json, AgentToolResult, or a Task of one of these. A callable that is not a coroutine runs on
/// the agent's executor and must not block; for one that blocks use `blocking_tool`.
template <class Args, class F>
AgentTool tool(std::string name, std::string description, F callback) {
    detail::check_arguments<Args>();
    detail::check_callback<Args, F>();
    return detail::make_tool(
        std::move(name), std::move(description), detail::argument_schema<Args>(),
        detail::SharedObject::make(std::move(callback)), &detail::run_tool<Args, F>);
}

/// Creates a tool whose parameters are only known at run time, for example read from a file: `parameters` is a JSON Schema of
/// an object. The callable takes `(JsonObject)` or `(JsonObject, ToolContext&)`, with valid arguments, and returns what that of
/// tool<Args>() may return.
template <class F>
AgentTool tool(std::string name, std::string description, Json parameters, F callback) {
    AgentTool made = tool<JsonObject>(std::move(name), std::move(description), std::move(callback));
    made.parameters = JsonSchema(std::move(parameters));
    return made;
}

/// Creates a tool from a callable with a parameter for each argument, by value, whose names are the template arguments:
///
///     tool<"city", "days">("forecast", "The forecast for a city.",
///                          [](std::string city, std::optional<int> days) { ... })
///
/// Those that are std::optional are not required; a default is set with
/// `.constrain("days", Constraints().default_value(3))`. The last parameter may be a ToolContext&. Otherwise like
/// tool<Args>().
template <detail::ArgumentName... names, class F>
AgentTool tool(std::string name, std::string description, F callback) {
    using Callable = detail::NamedCallable<F, names...>;
    if constexpr (Callable::check()) {
        return tool(std::move(name), std::move(description), Callable::schema(),
                    Callable(std::move(callback)));
    } else {
        return AgentTool();
    }
}

/// Like `tool`, for a callable that blocks: it runs on the worker pool and should honor `stop_token()`. It reports progress
/// with `ToolContext::report`; `ToolContext::update` must not be called from it.
template <class Args, class F>
AgentTool blocking_tool(std::string name, std::string description, F callback) {
    detail::check_arguments<Args>();
    detail::check_callback<Args, F>();
    return detail::make_blocking_tool(
        std::move(name), std::move(description), detail::argument_schema<Args>(),
        detail::SharedObject::make(std::move(callback)), &detail::run_blocking_tool<Args, F>);
}

/// Like `tool` with a JSON Schema, for a callable that blocks.
template <class F>
AgentTool blocking_tool(std::string name, std::string description, Json parameters, F callback) {
    AgentTool made =
        blocking_tool<JsonObject>(std::move(name), std::move(description), std::move(callback));
    made.parameters = JsonSchema(std::move(parameters));
    return made;
}

/// Like `tool` with named parameters, for a callable that blocks.
template <detail::ArgumentName... names, class F>
AgentTool blocking_tool(std::string name, std::string description, F callback) {
    using Callable = detail::NamedCallable<F, names...>;
    if constexpr (Callable::check()) {
        return blocking_tool(std::move(name), std::move(description), Callable::schema(),
                             Callable(std::move(callback)));
    } else {
        return AgentTool();
    }
}

/// The tools of an agent. Copies share them, and the tools advertised in a request stay unchanged when the agent's list
/// is replaced (D43).
///
/// Tool names consist of 1 to 64 characters of A-Z, a-z, 0-9, `_` and `-`, and are unique within a list. The
/// constructors and push_back() throw Error(invalid_argument) that quotes the offending name.
class ToolList {
public:
    using const_iterator = std::vector<AgentTool>::const_iterator;

    ToolList() noexcept = default;
    ToolList(std::vector<AgentTool> tools);
    ToolList(std::initializer_list<AgentTool> tools) : ToolList(std::vector<AgentTool>(tools)) {}

    const_iterator begin() const noexcept { return tools().begin(); }
    const_iterator end() const noexcept { return tools().end(); }
    std::size_t size() const noexcept { return tools().size(); }
    bool empty() const noexcept { return tools().empty(); }
    const AgentTool& operator[](std::size_t index) const noexcept { return tools()[index]; }

    /// Returns the tool with that name, or null. Valid while any copy of the list exists.
    const AgentTool* find(std::string_view name) const noexcept;
    void push_back(AgentTool tool);
    void clear() noexcept { shared_.reset(); }

    /// Returns the definitions sent to the model; null if no tool is advertised.
    const std::shared_ptr<const ToolDefinitions>& definitions() const noexcept;

private:
    struct Shared {
        std::vector<AgentTool> tools;
        std::shared_ptr<const ToolDefinitions> definitions;
    };
    const std::vector<AgentTool>& tools() const noexcept;

    std::shared_ptr<const Shared> shared_;
};

}  // namespace cubepi
