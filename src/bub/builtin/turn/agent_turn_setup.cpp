#include <algorithm>
#include <utility>

#include <bub/builtin/tools/tool_names.hpp>
#include <bub/builtin/turn/agent_turn.hpp>
#include <bub/builtin/turn/earlier_turn.hpp>
#include <bub/builtin/turn/prompt_parts.hpp>
#include <bub/tape/tape_checkpointer.hpp>
#include <bub/turn_span.hpp>
#include <cubepi/workspace/standard_tools.hpp>

// Sets up the agent of a turn: its model, memory, tools and prompt.

namespace bub::detail {

namespace {

/// Returns the effort selected by `,reasoning_effort`; nothing if it is invalid.
std::optional<cubepi::ReasoningControl> reasoning_of(const TurnState& state) {
    using Effort = cubepi::ReasoningEffort;
    const std::string chosen = state.text("reasoning_effort");
    for (const Effort effort :
         {Effort::minimal, Effort::low, Effort::medium, Effort::high, Effort::max}) {
        if (chosen != cubepi::to_string(effort)) continue;
        cubepi::ReasoningControl control;
        control.mode = cubepi::ReasoningMode::on;
        control.effort = effort;
        return control;
    }
    return std::nullopt;
}

/// Returns the history up to the answer whose calls are in progress, because an agent cannot continue from there.
cubepi::MessageList without_open_calls(cubepi::MessageList messages) {
    std::size_t results = 0;
    for (std::size_t i = messages.size(); i > 0; --i) {
        const cubepi::Message& message = messages[i - 1];
        if (message.tool_result()) ++results;
        const cubepi::AssistantMessage* answer = message.assistant();
        if (!answer) continue;
        if (answer->tool_calls().size() <= results) return messages;
        return cubepi::MessageList(messages.begin(),
                                   messages.begin() + static_cast<std::ptrdiff_t>(i - 1));
    }
    return messages;
}

/// Removes the tools that this turn's model must not call. Hidden tools are commands of operators (B11). Throws
/// Error(invalid_argument) that lists the names in the plan that do not match any tool.
void keep_allowed(std::vector<cubepi::AgentTool>& tools, const AgentTurnPlan& plan) {
    std::erase_if(tools, [&plan](const cubepi::AgentTool& tool) {
        return !tool.expose_to_model || (plan.is_subagent && tool.name == "subagent") ||
               (plan.inherits && tool.name == "tape_handoff");
    });
    if (!plan.allowed_tools) return;
    std::set<std::string> unknown = *plan.allowed_tools;
    unknown.erase("subagent");
    for (const cubepi::AgentTool& tool : tools) unknown.erase(tool.name.str());
    std::string names;
    for (const std::string& name : unknown) names += (names.empty() ? "" : ", ") + name;
    if (!names.empty()) {
        throw cubepi::Error(cubepi::ErrorCode::invalid_argument,
                            "unknown tools in allowed_tools: " + names);
    }
    std::erase_if(tools, [&plan](const cubepi::AgentTool& tool) {
        return !plan.allowed_tools->contains(tool.name.str());
    });
}

}  // namespace

std::vector<cubepi::AgentTool> AgentTurn::tools(const std::filesystem::path& directory) {
    std::vector<cubepi::AgentTool> tools;
    if (core_->options().with_tools) {
        // An agent that inherits the conversation also shares its commands.
        if (plan_.inherits) shells_ = state_.service<cubepi::ShellSessions>();
        if (!shells_) shells_ = core_->shells(plan_.session_id, directory);
        state_.replace(shells_);
        tools = cubepi::standard_tools(core_->workspace(directory), cubepi::StandardToolOptions(),
                                       shells_);
    }
    for (cubepi::AgentTool& tool : session_tools(core_, *tape_, plan_.session_id, state_)) {
        tools.push_back(std::move(tool));
    }
    return tools;
}

/// Sets the agent's memory: the history of the conversation, and the destination of its messages.
Task<> AgentTurn::remember(cubepi::AgentOptions& options) {
    TapeCheckpointerOptions how;
    how.clock = core_->runtime().clock;
    if (!is_temporary(plan_.session_id)) {
        how.session.id = plan_.session_id;
        how.session.workspace = core_->workspace_of(state_).string();
    }
    how.context = co_await core_->framework().tape_context(plan_.session_id, state_);
    const std::shared_ptr<TurnTransaction> turn = plan_.inherits ? plan_.inherits : fork_;
    auto memory = std::make_shared<TapeCheckpointer>(turn, std::move(how));
    if (!plan_.inherits) {
        options.checkpointer = std::move(memory);
        options.thread_id = tape_->name();
        co_return;
    }
    options.checkpointer = nullptr;
    options.thread_id.clear();
    std::optional<cubepi::CheckpointData> data = co_await memory->load(tape_->name());
    if (data) options.messages = without_open_calls(std::move(data->messages));
}

void AgentTurn::make_agent(cubepi::AgentOptions options) {
    agent_ = std::make_shared<cubepi::Agent>(std::move(options));
    const FrameworkOptions& framework = core_->framework().options();
    if (framework.tracer) trace_ = framework.tracer->attach(*agent_);
    if (framework.meter) meter_ = framework.meter->attach(*agent_);
}

cubepi::PromptOptions AgentTurn::run_options(std::string run_id) const {
    cubepi::PromptOptions how =
        cubepi::PromptOptions().run_id(std::move(run_id)).prior_spending(spent_);
    // A comma command calls the tool without a run.
    const bool has_run = plan_.caller && !plan_.caller->run().run_id.empty();
    if (has_run) return std::move(how).parent(*plan_.caller);
    cubepi::TraceContext trace = trace_of_run(state_, plan_.message);
    if (trace.empty()) return how;
    return std::move(how)
        .traceparent(std::move(trace.traceparent))
        .tags(std::move(trace.tags))
        .metadata(std::move(trace.metadata));
}

Task<> AgentTurn::start_agent() {
    const std::filesystem::path directory = core_->workspace_of(state_);
    const BuiltinOptions& chosen = core_->options();
    cubepi::AgentOptions options;
    options.model = core_->model(state_);
    options.system_prompt = co_await system_prompt();
    options.tools = tools(directory);
    if (chosen.with_tools) options.spill = core_->spill(directory);
    options.middleware = core_->framework().interception(plan_.session_id, state_);
    options.limits.max_turns = chosen.max_steps;
    options.reasoning = reasoning_of(state_);
    options.runtime = core_->framework().runtime();
    const TurnContext occasion{plan_.session_id, directory, state_, plan_.message};
    if (plan_.is_subagent) {
        // remember() runs last, because a memory set by `configure` is that of the parent conversation.
        if (chosen.configure) chosen.configure(options, occasion);
        co_await remember(options);
    } else {
        co_await remember(options);
        if (chosen.configure) chosen.configure(options, occasion);
    }
    add_questions(options);
    suspends_ = asks_user() && options.channel && options.channel->is_durable();
    summarizer_ = std::make_unique<SummaryModel>(
        SummaryModel{options.model, options.provider, options.limits, options.reasoning,
                     options.on_payload, options.on_response});
    std::vector<cubepi::AgentTool> tools(options.tools.begin(), options.tools.end());
    keep_allowed(tools, plan_);
    options.middleware.emplace_back(UnknownTools(tools));
    if (!run_id_.empty()) options.middleware.emplace_back(WithoutInterrupted(message_id_));
    options.tools = std::move(tools);
    make_agent(std::move(options));
    agent_->subscribe([this](const cubepi::AgentEvent& event) { return on_agent_event(event); });
    if (chosen.on_agent && !plan_.is_subagent) chosen.on_agent(agent_, occasion);
    cubepi::Message message = user_message_of(prompt_);
    if (!message_id_.empty()) message = std::move(message).with_id(message_id_);
    cubepi::PromptOptions how = run_options(run_id_);
    co_await start_run(std::move(message), std::move(how));
    if (over_) co_return;
    for (cubepi::Message& one : std::exchange(repeated_, {})) steer(std::move(one));
}

Task<std::string> AgentTurn::system_prompt() {
    std::string text = co_await core_->framework().system_prompt(prompt_, state_);
    std::filesystem::path directory = core_->workspace_of(state_);
    std::vector<Skill> skills = co_await core_->skills(std::move(directory));
    if (plan_.allowed_skills) {
        std::erase_if(skills, [this](const Skill& skill) {
            return !plan_.allowed_skills->contains(skill.name);
        });
    }
    const std::string block = skills_block(skills, skill_hints(prompt_.text()));
    if (!text.empty() && !block.empty()) text += "\n\n";
    co_return text + block;
}

}  // namespace bub::detail
