#include <cubepi/middleware/deferred_tools.hpp>

#include <algorithm>
#include <cctype>
#include <utility>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/middleware/deferred/tool_catalog.hpp>
#include <cubepi/schema/json_text.hpp>

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
