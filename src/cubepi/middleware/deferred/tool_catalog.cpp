#include <cubepi/middleware/deferred/tool_catalog.hpp>

#include <algorithm>
#include <array>
#include <utility>

#include <cubepi/core/error.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/timeout.hpp>

namespace cubepi::detail {

namespace {

void check(const std::vector<DeferredToolGroup>& groups) {
    constexpr std::array<std::string_view, 3> own{load_tools_name, search_tools_name,
                                                  deferred_tool_call_name};
    for (std::size_t i = 0; i < groups.size(); ++i) {
        const DeferredToolGroup& group = groups[i];
        const std::string what = "the group of deferred tools '" + group.group_id + "'";
        if (group.group_id.empty() || !group.loader)
            throw Error(ErrorCode::invalid_argument, what + " needs an id and a loader");
        if (i > 0 && groups[i - 1].group_id == group.group_id)
            throw Error(ErrorCode::invalid_argument, what + " exists twice");
        for (const std::string& name : group.tool_names) {
            if (std::find(own.begin(), own.end(), name) != own.end())
                throw Error(ErrorCode::invalid_argument,
                            what + " has a tool '" + name + "', which the middleware has itself");
        }
    }
}

std::vector<AgentTool> named(std::vector<AgentTool> tools, const DeferredToolGroup& group) {
    std::vector<AgentTool> found;
    for (const std::string& name : group.tool_names) {
        const auto at = std::find_if(tools.begin(), tools.end(), [&](const AgentTool& tool) {
            return tool.name.str() == name;
        });
        if (at != tools.end()) found.push_back(*at);
    }
    (void)ToolList(found);  // throws for invalid names
    return found;
}

}  // namespace

bool Expansion::has(std::string_view name) const {
    return all || std::find(names.begin(), names.end(), name) != names.end();
}

const Expansion* find_expansion(const Expansions& all, std::string_view group_id) {
    const auto at = std::find_if(all.begin(), all.end(), [&](const Expansion& expansion) {
        return expansion.group_id == group_id;
    });
    return at == all.end() ? nullptr : &*at;
}

ToolCatalog::ToolCatalog(std::vector<DeferredToolGroup> groups, LoadedTools loaded,
                         std::chrono::nanoseconds load_timeout)
    : groups_(std::move(groups)), load_timeout_(load_timeout) {
    for (const DeferredToolGroup& group : groups_) {
        for (const std::string& name : group.tool_names) group_of_tool_[name] = group.group_id;
    }
    std::sort(groups_.begin(), groups_.end(),
              [](const DeferredToolGroup& a, const DeferredToolGroup& b) {
                  return a.group_id < b.group_id;
              });
    check(groups_);
    for (auto& [id, tools] : loaded) {
        if (const DeferredToolGroup* group = find(id))
            loaded_[id] = named(std::move(tools), *group);
    }
}

const DeferredToolGroup* ToolCatalog::find(std::string_view group_id) const {
    const auto at = std::find_if(groups_.begin(), groups_.end(),
                                 [&](const auto& group) { return group.group_id == group_id; });
    return at == groups_.end() ? nullptr : &*at;
}

const DeferredToolGroup* ToolCatalog::group_of(std::string_view tool_name) const {
    const auto at = group_of_tool_.find(tool_name);
    return at == group_of_tool_.end() ? nullptr : find(at->second);
}

Task<std::vector<AgentTool>> ToolCatalog::call_loader(const DeferredToolGroup& group,
                                                      std::shared_ptr<const Runtime> runtime) {
    Task<std::vector<AgentTool>> loading = group.loader();
    Task<std::vector<AgentTool>> limited = with_timeout(
        *runtime->clock, load_timeout_, std::move(loading), "loader of " + group.group_id);
    std::vector<AgentTool> tools = co_await std::move(limited);
    co_return named(std::move(tools), group);
}

Task<std::vector<AgentTool>> ToolCatalog::load(const DeferredToolGroup& group,
                                               std::shared_ptr<const Runtime> runtime) {
    for (;;) {
        if (const auto at = loaded_.find(group.group_id); at != loaded_.end()) co_return at->second;
        const auto failed = failed_in_turn_.find(group.group_id);
        if (failed != failed_in_turn_.end()) std::rethrow_exception(failed->second);
        const auto other = loading_.find(group.group_id);
        if (other == loading_.end()) break;
        // If that call is aborted, the next one calls the loader.
        const std::shared_ptr<AsyncEvent> ended = other->second;
        co_await ended->wait();
    }
    struct Loading {
        ToolCatalog& catalog;
        const std::string& id;
        std::shared_ptr<AsyncEvent> ended = std::make_shared<AsyncEvent>();
        ~Loading() {
            catalog.loading_.erase(id);
            ended->set();
        }
    };
    const Loading loading{*this, group.group_id};
    loading_.emplace(group.group_id, loading.ended);
    Task<std::vector<AgentTool>> calling = call_loader(group, std::move(runtime));
    Outcome<std::vector<AgentTool>> tools = co_await outcome_of(std::move(calling));
    if (!tools.ok() && !tools.cancelled()) {
        failed_in_run_.insert(group.group_id);
        failed_in_turn_[group.group_id] = tools.failure();
    }
    loaded_[group.group_id] = tools.value();
    co_return std::move(tools).value();
}

void ToolCatalog::begin_turn(const std::string& run_id, std::uint32_t turn) {
    if (run_id_ == run_id && turn_ == turn) return;
    if (run_id_ != run_id) failed_in_run_.clear();
    failed_in_turn_.clear();
    run_id_ = run_id;
    turn_ = turn;
}

bool ToolCatalog::has_failed(const std::string& group_id) const {
    return failed_in_run_.contains(group_id) && !loaded_.contains(group_id);
}

Expansions ToolCatalog::read(const Json* stored) const {
    Expansions expanded;
    const JsonObject* const object = stored ? stored->if_object() : nullptr;
    if (!object) return expanded;
    for (const auto& [id, entry] : *object) {
        const DeferredToolGroup* const group = find(std::string_view(id));
        if (!group) continue;
        Expansion found;
        found.group_id = group->group_id;
        found.all = entry.is_null();
        if (const JsonArray* names = entry.if_array()) {
            for (const Json& name : *names) {
                if (!name.is_string()) continue;
                const std::string text(name.get_string());
                if (group_of(text) == group && !found.has(text)) found.names.push_back(text);
            }
        }
        if (!found.empty()) expanded.push_back(std::move(found));
    }
    return expanded;
}

std::string ToolCatalog::text(const std::string& header, const Expansions& expanded,
                              bool with_names) const {
    std::string lines;
    for (const DeferredToolGroup& group : groups_) {
        const Expansion* const loaded = find_expansion(expanded, group.group_id);
        std::string names;
        std::size_t count = 0;
        for (const std::string& name : group.tool_names) {
            if (loaded && loaded->has(name)) continue;
            names += (names.empty() ? "" : ", ") + name;
            ++count;
        }
        if (count == 0 && !group.tool_names.empty()) continue;
        lines += "\n- `" + group.group_id + "`: " + group.display_name + ". " + group.description +
                 " (" + std::to_string(count) +
                 (count < group.tool_names.size() ? " more tools)" : " tools)");
        if (with_names) lines += "\n  " + names;
    }
    return lines.empty() ? std::string() : header + "\n" + lines;
}

}  // namespace cubepi::detail
