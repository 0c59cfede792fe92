#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <cubepi/agent/middleware.hpp>
#include <cubepi/agent/tool.hpp>
#include <cubepi/core/json.hpp>
#include <cubepi/core/task.hpp>

namespace cubepi {

/// Tools whose definitions the model gets when it needs them, such as those of one server.
struct DeferredToolGroup {
    std::string group_id;
    std::string display_name;
    std::string description;
    std::vector<std::string> tool_names;
    /// Returns the tools. Called at most once while it succeeds; tools that are not named above are ignored.
    std::function<Task<std::vector<AgentTool>>()> loader;
};

/// How the model calls a tool that was loaded.
enum class DeferredStrategy : std::uint8_t {
    /// With `deferred_tool_call`: the requests' tools and system prompt never change, so a prompt cache stays valid.
    dispatch,
    /// As its other tools, which the loaded ones are added to: each load makes the endpoint read the whole prompt again.
    inject,
};

/// The tools of groups, by group_id, as their loaders returned them.
using LoadedTools = std::map<std::string, std::vector<AgentTool>>;

struct DeferredToolsOptions {
    DeferredStrategy strategy = DeferredStrategy::dispatch;
    std::string catalog_header =
        {};                   ///< the first line of the list of groups; empty: a default one
    LoadedTools loaded = {};  ///< groups whose loaders are not called
    /// Of one loader. The call that needs its tools then has an error result.
    std::chrono::nanoseconds load_timeout = std::chrono::seconds(30);
    bool with_search = true;  ///< adds the tool `search_tools`
    /// The system prompt lists the names of the tools. Without them it has no words of those who name the tools, such as a server.
    bool lists_names = true;
};

/// Middleware that lists groups of tools in the system prompt, and adds tools with which the model loads them: `load_tools` returns the
/// definitions of a group, `search_tools` those that match words, and `deferred_tool_call` calls one (D122).
///
/// A call of a deferred tool is resolved to that tool before its arguments are checked, so validation, approval policies, other
/// hooks, events and traces see the tool itself. What was loaded is in `extra.expanded_groups`, as in CubePi: a group and null for
/// all of it, or the names of some. Another process that continues the thread loads it again when it is needed.
///
/// A tool that the agent advertises itself takes precedence over a deferred one with the same name. Copies share their state;
/// one object is used by one agent.
class DeferredToolsMiddleware {
public:
    /// Throws Error(invalid_argument) for a group without id or loader, and for an id or the name of one of its own tools that
    /// occurs twice. Of two groups with the same tool, the last one has it.
    explicit DeferredToolsMiddleware(std::vector<DeferredToolGroup> groups,
                                     DeferredToolsOptions options = {});

    Task<std::string> transform_system_prompt(std::string prompt, HookContext& context);
    Task<std::optional<ToolCall>> resolve_tool_call(ToolCall call, HookContext& context);
    std::optional<AfterToolCallResult> after_tool_call(AfterToolCallContext& call);

    std::vector<AgentTool> tools;

    struct State;

private:
    std::shared_ptr<State> state_;
};

/// The tools that a process which continues a thread may load before its first request.
struct ResumedState {
    std::vector<AgentTool> pre_loaded_tools;  ///< for AgentOptions::tools; hidden with `dispatch`
    std::vector<DeferredToolGroup> remaining_groups;  ///< for DeferredToolsMiddleware
    LoadedTools loader_cache;                         ///< for DeferredToolsOptions::loaded
};

/// Loads what `expanded`, the stored `extra.expanded_groups`, names. Optional: without it the middleware loads tools when they are
/// needed. Malformed entries are ignored; throws the exception of a loader.
Task<ResumedState> prepare_resumed_state(std::vector<DeferredToolGroup> groups, Json expanded,
                                         DeferredStrategy strategy = DeferredStrategy::dispatch);

}  // namespace cubepi
