#include <algorithm>
#include <cstdio>
#include <optional>
#include <set>
#include <stop_token>
#include <utility>
#include <variant>

#include <bub/builtin/reasoning_effort.hpp>
#include <bub/builtin/tools/subagent_tool.hpp>
#include <bub/builtin/turn/agent_turn.hpp>
#include <bub/tape/tape_checkpointer.hpp>
#include <bub/tape/tape_session.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/core/support/trimmed.hpp>
#include <cubepi/middleware/goal.hpp>
#include <cubepi/middleware/todo_list.hpp>
#include <cubepi/schema/json_text.hpp>
#include <cubepi/workspace/standard_tools.hpp>

// The tools of a session: its tape, skills and model, and results that were stored next to the tape.

namespace bub::detail {

namespace {

using cubepi::AgentTool;
using cubepi::AgentToolResult;
using cubepi::ErrorCode;
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

struct CompactArgs {
    std::optional<std::string> what_matters;
    std::optional<bool> undo;
};

struct ResetArgs {
    std::optional<bool> archive;
};

struct ModelArgs {
    std::optional<std::string> model_id;
    std::optional<bool> force;
};

struct GoalArgs {
    std::optional<std::string> action;
};

struct TasksArgs {
    std::optional<std::string> action;
    std::optional<std::string> task_id;
};

struct EffortArgs {
    std::optional<std::string> reasoning_effort;
};

/// The key of the record of this library in the state of a thread that was compacted.
constexpr std::string_view compaction_view = "compaction_view";

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

Task<> require_no_question(Tape tape) {
    const JsonObject state = co_await tape.store()->read_state(tape.name());
    if (!has_suspended_run(state)) co_return;
    throw cubepi::Error(ErrorCode::invalid_state,
                        "a question of this session waits for an answer; answer it, or withdraw it "
                        "with ,abandon, before the hand-off");
}

Task<std::string> tape_handoff(Tape tape, HandoffArgs args, bool for_model) {
    const auto is_control = [](char c) { return (c >= 0 && c < ' ') || c == 0x7F; };
    if (args.name.size() > longest_anchor_name ||
        std::any_of(args.name.begin(), args.name.end(), is_control)) {
        throw cubepi::Error(ErrorCode::invalid_argument,
                            "the name of a hand-off is one line of at most " +
                                std::to_string(longest_anchor_name) + " bytes");
    }
    if (for_model && cubepi::detail::trimmed(args.summary.value_or("")).empty()) {
        throw cubepi::Error(ErrorCode::invalid_argument,
                            "a hand-off needs a summary: what came before is left out of the "
                            "context");
    }
    // The calls of a suspended run would not be in the context of its answer.
    if (!for_model) co_await require_no_question(tape);
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
    const auto texts = co_await core->project_texts(std::move(directory));
    std::vector<Skill> skills = texts->skills;
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
    if (!args.reasoning_effort) {
        const std::string chosen = state->text("reasoning_effort");
        co_return "Reasoning effort: " + (chosen.empty() ? std::string("default") : chosen) +
            "; it is one of default, minimal, low, medium, high, max.";
    }
    const std::string effort = *args.reasoning_effort;
    bool known = false;
    for (const std::string_view one : reasoning_efforts) known = known || effort == one;
    if (!known) {
        throw cubepi::Error(ErrorCode::invalid_argument,
                            "reasoning_effort is one of default, minimal, low, medium, high, max");
    }
    // Turns take no other text as an effort, and leave it to the model.
    state->values["reasoning_effort"] = effort;
    JsonObject data;
    data["reasoning_effort"] = effort;
    TapeEntry entry = event_entry("reasoning_effort_switch", std::move(data));
    (void)co_await tape.append(std::move(entry));
    co_return "Session reasoning effort set to " + effort + " (applies from the next turn).";
}

/// Replaces the older messages of the conversation by a summary, for the model only, or undoes that. One that is stopped before the
/// summary is complete changes nothing.
Task<std::string> compact(std::shared_ptr<BuiltinCore> core, Tape tape, std::string session_id,
                          TurnState* state, CompactArgs args, std::stop_token stopped) {
    TapeCheckpointerOptions how;
    how.context = co_await agent_context(core, session_id, *state);
    TapeCheckpointer memory(tape.store(), std::move(how));
    std::optional<cubepi::CheckpointData> data = co_await memory.load(tape.name());
    if (!data) co_return std::string("There is nothing to compact.");
    if (args.undo.value_or(false)) {
        JsonObject changes = cubepi::CompactionMiddleware::undo(data->messages, data->extra);
        const JsonObject* const record = cubepi::detail::object_member(changes, compaction_view);
        const auto after = record ? cubepi::detail::integer_member(*record, "tokens")
                                  : std::optional<std::int64_t>();
        co_await memory.save_extra(tape.name(), std::move(changes));
        if (after) {
            // The size of the next request, for the chat.
            JsonObject undone{{"undone", true}, {"after", *after}, {"usage", JsonObject()}};
            std::vector<TapeEntry> entries = compaction_entries(undone);
            (void)co_await tape.append(std::move(entries));
        }
        co_return std::string("The next request has the whole conversation.");
    }
    std::optional<cubepi::CompactionOptions> options = core->compaction(core->model(*state));
    if (!options) throw cubepi::Error(ErrorCode::unsupported, "compaction is switched off");
    const auto running = state->service<RunningTurn>();
    options->summary_model =
        core->metered(options->summary_model, running ? running->asker : JsonObject());
    const cubepi::BoundModel writer = options->summary_model;
    cubepi::CompactionMiddleware middleware(std::move(*options));
    cubepi::RunInfo run;
    run.run_id = core->runtime().ids->next();
    run.thread_id = tape.name();
    auto account = std::make_shared<cubepi::RunAccount>(std::move(run));
    Task<cubepi::ManualCompaction> compacting = middleware.compact_now(
        std::move(data->messages), std::move(data->extra), args.what_matters.value_or(""), account,
        core->framework().runtime());
    Task<cubepi::ManualCompaction> stoppable =
        cubepi::cancel_on(std::move(stopped), std::move(compacting));
    cubepi::ManualCompaction done = co_await std::move(stoppable);
    if (!done.extra.empty()) co_await memory.save_extra(tape.name(), std::move(done.extra));
    const cubepi::Notice notice = done.report.notice();
    std::vector<TapeEntry> entries = compaction_entries(notice.details);
    (void)co_await tape.append(std::move(entries));
    const bool has_called = done.report.usage != cubepi::Usage();
    if (has_called && core->options().on_result) {
        // A command has no run of its own.
        cubepi::AssistantMessage summary;
        summary.content.emplace_back(cubepi::TextContent{notice.text});
        summary.usage = done.report.usage;
        summary.model_id = writer.spec().id;
        cubepi::RunResult result;
        result.run_id = account->info().run_id.str();
        result.new_messages.push_back(cubepi::Message(std::move(summary)));
        result.usage = done.report.usage;
        result.cost = done.report.cost;
        const std::filesystem::path directory = core->workspace_of(*state);
        const TurnContext turn{session_id, directory, *state, nullptr};
        core->options().on_result(result, turn);
    }
    co_return notice.text +
        (done.report.compacted ? "\nTo undo it: the same command with the argument undo" : "");
}

Task<std::string> show_todos(Tape tape) {
    const JsonObject extra = co_await stored_extra(tape.store(), tape.name());
    co_return cubepi::todo_text(cubepi::TodoListMiddleware::todos_in(extra));
}

Task<std::string> goal_command(Tape tape, GoalArgs args) {
    if (args.action && *args.action != "clear") {
        throw cubepi::Error(
            ErrorCode::invalid_argument,
            "goal takes `clear` or nothing; the message /goal CONDITION sets a goal");
    }
    const JsonObject extra = co_await stored_extra(tape.store(), tape.name());
    const std::optional<cubepi::GoalState> goal = cubepi::GoalMiddleware::goal_in(extra);
    if (!goal) co_return std::string("(no goal; the message /goal CONDITION sets one)");
    if (!args.action) co_return cubepi::goal_text(*goal);
    TapeCheckpointer memory(tape.store());
    JsonObject cleared{{"goal", nullptr}};
    co_await memory.save_extra(tape.name(), std::move(cleared));
    co_return "Goal cleared: " + goal->condition;
}

Task<std::string> tasks_command(std::shared_ptr<BuiltinCore> core, Tape tape,
                                std::string session_id, TasksArgs args) {
    const std::string id = args.task_id.value_or("");
    if (args.action.value_or("cancel") != "cancel" || (args.action && id.empty()))
        throw cubepi::Error(ErrorCode::invalid_argument, "tasks takes nothing, or `cancel ID`");
    if (args.action) {
        if (!core->options().agents->cancel(session_id, id))
            throw cubepi::Error(ErrorCode::not_found, "no task with this id runs: " + id);
        co_return "Task " + id + " is being cancelled.";
    }
    const JsonObject extra = co_await stored_extra(tape.store(), tape.name());
    co_return tasks_text(core->options().agents->list(session_id), extra);
}

void add_tape_tools(std::vector<AgentTool>& tools, const std::shared_ptr<BuiltinCore>& core,
                    const Tape& tape, bool for_model) {
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
                        [tape, for_model](HandoffArgs args) {
                            return tape_handoff(tape, std::move(args), for_model);
                        })
                        .risk(ToolRisk::read_only));
    tools.push_back(cubepi::tool<ResetArgs>(
                        "tape_reset", "Empties the tape of this conversation.",
                        [core, tape](ResetArgs args) { return tape_reset(core, tape, args); })
                        .risk(ToolRisk::irreversible)
                        .hidden());
}

constexpr std::int64_t most_chunks = 4;

struct SpillReadArgs {
    std::string handle;
    std::int64_t cursor = 0;
    std::int64_t count = 1;
    std::optional<bool> from_end;

    static void describe_fields(cubepi::FieldNotes& fields) {
        fields
            .describe("cursor",
                      "How many chunks to skip; `next_cursor` of the previous result continues.")
            .describe("count", "How many chunks to read, 4 at most.")
            .describe("from_end", "Begin with the last chunk.");
    }
};

struct Manifest {
    std::int64_t chunks = 0;
    std::int64_t bytes = 0;
};

/// Returns the entries after the anchor with this name; empty if there is none.
Task<std::vector<TapeEntry>> entries_after(Tape tape, std::string anchor) {
    TapeQuery query = TapeQuery().after_anchor(std::move(anchor)).limit(1);
    std::vector<TapeEntry> found;
    try {
        found = co_await tape.query(std::move(query));
    } catch (const cubepi::Error& error) {
        if (error.code() != ErrorCode::not_found) throw;
    }
    co_return found;
}

Task<std::optional<Manifest>> read_manifest(Tape spilled, std::string handle) {
    const std::vector<TapeEntry> found =
        co_await entries_after(std::move(spilled), "spill/" + handle + "/manifest");
    std::optional<Manifest> manifest;
    if (found.empty() || entry_name(found[0]) != "spill.manifest") co_return manifest;
    const JsonObject* data = cubepi::detail::object_member(found[0].payload, "data");
    if (!data) co_return manifest;
    manifest.emplace();
    manifest->chunks = cubepi::detail::integer_member(*data, "chunks").value_or(0);
    manifest->bytes = cubepi::detail::integer_member(*data, "bytes").value_or(0);
    co_return manifest;
}

Task<std::optional<std::string>> read_chunk(Tape spilled, std::string handle, std::int64_t number) {
    std::string anchor = "spill/" + handle + "/chunk/" + std::to_string(number);
    const std::vector<TapeEntry> found =
        co_await entries_after(std::move(spilled), std::move(anchor));
    std::optional<std::string> text;
    if (found.empty()) co_return text;
    const JsonArray* list = cubepi::detail::array_member(found[0].payload, "results");
    if (list && list->size() == 1 && list->front().is_string()) {
        text = std::string(list->front().get_string());
    }
    co_return text;
}

Task<std::string> spill_read(Tape spilled, SpillReadArgs args) {
    if (args.cursor < 0) co_return std::string("[cursor is 0 or more]");
    if (args.count < 1) co_return std::string("[count is 1 or more]");
    const std::optional<Manifest> manifest = co_await read_manifest(spilled, args.handle);
    if (!manifest) co_return "[no such spilled result: " + args.handle + "]";
    const std::int64_t count = std::min(args.count, most_chunks);
    const bool from_end = args.from_end.value_or(false);
    // From the end, the cursor is the number of chunks already read.
    const std::int64_t to = from_end ? std::max<std::int64_t>(manifest->chunks - args.cursor, 0)
                                     : std::min(args.cursor + count, manifest->chunks);
    const std::int64_t from =
        from_end ? std::max<std::int64_t>(to - count, 0) : std::min(args.cursor, to);
    std::string content;
    for (std::int64_t number = from; number < to; ++number) {
        const std::optional<std::string> chunk = co_await read_chunk(spilled, args.handle, number);
        if (!chunk) co_return "[the spilled result " + args.handle + " is not complete]";
        content += *chunk;
    }
    const bool complete = from_end ? from == 0 : to == manifest->chunks;
    std::string text = "bytes: " + std::to_string(manifest->bytes) + " in " +
                       std::to_string(manifest->chunks) + " chunks\nchunks: ";
    text += from < to ? std::to_string(from) + "-" + std::to_string(to - 1) : "none";
    text += "\nnext_cursor: " + std::to_string(from_end ? manifest->chunks - from : to);
    text += std::string("\ncomplete: ") + (complete ? "true" : "false");
    co_return text + "\ncontent:\n" + content;
}

std::string list_hooks(const BuiltinOptions& options) {
    std::string text;
    for (const CommandHook& hook : options.command_hooks) {
        if (!text.empty()) text += "\n";
        text += to_string(hook.point);
        if (!hook.matcher.empty()) text += " " + hook.matcher;
        text += ": " + hook.command;
        if (!hook.note.empty()) text += "\n  " + hook.note;
    }
    return text.empty() ? "no hooks are configured" : text;
}

/// Returns the tool `spill_read`, which reads long results that Bub stored next to the tape.
AgentTool spill_read_tool(const Tape& tape) {
    const Tape spilled(tape.store(), sidecar_tape_name(tape.name(), "spill"));
    return cubepi::tool<SpillReadArgs>(
               "spill_read",
               "Reads a long result that was put aside with a handle. Results that name a file are "
               "read with the tool for files.",
               [spilled](SpillReadArgs args) { return spill_read(spilled, std::move(args)); })
        .risk(ToolRisk::read_only);
}

}  // namespace

std::vector<AgentTool> plan_commands(std::shared_ptr<BuiltinCore> core, Tape tape,
                                     std::string session_id) {
    std::vector<AgentTool> commands;
    commands.push_back(
        cubepi::tool<NoArgs>("todo", "Shows the to-do list of this conversation.", [tape](NoArgs) {
            return show_todos(tape);
        }).hidden());
    commands.push_back(cubepi::tool<GoalArgs>(
                           "goal", "Shows the goal of this conversation, or clears it.",
                           [tape](GoalArgs args) { return goal_command(tape, std::move(args)); })
                           .hidden());
    commands.push_back(
        cubepi::tool<TasksArgs>("tasks",
                                "Lists the sub-agents in the background of this conversation, or "
                                "cancels one.",
                                [core, tape, session_id](TasksArgs args) {
                                    return tasks_command(core, tape, session_id, std::move(args));
                                })
            .hidden());
    return commands;
}

std::vector<AgentTool> session_tools(std::shared_ptr<BuiltinCore> core, Tape tape,
                                     std::string session_id, TurnState& state, bool for_model) {
    std::vector<AgentTool> tools;
    add_tape_tools(tools, core, tape, for_model);
    TurnState* const turn = &state;
    tools.push_back(cubepi::tool<SkillArgs>("skill", "Shows a skill, or lists all of them.",
                                            [core, turn](SkillArgs args) {
                                                return show_skill(core, turn, std::move(args));
                                            })
                        .risk(ToolRisk::read_only));
    tools.push_back(spill_read_tool(tape));
    tools.push_back(subagent_tool(core, session_id, state));
    tools.push_back(
        cubepi::tool<CompactArgs>(
            "compact",
            "Summarizes the older messages of this conversation for the model; the "
            "tape keeps them.",
            [core, tape, session_id, turn](CompactArgs args, cubepi::ToolContext& context) {
                return compact(core, tape, session_id, turn, std::move(args), context.stop_token());
            })
            .hidden());
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
    tools.push_back(cubepi::tool<NoArgs>("hooks",
                                         "Lists the commands of the user that run around calls and "
                                         "prompts.",
                                         [core](NoArgs) { return list_hooks(core->options()); })
                        .hidden());
    for (const auto& plugin : core->framework().plugins()) {
        for (const AgentTool& more : plugin->tools) tools.push_back(more);
    }
    for (const AgentTool& more : core->options().tools) tools.push_back(more);
    for (AgentTool& command : plan_commands(core, tape, session_id)) {
        const bool is_taken = std::any_of(tools.begin(), tools.end(), [&](const AgentTool& tool) {
            return tool.name == command.name;
        });
        if (!is_taken) tools.push_back(std::move(command));
    }
    return tools;
}

}  // namespace bub::detail
