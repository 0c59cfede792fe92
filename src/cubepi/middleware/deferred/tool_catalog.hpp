#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/core/clock.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/middleware/deferred_tools.hpp>

namespace cubepi::detail {

/// The tools of a group that were loaded, as in `extra.expanded_groups`.
struct Expansion {
    std::string group_id = {};
    bool all = false;
    std::vector<std::string> names = {};
    bool has(std::string_view name) const;
    bool empty() const noexcept { return !all && names.empty(); }
};
/// In the order in which they were loaded.
using Expansions = std::vector<Expansion>;
/// Returns the expansion of a group, or null.
const Expansion* find_expansion(const Expansions& all, std::string_view group_id);

/// The groups of a middleware, and their tools as far as they are loaded. Used on one executor.
class ToolCatalog {
public:
    /// Throws Error(invalid_argument) for invalid groups.
    ToolCatalog(std::vector<DeferredToolGroup> groups, LoadedTools loaded,
                std::chrono::nanoseconds load_timeout);

    const std::vector<DeferredToolGroup>& groups() const noexcept { return groups_; }
    /// Returns the group with this id, or null.
    const DeferredToolGroup* find(std::string_view group_id) const;
    /// Returns the group that has the tool, or null.
    const DeferredToolGroup* group_of(std::string_view tool_name) const;
    /// Returns the tools of a group; calls its loader unless it has succeeded. Calls at the same time share one call of the loader.
    /// Throws what the loader throws, TimeoutError, or Error(invalid_argument) for invalid tools; again, without a call, in the
    /// same turn.
    Task<std::vector<AgentTool>> load(const DeferredToolGroup& group,
                                      std::shared_ptr<const Runtime> runtime);
    const LoadedTools& loaded() const noexcept { return loaded_; }
    /// Announces the turn whose calls follow, so that loaders that have failed before it are called again.
    void begin_turn(const std::string& run_id, std::uint32_t turn);
    /// Returns true if the group is not loaded, and its loader has failed in this run.
    bool has_failed(const std::string& group_id) const;

    /// Reads `extra.expanded_groups`. Malformed or unknown entries are left out.
    Expansions read(const Json* stored) const;
    /// Returns the list of groups for the system prompt, without those tools that are expanded. `with_names`: of the tools.
    std::string text(const std::string& header, const Expansions& expanded, bool with_names) const;

private:
    Task<std::vector<AgentTool>> call_loader(const DeferredToolGroup& group,
                                             std::shared_ptr<const Runtime> runtime);

    std::vector<DeferredToolGroup> groups_;  // sorted by group_id
    std::map<std::string, std::string, std::less<>> group_of_tool_;
    std::chrono::nanoseconds load_timeout_;
    LoadedTools loaded_;
    std::map<std::string, std::shared_ptr<AsyncEvent>> loading_;
    std::string run_id_;
    std::uint32_t turn_ = 0;
    std::set<std::string> failed_in_run_;
    std::map<std::string, std::exception_ptr> failed_in_turn_;
};

/// The names of the middleware's own tools.
inline constexpr std::string_view load_tools_name = "load_tools";
inline constexpr std::string_view search_tools_name = "search_tools";
inline constexpr std::string_view deferred_tool_call_name = "deferred_tool_call";

}  // namespace cubepi::detail
