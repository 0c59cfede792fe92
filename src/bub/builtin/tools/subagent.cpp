#include <utility>
#include <variant>

#include <bub/builtin/tools/tool_names.hpp>
#include <bub/builtin/turn/agent_turn.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/outcome.hpp>

namespace bub::detail {

namespace {

using cubepi::AgentTool;
using cubepi::AgentToolResult;

struct SubagentArgs {
    std::variant<std::string, std::vector<JsonObject>> prompt;
    std::optional<std::string> model;
    std::string session = "temp";
    std::optional<std::vector<std::string>> allowed_tools;
    std::optional<std::vector<std::string>> allowed_skills;
};

Prompt prompt_of(const SubagentArgs& args) {
    if (const auto* text = std::get_if<std::string>(&args.prompt)) return Prompt(*text);
    JsonArray parts;
    for (const JsonObject& part : std::get<std::vector<JsonObject>>(args.prompt)) {
        parts.emplace_back(part);
    }
    return Prompt(std::move(parts));
}

std::string lower(std::string text) {
    for (char& c : text) {
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    }
    return text;
}

void append_error(std::string& text, const std::string& message) {
    text += text.empty() ? "" : "\n";
    text += "[Error: " + message + "]";
}

Task<> read_answer(AgentTurn& turn, std::string& text) {
    while (std::optional<StreamEvent> event = co_await turn.next()) {
        if (event->kind == event_kind::text) {
            text += event->delta();
        } else if (event->kind == event_kind::error) {
            append_error(text, error_from_event(event->data).message());
        }
    }
}

/// Returns the answer of a turn; the turn is closed on every path.
Task<AgentToolResult> answer_of(AgentTurn& turn) {
    std::string text;
    const cubepi::Outcome<> read = co_await cubepi::outcome_of(read_answer(turn, text));
    if (read.cancelled()) co_await cubepi::shield();
    co_await turn.close();
    if (read.cancelled()) co_await cubepi::unshield();
    if (read) co_return AgentToolResult(std::move(text));
    if (read.cancelled()) read.rethrow();
    append_error(text, describe(read.failure()));
    co_return AgentToolResult::error(std::move(text));
}

/// Runs another agent with its own state: its permissions, its model and its session do not affect the parent. Its
/// prompt is never a command (B11). `caller` must outlive the task.
Task<AgentToolResult> run_subagent(std::shared_ptr<BuiltinCore> core, TurnState* parent,
                                   std::string session_id, SubagentArgs args,
                                   const cubepi::ToolContext* caller) {
    AgentTurnPlan plan;
    plan.is_subagent = true;
    plan.caller = caller;
    plan.session_id = args.session;
    const bool inherits = args.session == "inherit" || args.session == session_id;
    if (inherits) {
        plan.session_id = session_id;
        if (const auto running = parent->service<RunningTurn>()) plan.inherits = running->fork;
    } else if (args.session == "temp" || args.session.empty()) {
        plan.session_id = "temp/" + core->runtime().ids->next();
    }
    if (inherits && !plan.inherits) {
        throw cubepi::Error(cubepi::ErrorCode::invalid_state,
                            "there is no turn in progress to inherit; leave `session` out, or give "
                            "the id of a session");
    }
    if (args.allowed_tools && !args.allowed_tools->empty()) {
        plan.allowed_tools.emplace();
        for (const std::string& name : *args.allowed_tools)
            plan.allowed_tools->insert(our_tool_name(name));
    }
    TurnState state = parent->child();
    state.values["session_id"] = plan.session_id;
    state.values.erase("_runtime_thread_id");
    if (args.model && !args.model->empty()) state.values["model"] = *args.model;
    if (args.allowed_skills) {
        std::set<std::string> skills;
        for (const std::string& name : *args.allowed_skills) skills.insert(lower(name));
        JsonArray list(skills.begin(), skills.end());
        state.values["allowed_skills"] = std::move(list);
        plan.allowed_skills = std::move(skills);
    }
    Prompt prompt = prompt_of(args);
    if (prompt.empty()) co_return AgentToolResult::error("the prompt is empty");
    AgentTurn turn(core, std::move(prompt), std::move(plan), state);
    co_return co_await answer_of(turn);
}

}  // namespace

AgentTool subagent_tool(std::shared_ptr<BuiltinCore> core, std::string session_id,
                        TurnState& state) {
    TurnState* const parent = &state;
    const auto call = [core, session_id, parent](SubagentArgs args,
                                                 const cubepi::ToolContext& caller) {
        return run_subagent(core, parent, session_id, std::move(args), &caller);
    };
    return cubepi::tool<SubagentArgs>(
               "subagent",
               "Has another agent do a task of its own and returns what it says. By default it "
               "knows nothing of this conversation.",
               call)
        .describe("prompt", "The task, with all that the agent has to know of it.")
        .describe("model", "Another model's id. Default: the one of this conversation.")
        .describe(
            "session",
            "temp: nothing of it is kept. inherit: it knows this conversation, and what it "
            "says stays in it. Any other text: a conversation of that name, which it continues "
            "with.")
        .describe("allowed_tools", "The tools that it may use. Default: all but this one.")
        .describe("allowed_skills", "The skills listed in its prompt. Default: all.")
        .risk(cubepi::ToolRisk::writes);
}

}  // namespace bub::detail
