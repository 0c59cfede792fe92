#include <algorithm>
#include <cstdio>
#include <set>
#include <utility>

#include <bub/builtin/turn/agent_turn.hpp>
#include <cubepi/schema/json_text.hpp>
#include <cubepi/workspace/standard_tools.hpp>

namespace bub::detail {

namespace {

using cubepi::AgentTool;
using cubepi::ToolRisk;

struct NoArgs {};

struct SkillArgs {
    std::optional<std::string> name;
};

struct SearchArgs {
    std::string query;
    std::optional<std::int64_t> limit;
    std::optional<std::string> start;
    std::optional<std::string> end;
    std::optional<std::vector<std::string>> kinds;
};

struct HandoffArgs {
    std::string name = "handoff";
    std::optional<std::string> summary;
};

struct ResetArgs {
    std::optional<bool> archive;
};

struct ModelArgs {
    std::optional<std::string> model_id;
    std::optional<bool> force;
};

struct EffortArgs {
    std::string reasoning_effort;
};

constexpr std::size_t longest_anchor_name = 200;

/// Begins what tape_search answers.
constexpr std::string_view search_mark = "[tape.search]:";

std::string number_or_none(const std::optional<std::int64_t>& value) {
    return value ? std::to_string(*value) : "None";
}

std::string info_text(const std::string& name, const TapeInfo& info) {
    std::string rate = "None";
    if (info.last_token_cache_hit_rate) {
        char text[32];
        std::snprintf(text, sizeof text, "%.2f%%", *info.last_token_cache_hit_rate * 100);
        rate = text;
    }
    return "name: " + name + "\nentries: " + std::to_string(info.entries) +
           "\nanchors: " + std::to_string(info.anchors) +
           "\nlast_anchor: " + info.last_anchor.value_or("None") +
           "\nentries_since_last_anchor: " + std::to_string(info.entries_since_last_anchor) +
           "\nlast_token_usage: " + number_or_none(info.last_token_usage) +
           "\nlast_token_cache_hit_rate: " + rate;
}

Task<std::string> tape_info(Tape tape) {
    const TapeInfo info = co_await tape.info();
    co_return info_text(tape.name(), info);
}

Task<std::string> tape_anchors(Tape tape) {
    const std::vector<TapeAnchor> anchors = co_await tape.anchors();
    std::string text;
    for (const TapeAnchor& anchor : anchors) text += (text.empty() ? "- " : "\n- ") + anchor.name;
    co_return text.empty() ? std::string("(no anchors)") : text;
}

Task<std::string> tape_search(Tape tape, SearchArgs args) {
    TapeSearch search;
    search.text = args.query;
    const std::int64_t wanted = args.limit.value_or(20);
    search.limit = static_cast<std::size_t>(wanted < 1 ? 1 : wanted);
    search.from = args.start.value_or("");
    search.to = args.end.value_or("");
    std::vector<std::string> default_kinds = {"message", "tool_result"};
    search.kinds = args.kinds ? *args.kinds : std::move(default_kinds);
    std::vector<TapeEntry> found = co_await tape.search(std::move(search));
    // Results of earlier searches are excluded.
    const std::size_t all = found.size();
    const auto is_search = [](const TapeEntry& entry) {
        return boost::json::serialize(entry.payload).find(search_mark) != std::string::npos;
    };
    std::erase_if(found, is_search);
    std::string text = std::string(search_mark) + " " + std::to_string(found.size()) +
                       " matches (" + std::to_string(all - found.size()) + " filtered)";
    for (const TapeEntry& entry : found) {
        JsonObject line;
        line["date"] = entry.date;
        line["content"] = entry.payload;
        text += "\n" + cubepi::json_text(line);
    }
    co_return text;
}

Task<std::string> tape_handoff(Tape tape, HandoffArgs args) {
    const auto is_control = [](char c) { return (c >= 0 && c < ' ') || c == 0x7F; };
    if (args.name.size() > longest_anchor_name ||
        std::any_of(args.name.begin(), args.name.end(), is_control)) {
        throw cubepi::Error(cubepi::ErrorCode::invalid_argument,
                            "the name of a hand-off is one line of at most " +
                                std::to_string(longest_anchor_name) + " bytes");
    }
    JsonObject state;
    if (args.summary && !args.summary->empty()) state["summary"] = *args.summary;
    std::optional<JsonObject> given(std::move(state));
    co_await tape.handoff(args.name, std::move(given));
    co_return "anchor added: " + args.name;
}

Task<std::string> tape_reset(std::shared_ptr<BuiltinCore> core, Tape tape, ResetArgs args) {
    TapeReset how;
    if (args.archive.value_or(false))
        how.archive_directory = (core->options().home / "archive").string();
    const TapeInfo before = co_await tape.info();
    const std::string archived = co_await tape.reset(std::move(how));
    const std::string entries =
        std::to_string(before.entries) + (before.entries == 1 ? " entry" : " entries");
    co_return archived.empty() ? "Removed " + entries + "." : "Archived: " + archived;
}

/// Returns the skills allowed for a sub-agent, from the state of its turn; nothing: all.
std::optional<std::set<std::string>> allowed_skills(const TurnState& state) {
    const Json* list = state.values.if_contains("allowed_skills");
    if (!list || !list->is_array()) return std::nullopt;
    std::set<std::string> names;
    for (const Json& name : list->get_array()) {
        if (name.is_string()) names.emplace(name.get_string());
    }
    return names;
}

Task<std::string> show_skill(std::shared_ptr<BuiltinCore> core, TurnState* state, SkillArgs args) {
    std::filesystem::path directory = core->workspace_of(*state);
    std::vector<Skill> skills = co_await core->skills(std::move(directory));
    if (const auto allowed = allowed_skills(*state)) {
        const bool known =
            args.name && std::any_of(skills.begin(), skills.end(),
                                     [&](const Skill& one) { return one.name == *args.name; });
        if (known && !allowed->contains(*args.name)) {
            co_return "(the skill " + *args.name + " is not allowed here)";
        }
        std::erase_if(skills, [&](const Skill& one) { return !allowed->contains(one.name); });
    }
    if (!args.name || args.name->empty()) {
        std::string list;
        for (const Skill& skill : skills) {
            list += (list.empty() ? "- " : "\n- ") + skill.name + ": " + skill.description;
        }
        co_return list.empty() ? std::string("(no skills)") : list;
    }
    for (const Skill& skill : skills) {
        if (skill.name != *args.name) continue;
        const std::string body = skill.body.empty() ? std::string("(no content)") : skill.body;
        co_return "Location: " + skill.location.string() + "\n---\n" + body;
    }
    co_return std::string("(no such skill)");
}

/// Lists the models of the options and marks that of this turn.
std::string listed_models(const BuiltinOptions& options, const TurnState& state) {
    std::vector<std::string> ids;
    if (options.model) ids.push_back(options.model.spec().id);
    ids.insert(ids.end(), options.other_models.begin(), options.other_models.end());
    std::string current = state.text("model");
    if (current.empty() && !ids.empty()) current = ids.front();
    if (std::find(ids.begin(), ids.end(), current) == ids.end()) ids.push_back(current);
    std::string text = "Models:";
    for (const std::string& id : ids) text += (id == current ? "\n* " : "\n  ") + id;
    return text + "\nChoose one: ,model ID";
}

Task<std::string> choose_model(std::shared_ptr<BuiltinCore> core, Tape tape, TurnState* state,
                               ModelArgs args) {
    const BuiltinOptions& options = core->options();
    const std::string id = args.model_id.value_or("");
    if (id.empty()) {
        if (!options.list_models) co_return listed_models(options, *state);
        co_return co_await options.list_models();
    }
    JsonObject data;
    if (options.choose_model) {
        data = co_await options.choose_model(id, args.force.value_or(false));
    } else {
        data["model"] = id;
    }
    state->values["model"] = id;
    TapeEntry entry = event_entry("model_switch", std::move(data));
    (void)co_await tape.append(std::move(entry));
    co_return "Session model set to " + id + " (applies from the next turn).";
}

Task<std::string> choose_effort(Tape tape, TurnState* state, EffortArgs args) {
    bool known = false;
    for (const std::string_view effort : {"minimal", "low", "medium", "high", "max"}) {
        known = known || args.reasoning_effort == effort;
    }
    if (!known) {
        throw cubepi::Error(cubepi::ErrorCode::invalid_argument,
                            "reasoning_effort is one of minimal, low, medium, high, max");
    }
    state->values["reasoning_effort"] = args.reasoning_effort;
    JsonObject data;
    data["reasoning_effort"] = args.reasoning_effort;
    TapeEntry entry = event_entry("reasoning_effort_switch", std::move(data));
    (void)co_await tape.append(std::move(entry));
    co_return "Session reasoning effort set to " + args.reasoning_effort +
        " (applies from the next turn).";
}

void add_tape_tools(std::vector<AgentTool>& tools, const std::shared_ptr<BuiltinCore>& core,
                    const Tape& tape) {
    tools.push_back(cubepi::tool<NoArgs>("tape_info", "Says how long this conversation's tape is.",
                                         [tape](NoArgs) { return tape_info(tape); })
                        .risk(ToolRisk::read_only));
    tools.push_back(
        cubepi::tool<NoArgs>("tape_anchors", "Lists the last anchors of the tape.", [tape](NoArgs) {
            return tape_anchors(tape);
        }).risk(ToolRisk::read_only));
    tools.push_back(cubepi::tool<SearchArgs>(
                        "tape_search",
                        "Searches the messages and tool calls of this conversation, also "
                        "before the last hand-off.",
                        [tape](SearchArgs args) { return tape_search(tape, std::move(args)); })
                        .risk(ToolRisk::read_only));
    tools.push_back(cubepi::tool<HandoffArgs>(
                        "tape_handoff",
                        "Begins a new chapter: what came before is left out of the context from "
                        "now on, except for the summary given here.",
                        [tape](HandoffArgs args) { return tape_handoff(tape, std::move(args)); })
                        .risk(ToolRisk::read_only));
    tools.push_back(cubepi::tool<ResetArgs>(
                        "tape_reset", "Empties the tape of this conversation.",
                        [core, tape](ResetArgs args) { return tape_reset(core, tape, args); })
                        .risk(ToolRisk::irreversible)
                        .hidden());
}

}  // namespace

std::vector<AgentTool> session_tools(std::shared_ptr<BuiltinCore> core, Tape tape,
                                     std::string session_id, TurnState& state) {
    std::vector<AgentTool> tools;
    add_tape_tools(tools, core, tape);
    TurnState* const turn = &state;
    tools.push_back(cubepi::tool<SkillArgs>("skill", "Shows a skill, or lists all of them.",
                                            [core, turn](SkillArgs args) {
                                                return show_skill(core, turn, std::move(args));
                                            })
                        .risk(ToolRisk::read_only));
    tools.push_back(spill_read_tool(tape));
    tools.push_back(subagent_tool(core, session_id, state));
    tools.push_back(cubepi::tool<ModelArgs>(
                        "model", "Lists the models, or chooses the model of this conversation.",
                        [core, tape, turn](ModelArgs args) {
                            return choose_model(core, tape, turn, std::move(args));
                        })
                        .hidden());
    tools.push_back(
        cubepi::tool<EffortArgs>(
            "reasoning_effort", "Chooses how hard the model thinks.",
            [tape, turn](EffortArgs args) { return choose_effort(tape, turn, std::move(args)); })
            .hidden());
    for (const auto& plugin : core->framework().plugins()) {
        for (const AgentTool& more : plugin->tools) tools.push_back(more);
    }
    for (const AgentTool& more : core->options().tools) tools.push_back(more);
    return tools;
}

}  // namespace bub::detail
