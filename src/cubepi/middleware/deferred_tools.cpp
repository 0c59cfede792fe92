#include <cubepi/middleware/deferred_tools.hpp>

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/clock.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/timeout.hpp>
#include <cubepi/schema/json_text.hpp>

namespace cubepi::detail {

namespace {

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

bool Expansion::has(std::string_view name) const {
    return all || std::find(names.begin(), names.end(), name) != names.end();
}

/// Returns the expansion of a group, or null.
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

}  // namespace

}  // namespace cubepi::detail

namespace cubepi {

struct DeferredToolsMiddleware::State {
    State(std::vector<DeferredToolGroup> groups, DeferredToolsOptions chosen)
        : catalog(std::move(groups), std::move(chosen.loaded), chosen.load_timeout),
          options(std::move(chosen)) {}

    bool dispatches() const noexcept { return options.strategy == DeferredStrategy::dispatch; }

    detail::ToolCatalog catalog;
    DeferredToolsOptions options;
    std::string catalog_text = {};     // with `dispatch`, the same in each request
    detail::Expansions expanded = {};  // by earlier calls, for load_tools
};

namespace {

using State = DeferredToolsMiddleware::State;
using detail::Expansion;
using detail::Expansions;

constexpr std::string_view state_key = "expanded_groups";
constexpr std::size_t most_matches = 5;

constexpr std::string_view dispatch_header =
    "More tools are available in groups. Their definitions are not loaded yet: `load_tools` "
    "returns those of a group, "
    "and `deferred_tool_call` then calls one of them by its name.";
constexpr std::string_view inject_header =
    "More tools are available in groups, which `load_tools` adds to your tools.";

struct LoadArgs {
    std::string group_id;
    std::optional<std::vector<std::string>> tool_names;
};
struct SearchArgs {
    std::string query;
};
struct DispatchArgs {
    std::string tool_name;
    std::optional<JsonObject> arguments;
};

AgentTool shown(AgentTool tool, const State& state) {
    tool.expose_to_model = !state.dispatches();
    return tool;
}

/// Adds the tools that are named to the run.
void add(const State& state, RunAccount& account, const std::vector<AgentTool>& tools,
         const Expansion& chosen) {
    std::vector<AgentTool> added;
    for (const AgentTool& tool : tools) {
        if (chosen.has(tool.name.str())) added.push_back(shown(tool, state));
    }
    account.add_tools(added);
}

Json definition(const AgentTool& tool) {
    return JsonObject{{"description", tool.description.str()},
                      {"name", tool.name.str()},
                      {"parameters", tool.parameters.source()}};
}

/// The result of load_tools, in CubePi's form: the members are sorted.
AgentToolResult loaded_result(const std::string& group_id, Json error, JsonArray names,
                              std::size_t remaining, Json schemas) {
    const bool failed = !error.is_null();
    JsonObject result{{"error", std::move(error)},     {"expanded", !failed},
                      {"group_id", group_id},          {"remaining", remaining},
                      {"schemas", std::move(schemas)}, {"tool_names", std::move(names)}};
    AgentToolResult made(json_text(Json(std::move(result))));
    made.is_error = failed;
    return made;
}

AgentToolResult not_loaded(const LoadArgs& args, std::size_t remaining, std::string reason) {
    return loaded_result(args.group_id, Json(reason), JsonArray(), remaining, nullptr);
}

std::string names_of_groups(const State& state) {
    std::string names;
    for (const DeferredToolGroup& group : state.catalog.groups())
        names += (names.empty() ? "" : ", ") + group.group_id;
    return names;
}

Task<AgentToolResult> load_group(std::shared_ptr<State> state, LoadArgs args,
                                 ToolContext& context) {
    const DeferredToolGroup* const group = state->catalog.find(args.group_id);
    if (!group) {
        co_return not_loaded(
            args, 0,
            "unknown group '" + args.group_id + "'; there are: " + names_of_groups(*state));
    }
    Task<std::vector<AgentTool>> loading = state->catalog.load(*group, context.shared_runtime());
    Outcome<std::vector<AgentTool>> outcome = co_await outcome_of(std::move(loading));
    if (outcome.cancelled()) outcome.rethrow();
    if (!outcome.ok()) {
        co_return not_loaded(args, group->tool_names.size(),
                             "the tools could not be loaded: " + exception_text(outcome.failure()));
    }
    const std::vector<AgentTool> tools = std::move(outcome).value();
    Expansion chosen;
    chosen.all = !args.tool_names.has_value();
    if (args.tool_names) chosen.names = *args.tool_names;
    JsonArray names;
    JsonArray schemas;
    for (const AgentTool& tool : tools) {
        if (!chosen.has(tool.name.str())) continue;
        names.emplace_back(tool.name.str());
        if (state->dispatches()) schemas.push_back(definition(tool));
    }
    if (names.empty()) {
        std::string all;
        for (const AgentTool& tool : tools) all += (all.empty() ? "" : ", ") + tool.name.str();
        co_return not_loaded(args, group->tool_names.size(),
                             "the group has none of these tools; it has: " + all);
    }
    if (context.account()) add(*state, *context.account(), tools, chosen);
    const Expansion* const earlier = detail::find_expansion(state->expanded, group->group_id);
    const auto remaining = static_cast<std::size_t>(std::count_if(
        group->tool_names.begin(), group->tool_names.end(), [&](const std::string& name) {
            return !chosen.has(name) && !(earlier && earlier->has(name));
        }));
    Json sent = state->dispatches() ? Json(std::move(schemas)) : Json(nullptr);
    co_return loaded_result(args.group_id, nullptr, std::move(names), remaining, std::move(sent));
}

std::vector<std::string> words_of(const std::string& text) {
    std::vector<std::string> words(1);
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if (std::isalnum(byte) || byte >= 0x80) {
            words.back() += static_cast<char>(std::tolower(byte));
        } else if (!words.back().empty()) {
            words.emplace_back();
        }
    }
    if (words.back().empty()) words.pop_back();
    return words;
}

struct Match {
    std::size_t score;
    std::string group_id;
    AgentTool tool;
};

/// Returns how well a tool matches: words in its name count most.
std::size_t score_of(const std::vector<std::string>& words, const DeferredToolGroup& group,
                     const AgentTool& tool) {
    const auto joined = [](const std::string& text) {
        std::string all;
        for (const std::string& word : words_of(text)) all += " " + word;
        return all;
    };
    const std::string name = joined(tool.name.str());
    const std::string text = joined(tool.description.str());
    const std::string about =
        joined(group.group_id + " " + group.display_name + " " + group.description);
    std::size_t score = 0;
    for (const std::string& word : words) {
        if (name.find(word) != std::string::npos) score += 4;
        if (text.find(word) != std::string::npos) score += 2;
        if (about.find(word) != std::string::npos) score += 1;
    }
    return score;
}

/// A group that cannot be loaded is named, and does not hide the others.
Task<AgentToolResult> search(std::shared_ptr<State> state, SearchArgs args, ToolContext& context) {
    const std::vector<std::string> words = words_of(args.query);
    std::vector<Match> matches;
    JsonArray failed;
    for (const DeferredToolGroup& group : state->catalog.groups()) {
        Task<std::vector<AgentTool>> loading = state->catalog.load(group, context.shared_runtime());
        Outcome<std::vector<AgentTool>> outcome = co_await outcome_of(std::move(loading));
        if (outcome.cancelled()) outcome.rethrow();
        if (!outcome.ok()) {
            failed.emplace_back(group.group_id + ": " + exception_text(outcome.failure()));
            continue;
        }
        const std::vector<AgentTool> tools = std::move(outcome).value();
        for (const AgentTool& tool : tools) {
            const std::size_t score = score_of(words, group, tool);
            if (score > 0) matches.push_back(Match{score, group.group_id, tool});
        }
    }
    std::sort(matches.begin(), matches.end(), [](const Match& a, const Match& b) {
        return a.score != b.score ? a.score > b.score : a.tool.name.str() < b.tool.name.str();
    });
    const std::size_t found = matches.size();
    if (matches.size() > most_matches) matches.erase(matches.begin() + most_matches, matches.end());
    JsonArray listed;
    for (const Match& match : matches) {
        JsonObject one = definition(match.tool).as_object();
        if (!state->dispatches()) one.erase("parameters");
        one["group_id"] = match.group_id;
        listed.emplace_back(std::move(one));
    }
    JsonObject result{{"found", found}, {"tools", std::move(listed)}};
    if (!failed.empty()) result["failed_groups"] = std::move(failed);
    co_return AgentToolResult(json_text(Json(std::move(result))));
}

AgentTool load_tool(const std::shared_ptr<State>& state) {
    return tool<LoadArgs>(std::string(detail::load_tools_name),
                          "Loads a group of tools that the system prompt lists.",
                          [state](LoadArgs args, ToolContext& context) {
                              return load_group(state, std::move(args), context);
                          })
        .describe("group_id", "The id of the group.")
        .describe("tool_names", "The tools to load; all of the group if it is left out.")
        .risk(ToolRisk::read_only)
        .replay(ReplayPolicy::idempotent);
}

AgentTool search_tool(const std::shared_ptr<State>& state) {
    return tool<SearchArgs>(std::string(detail::search_tools_name),
                            "Searches the names and descriptions of all tools that are not loaded "
                            "yet, and returns those that match best.",
                            [state](SearchArgs args, ToolContext& context) {
                                return search(state, std::move(args), context);
                            })
        .describe("query", "Words to search for.")
        .risk(ToolRisk::read_only)
        .replay(ReplayPolicy::idempotent);
}

/// Runs only if the call was not resolved to a tool. It has no effect, so it may be repeated; whether the call may, decides the
/// tool to which it resolves (D104).
AgentTool dispatch_tool(const std::shared_ptr<State>& state) {
    return tool<DispatchArgs>(
               std::string(detail::deferred_tool_call_name),
               "Calls a tool of a group by its name, with the arguments that its "
               "definition describes.",
               [state](DispatchArgs args) {
                   std::string names;
                   for (const DeferredToolGroup& group : state->catalog.groups()) {
                       for (const std::string& name : group.tool_names)
                           names += (names.empty() ? "" : ", ") + name;
                   }
                   return AgentToolResult::error("There is no tool '" + args.tool_name +
                                                 "' in a group; there are: " + names);
               })
        .describe("tool_name", "The name of the tool.")
        .describe("arguments", "The arguments of the tool.")
        .risk(ToolRisk::read_only)
        .replay(ReplayPolicy::idempotent);
}

/// Returns the call that a call of deferred_tool_call stands for; empty if it names no tool, or its arguments are not an object.
std::optional<ToolCall> inner_call(const State& state, const ToolCall& call) {
    if (call.extra.find("raw_arguments")) return std::nullopt;
    const Json* const name = call.arguments.if_contains("tool_name");
    const Json* const arguments = call.arguments.if_contains("arguments");
    if (!name || !name->is_string()) return std::nullopt;
    if (arguments && !arguments->is_object() && !arguments->is_null()) return std::nullopt;
    const std::string tool_name(name->get_string());
    if (!state.catalog.group_of(tool_name)) return std::nullopt;
    ToolCall inner = call;
    inner.name = tool_name;
    inner.arguments = arguments && arguments->is_object() ? arguments->get_object() : JsonObject();
    return inner;
}

/// Stores in `extra.expanded_groups` that these tools of a group are loaded: all, or those with the names. If that is new, the next
/// request has more tools with `inject`.
void note_loaded(const State& state, const HookContext& context, const DeferredToolGroup& group,
                 const JsonArray* names) {
    const Json* const stored = context.extra.if_contains(state_key);
    const Expansions before = state.catalog.read(stored);
    const Expansion* const earlier = detail::find_expansion(before, group.group_id);
    Json entry;
    if (names && !(earlier && earlier->all)) {
        Expansion after = earlier ? *earlier : Expansion();
        for (const std::string& name : group.tool_names) {
            const bool is_asked =
                std::find(names->begin(), names->end(), Json(name)) != names->end();
            if (is_asked && !after.has(name)) after.names.push_back(name);
        }
        JsonArray& list = entry.emplace_array();
        for (const std::string& name : after.names) list.emplace_back(name);
    }
    JsonObject all;
    if (stored && stored->is_object()) all = stored->get_object();
    all[group.group_id] = std::move(entry);
    if (stored && *stored == Json(all)) return;
    context.extra[state_key] = std::move(all);
    if (!state.dispatches()) context.account->expect_prefix_break();
}

bool is_advertised(const HookContext& context, std::string_view name) {
    if (!context.request || !context.request->tools) return false;
    const ToolDefinitions& tools = *context.request->tools;
    return std::any_of(tools.begin(), tools.end(),
                       [name](const ToolDefinition& tool) { return tool.name.str() == name; });
}

}  // namespace

DeferredToolsMiddleware::DeferredToolsMiddleware(std::vector<DeferredToolGroup> groups,
                                                 DeferredToolsOptions options)
    : state_(std::make_shared<State>(std::move(groups), std::move(options))) {
    if (state_->options.catalog_header.empty())
        state_->options.catalog_header = state_->dispatches() ? dispatch_header : inject_header;
    state_->catalog_text = state_->catalog.text(state_->options.catalog_header, Expansions(),
                                                state_->options.lists_names);
    tools.push_back(load_tool(state_));
    if (state_->options.with_search) tools.push_back(search_tool(state_));
    if (state_->dispatches()) tools.push_back(dispatch_tool(state_));
}

Task<std::string> DeferredToolsMiddleware::transform_system_prompt(std::string prompt,
                                                                   HookContext& context) {
    std::string text = state_->catalog_text;
    state_->catalog.begin_turn(context.run_id, context.turn);
    if (!state_->dispatches()) {
        Expansions expanded;
        for (Expansion& one : state_->catalog.read(context.extra.if_contains(state_key))) {
            const DeferredToolGroup& group = *state_->catalog.find(one.group_id);
            // Each call of the model would wait for it.
            if (state_->catalog.has_failed(group.group_id)) continue;
            Task<std::vector<AgentTool>> loading = state_->catalog.load(group, context.runtime);
            Outcome<std::vector<AgentTool>> outcome = co_await outcome_of(std::move(loading));
            if (outcome.cancelled()) outcome.rethrow();
            // Otherwise it is listed as not loaded, so that the model can try again.
            if (!outcome.ok()) continue;
            const std::vector<AgentTool> loaded = std::move(outcome).value();
            add(*state_, *context.account, loaded, one);
            expanded.push_back(std::move(one));
        }
        text = state_->catalog.text(state_->options.catalog_header, expanded,
                                    state_->options.lists_names);
    }
    if (text.empty()) co_return prompt;
    if (!prompt.empty()) prompt += "\n\n";
    co_return prompt + text;
}

Task<std::optional<ToolCall>> DeferredToolsMiddleware::resolve_tool_call(ToolCall call,
                                                                         HookContext& context) {
    std::optional<ToolCall> resolved;
    if (call.name.str() == detail::load_tools_name)
        state_->expanded = state_->catalog.read(context.extra.if_contains(state_key));
    const bool is_dispatch =
        state_->dispatches() && call.name.str() == detail::deferred_tool_call_name;
    if (is_dispatch) resolved = inner_call(*state_, call);
    const std::string name = resolved ? resolved->name.str() : call.name.str();
    const DeferredToolGroup* const group = state_->catalog.group_of(name);
    if (!group || is_advertised(context, name)) co_return resolved;
    // A prompt whose tools do not include those of this middleware has no deferred tools either.
    const std::string_view way =
        is_dispatch ? detail::deferred_tool_call_name : detail::load_tools_name;
    if (context.request && !is_advertised(context, way)) co_return std::nullopt;
    state_->catalog.begin_turn(context.run_id, context.turn);
    Task<std::vector<AgentTool>> loading = state_->catalog.load(*group, context.runtime);
    const std::vector<AgentTool> loaded = co_await std::move(loading);
    Expansion chosen;
    chosen.names.push_back(name);
    add(*state_, *context.account, loaded, chosen);
    const JsonArray names(1, Json(name));
    if (!state_->dispatches()) note_loaded(*state_, context, *group, &names);
    co_return resolved;
}

/// Stores what load_tools has loaded: the tool itself has no access to the state of the thread.
std::optional<AfterToolCallResult> DeferredToolsMiddleware::after_tool_call(
    AfterToolCallContext& call) {
    if (call.tool_call.name.str() != detail::load_tools_name || call.is_error || call.blocked)
        return std::nullopt;
    const Json* const id = call.args.if_contains("group_id");
    const DeferredToolGroup* const group =
        id && id->is_string() ? state_->catalog.find(std::string(id->get_string())) : nullptr;
    if (!group) return std::nullopt;
    const Json* const asked = call.args.if_contains("tool_names");
    note_loaded(*state_, call.context, *group, asked ? asked->if_array() : nullptr);
    return std::nullopt;
}

Task<ResumedState> prepare_resumed_state(std::vector<DeferredToolGroup> groups, Json expanded,
                                         DeferredStrategy strategy) {
    detail::ToolCatalog catalog(std::move(groups), LoadedTools(), std::chrono::hours(1));
    const Expansions read = catalog.read(&expanded);
    const bool dispatches = strategy == DeferredStrategy::dispatch;
    ResumedState state;
    for (const DeferredToolGroup& group : catalog.groups()) {
        const Expansion* const loaded = detail::find_expansion(read, group.group_id);
        if (dispatches || !loaded || !loaded->all) state.remaining_groups.push_back(group);
        if (!loaded) continue;
        std::vector<AgentTool> tools = co_await group.loader();
        for (const AgentTool& tool : tools) {
            const std::string& name = tool.name.str();
            if (catalog.group_of(name) != &group || !loaded->has(name)) continue;
            AgentTool& added = state.pre_loaded_tools.emplace_back(tool);
            added.expose_to_model = !dispatches;
        }
        state.loader_cache[group.group_id] = std::move(tools);
    }
    co_return state;
}

}  // namespace cubepi
