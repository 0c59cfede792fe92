#include <algorithm>
#include <iterator>
#include <utility>

#include <bub/builtin/client_tools.hpp>
#include <bub/builtin/tools/session_files.hpp>
#include <bub/builtin/tools/subagent_tool.hpp>
#include <bub/builtin/tools/tool_names.hpp>
#include <bub/builtin/turn/agent_turn.hpp>
#include <bub/tape/tape_context.hpp>
#include <bub/turn_error.hpp>
#include <cubepi/middleware/goal.hpp>
#include <cubepi/middleware/todo_list.hpp>
#include <cubepi/workspace/memory_tool.hpp>
#include <cubepi/workspace/standard_tools.hpp>

// The agent of a turn: its model, memory, tools, middleware and prompt.

namespace bub::detail {

namespace {

/// The history, in which records of other middleware name positions, has the anchor.
struct WithoutFirstAnchor {
    Task<cubepi::MessageStream> around_model_call(cubepi::ModelRequest request,
                                                  cubepi::ModelCallNext next) {
        constexpr std::string_view first_anchor = "[Anchor created: session/start]: ";
        const cubepi::MessageList& sent = request.messages;
        if (sent.size() > 1 && sent.front().user() && sent.front().text().starts_with(first_anchor))
            request.messages = sent.last(sent.size() - 1);
        return next(std::move(request));
    }
};

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
    std::set<std::string> allowed;
    for (const std::string& name : *plan.allowed_tools) {
        const bool is_exact = std::any_of(tools.begin(), tools.end(),
                                          [&name](const auto& tool) { return tool.name == name; });
        allowed.insert(is_exact ? name : our_tool_name(name));
    }
    std::set<std::string> unknown = allowed;
    unknown.erase("subagent");
    for (const cubepi::AgentTool& tool : tools) unknown.erase(tool.name.str());
    std::string names;
    for (const std::string& name : unknown) names += (names.empty() ? "" : ", ") + name;
    if (!names.empty()) {
        throw cubepi::Error(cubepi::ErrorCode::invalid_argument,
                            "unknown tools in allowed_tools: " + names);
    }
    std::erase_if(tools, [&allowed](const cubepi::AgentTool& tool) {
        return !allowed.contains(tool.name.str());
    });
}

/// The system prompt of a turn, and of its sub-agents that inherit.
class SharedSystemPrompt {
public:
    SharedSystemPrompt(std::shared_ptr<RunningTurn> turn, bool is_branch)
        : turn_(std::move(turn)), is_branch_(is_branch) {}
    std::string transform_system_prompt(std::string prompt) const {
        if (is_branch_) return turn_->system_prompt;
        turn_->system_prompt = prompt;
        return prompt;
    }

private:
    std::shared_ptr<RunningTurn> turn_;
    bool is_branch_;
};

/// Returns the tools of a sub-agent that inherits a conversation, whose requests begin as those of its parent: the same tools in the
/// same order. Those that it has not itself refuse, without a question to the user.
std::vector<cubepi::AgentTool> like_parent(const std::vector<cubepi::AgentTool>& own,
                                           const std::vector<cubepi::AgentTool>& parent) {
    std::vector<cubepi::AgentTool> made;
    for (const cubepi::AgentTool& offered : parent) {
        const auto found = std::find_if(own.begin(), own.end(), [&offered](const auto& tool) {
            return tool.name == offered.name;
        });
        made.push_back(found == own.end() ? offered : *found);
        if (found != own.end()) continue;
        made.back().risk_level = cubepi::ToolRisk::read_only;
        made.back().execute = [](JsonObject, cubepi::ToolContext&) {
            return cubepi::AgentToolResult::error(
                "a sub-agent cannot use this tool; say in your answer what should be done with it");
        };
    }
    return made;
}

/// Ends no run while sub-agents of its session run in the background.
struct WaitForTasks {
    std::shared_ptr<cubepi::detail::SubagentTasks> tasks;
    Task<cubepi::MessageList> on_run_end(cubepi::HookContext&) {
        while (tasks->running_in_background > 0) co_await tasks->task_ended.wait();
        co_return cubepi::MessageList();
    }
};

}  // namespace

/// Makes the agent of the turn, in a suspended run as it was before.
Task<> AgentTurn::make_agent() {
    const std::filesystem::path directory = core_->workspace_of(state_);
    const BuiltinOptions& chosen = core_->options();
    cubepi::AgentOptions options;
    options.model = co_await model();
    const std::shared_ptr<RunningTurn> running = state_.service<RunningTurn>();
    const bool is_branch = plan_.inherits && running && !running->tools.empty();
    options.system_prompt = co_await system_prompt();
    options.tools = tools(directory);
    if (chosen.with_tools) options.spill = core_->spill(directory);
    options.middleware = core_->framework().interception(plan_.session_id, state_);
    // Before approvals, which are about the arguments that hooks have changed.
    hooks_ = core_->command_hooks(plan_.session_id, directory, plan_.is_subagent);
    if (hooks_) options.middleware.emplace_back(hooks_);
    options.limits.max_turns = chosen.max_steps;
    options.limits.max_repeated_calls = chosen.max_repeated_calls;
    options.limits.max_cut_answers = 2;
    options.reasoning = reasoning_of(state_);
    options.runtime = core_->framework().runtime();
    const TurnContext occasion{plan_.session_id, directory, state_, run_message(),
                               plan_.answer.has_value() || plan_.can_suspend};
    co_await remember(options);
    const std::shared_ptr<cubepi::Checkpointer> memory = options.checkpointer;
    const std::string thread_id = options.thread_id;
    if (chosen.configure) chosen.configure(options, occasion);
    if (plan_.is_subagent) {
        // A memory set by `configure` is that of the parent conversation.
        options.checkpointer = memory;
        options.thread_id = thread_id;
        std::size_t& turns = options.limits.max_turns;
        const std::size_t most = chosen.max_subagent_steps;
        if (most > 0 && (turns == 0 || most < turns)) turns = most;
        double& limit = options.limits.max_spend;
        if (plan_.max_spend > 0 && (limit <= 0 || plan_.max_spend < limit)) limit = plan_.max_spend;
    }
    const JsonObject origin = payer();
    // Of its sub-agents, too; add_questions() does not set it without questions.
    if (chosen.metered_model && running && !plan_.is_subagent) running->asker = origin;
    add_questions(options);
    suspends_ = asks_user() && options.channel && options.channel->is_durable();
    if (!options.model.provider() && options.provider.get())
        options.model = cubepi::BoundModel(options.provider.get(), options.model.shared_spec());
    std::vector<cubepi::AgentTool> tools(options.tools.begin(), options.tools.end());
    if (!plan_.is_subagent) add_plans(options, tools, origin);
    if (!plan_.is_subagent) add_tasks(options, tools);
    keep_allowed(tools, plan_);
    if (is_branch && !plan_.allowed_tools) tools = like_parent(tools, running->tools);
    if (running && !plan_.is_subagent) running->tools = tools;
    std::vector<cubepi::AgentTool> known = tools;
    if (chosen.defer_tools) {
        if (auto deferred = chosen.defer_tools(tools)) {
            known.insert(known.end(), deferred->tools.begin(), deferred->tools.end());
            options.middleware.emplace_back(std::move(*deferred));
        }
    }
    if (auto compaction = core_->compaction(options.model)) {
        compaction->with_recall =
            !plan_.allowed_tools && std::none_of(tools.begin(), tools.end(), [](const auto& tool) {
                return tool.name == "recall";
            });
        compaction->summary_model = core_->metered(compaction->summary_model, origin);
        cubepi::CompactionMiddleware middleware(std::move(*compaction));
        known.insert(known.end(), middleware.tools.begin(), middleware.tools.end());
        options.middleware.emplace_back(std::move(middleware));
    }
    std::vector<cubepi::AgentTool> of_client = co_await client_tools(known);
    known.insert(known.end(), of_client.begin(), of_client.end());
    if (running && !plan_.is_subagent)
        running->tools.insert(running->tools.end(), of_client.begin(), of_client.end());
    // Calls in the history of a sub-agent that inherits have the names of its parent's tools, whichever it may use.
    if (is_branch && plan_.allowed_tools)
        known.insert(known.end(), running->tools.begin(), running->tools.end());
    std::move(of_client.begin(), of_client.end(), std::back_inserter(tools));
    const bool has_form = chosen.answer_form && !plan_.is_subagent;
    options.middleware.emplace_back(UnknownTools(
        known, has_form ? cubepi::StructuredOptions().name() : cubepi::SharedString()));
    if (!run_id_.empty()) options.middleware.emplace_back(WithoutInterrupted(message_id_));
    if (!chosen.sends_first_anchor) options.middleware.emplace_back(WithoutFirstAnchor());
    // Last, so that it is the prompt that is sent.
    if (running && (!plan_.is_subagent || (is_branch && !plan_.allowed_skills)))
        options.middleware.emplace_back(SharedSystemPrompt(running, is_branch));
    options.tools = std::move(tools);
    options.model = core_->metered(options.model, origin);
    agent_ = std::make_shared<cubepi::Agent>(std::move(options));
    if (plan_.on_event) {
        agent_->subscribe(
            [this, agent = agent_.get()](const cubepi::AgentEvent& event) {
                return plan_.on_event(event, std::as_const(*agent).state().model);
            },
            cubepi::EventTypes::all_but({cubepi::AgentEventType::message_update}));
    }
    const FrameworkOptions& framework = core_->framework().options();
    if (framework.tracer) trace_ = framework.tracer->attach(*agent_);
    if (framework.meter) meter_ = framework.meter->attach(*agent_);
    // The same view of the conversation, which is its cached prefix.
    for (const auto& [key, value] : inherited_) {
        if (key.starts_with("compaction")) agent_->set_extra(key, value);
    }
    agent_->subscribe([this](const cubepi::AgentEvent& event, const std::stop_token& aborted) {
        return on_agent_event(event, aborted);
    });
    if (chosen.on_agent && !plan_.is_subagent) chosen.on_agent(agent_, occasion);
}

/// Throws for a run that this process cannot continue. An operator reads the reason; it names parts of the system (D98), which other
/// senders do not.
void AgentTurn::throw_unavailable(const std::exception_ptr& reason) const {
    if (!plan_.message || !core_->options().failure_text) std::rethrow_exception(reason);
    try {
        std::rethrow_exception(reason);
    } catch (const cubepi::Error& error) {
        if (plan_.message->is_operator()) throw SenderError(error.code(), error.what());
        if (const auto& warn = core_->framework().options().on_warning)
            warn("the suspended run of session " + plan_.session_id +
                 " was not continued: " + error.what());
        throw SenderError(error.code(),
                          "The question cannot be answered at the moment. An operator of this "
                          "service is needed.");
    }
}

/// Returns the model of the turn. A suspended run continues at its endpoint only, and so do its subagents (D86).
Task<cubepi::BoundModel> AgentTurn::model() {
    const BuiltinOptions& options = core_->options();
    const bool abandons = plan_.answer && plan_.answer->action == AnswerAction::abandon;
    if (!options.model_at_endpoint || abandons) co_return core_->model(state_);
    if (endpoint_.empty() && !plan_.inherits) {
        // The run of an answer that is delivered again has used its answers.
        const bool continues = earlier_answer_ && !earlier_answer_->answered;
        endpoint_ = co_await suspended_endpoint(tape_->store(), tape_->name(), continues);
        if (!endpoint_.empty() && !plan_.answer) {
            // A message for a run whose questions are open is not read.
            const std::vector<cubepi::HitlRequest> open = co_await open_questions();
            if (!open.empty()) endpoint_.clear();
        }
        if (!endpoint_.empty()) plan_.model_id.clear();
    }
    if (endpoint_.empty()) endpoint_ = plan_.endpoint;
    if (endpoint_.empty()) co_return core_->model(state_);
    std::exception_ptr unavailable;
    try {
        cubepi::BoundModel there = options.model_at_endpoint(endpoint_, plan_.model_id);
        if (const auto running = state_.service<RunningTurn>()) running->endpoint = endpoint_;
        co_return there;
    } catch (const cubepi::Error&) {
        unavailable = std::current_exception();
    }
    closes_run_ = co_await has_expired_questions_only();
    if (!closes_run_) throw_unavailable(unavailable);
    endpoint_.clear();
    co_return core_->model(state_);
}

std::vector<cubepi::AgentTool> AgentTurn::tools(const std::filesystem::path& directory) {
    std::vector<cubepi::AgentTool> tools;
    // The commands of a sub-agent belong to the session of its caller, and outlive its turn (D93).
    std::shared_ptr<cubepi::ShellSessions> shells;
    if (plan_.is_subagent) shells = state_.service<cubepi::ShellSessions>();
    if (!shells) shells = core_->shells(plan_.session_id, directory);
    state_.replace(shells);
    if (core_->options().with_tools) {
        tools = cubepi::standard_tools(core_->workspace(directory), cubepi::StandardToolOptions(),
                                       std::move(shells));
    }
    for (cubepi::AgentTool& tool : session_tools(core_, *tape_, plan_.session_id, state_, true)) {
        tools.push_back(std::move(tool));
    }
    const BuiltinOptions& chosen = core_->options();
    if (chosen.memory != MemoryScope::none && !plan_.is_subagent &&
        !is_temporary(plan_.session_id)) {
        tools.push_back(cubepi::memory_tool(
            memory_directory(chosen.home, directory, plan_.session_id, chosen.memory)));
    }
    if (core_->options().files && plan_.message && !plan_.is_subagent)
        tools.push_back(send_file_tool(core_, plan_.session_id, *run_message(), directory));
    return tools;
}

/// Returns the tools of the sender of the message (D214). Those of calls that the message does not offer again are executable, and not
/// shown to the model.
Task<std::vector<cubepi::AgentTool>> AgentTurn::client_tools(std::vector<cubepi::AgentTool> own) {
    std::vector<cubepi::AgentTool> made;
    if (plan_.is_subagent || !plan_.message) co_return made;
    const auto is_in = [](const std::vector<cubepi::AgentTool>& tools, const auto& name) {
        return std::any_of(tools.begin(), tools.end(),
                           [&name](const auto& tool) { return tool.name == name; });
    };
    const auto& questions = core_->options().questions;
    const std::chrono::nanoseconds time =
        questions ? questions->timeout : std::chrono::nanoseconds::zero();
    made = client_tools_of(plan_.message->rest, time);
    for (const cubepi::AgentTool& tool : made) {
        if (is_in(own, tool.name)) {
            throw SenderError(cubepi::ErrorCode::invalid_argument,
                              "The agent has a tool '" + tool.name.str() +
                                  "' itself; rename the tool of the client.");
        }
    }
    if (!made.empty() && !suspends_) {
        throw SenderError(cubepi::ErrorCode::unsupported,
                          "Tools of the client need a session that is stored.");
    }
    // A new run has no calls.
    if (!suspends_ || (!plan_.answer && run_id_.empty())) co_return made;
    std::vector<cubepi::HitlRequest> asked = co_await open_questions(true);
    for (const cubepi::HitlRequest& request : asked) {
        const std::optional<cubepi::AgentTool> tool = client_tool_of(request, time);
        if (!tool || !is_in(own, tool->name)) continue;
        // The client may have executed the call.
        throw SenderError(cubepi::ErrorCode::invalid_argument,
                          "Since its call, the agent has a tool '" + tool->name.str() +
                              "' itself; withdraw the question.");
    }
    TapeCheckpointer memory(fork_);
    std::string run_id = run_id_;
    if (run_id.empty()) {
        const std::vector<cubepi::PendingRequest> pending = co_await requests_of_run();
        if (pending.empty()) co_return made;
        run_id = pending.back().run_id;
    }
    const std::vector<cubepi::AnswerRecord> answered =
        co_await memory.load_answer_records(tape_->name(), run_id);
    for (const cubepi::AnswerRecord& one : answered)
        if (one.request) asked.push_back(*one.request);
    for (const cubepi::HitlRequest& request : asked) {
        std::optional<cubepi::AgentTool> tool = client_tool_of(request, time);
        if (!tool || is_in(own, tool->name) || is_in(made, tool->name)) continue;
        tool->expose_to_model = false;
        made.push_back(std::move(*tool));
    }
    co_return made;
}

Task<TapeContext> agent_context(std::shared_ptr<BuiltinCore> core, std::string session_id,
                                TurnState& state) {
    TapeContext context = co_await core->framework().tape_context(std::move(session_id), state);
    if (!context.select) context.select = agent_messages;
    auto select = std::move(context.select);
    context.select = [select = std::move(select)](const std::vector<TapeEntry>& entries) {
        return without_inherited(select(entries));
    };
    co_return context;
}

/// Sets the agent's memory: the history of the conversation, and the destination of its messages.
Task<> AgentTurn::remember(cubepi::AgentOptions& options) {
    TapeCheckpointerOptions how;
    how.clock = core_->runtime().clock;
    how.nested = plan_.can_suspend;
    if (!is_temporary(plan_.session_id) && !plan_.is_removed) {
        how.session.id = plan_.session_id;
        how.session.workspace = core_->workspace_of(state_).string();
    }
    how.context = co_await agent_context(core_, plan_.session_id, state_);
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
    if (!data) co_return;
    options.messages = without_open_calls(std::move(data->messages));
    inherited_ = std::move(data->extra);
}

/// Adds the to-do list and the goal of the session.
void AgentTurn::add_plans(cubepi::AgentOptions& options, std::vector<cubepi::AgentTool>& tools,
                          const JsonObject& origin) {
    const BuiltinOptions& chosen = core_->options();
    const bool is_taken =
        std::any_of(tools.begin(), tools.end(),
                    [](const cubepi::AgentTool& tool) { return tool.name == "write_todos"; });
    if (chosen.with_todos && !is_taken) {
        cubepi::TodoListOptions how;
        // The model may ask the user in plain text.
        how.require_finished = false;
        cubepi::TodoListMiddleware todos(std::move(how));
        // With the others, so that an unknown name is corrected to it.
        for (cubepi::AgentTool& tool : std::exchange(todos.tools, {}))
            tools.push_back(std::move(tool));
        options.middleware.emplace_back(std::move(todos));
    }
    if (chosen.max_goal_evaluations > 0) {
        cubepi::GoalOptions how{.evaluator = core_->metered(options.model, origin)};
        how.max_evaluations = chosen.max_goal_evaluations;
        how.user_text = text_of_user;
        how.on_end = [this](const cubepi::GoalState& goal) { ended_goal_ = goal; };
        options.middleware.emplace_back(cubepi::GoalMiddleware(std::move(how)));
    }
}

/// Returns true if the session may have sub-agents in the background.
bool AgentTurn::has_tasks() const {
    return !plan_.is_subagent && core_->options().subagents.max_background != 0 &&
           !is_temporary(plan_.session_id);
}

/// Adds the sub-agents of the session: their limits, and those in the background, whose results this run receives.
void AgentTurn::add_tasks(cubepi::AgentOptions& options, std::vector<cubepi::AgentTool>& tools) {
    const std::shared_ptr<AgentsOfSession> agents = core_->agents(plan_.session_id);
    if (!has_tasks()) {
        options.middleware.emplace_back(agents->middleware);
        return;
    }
    // `configure` may have removed the tool.
    if (std::any_of(tools.begin(), tools.end(),
                    [](const auto& tool) { return tool.name == "subagent"; }))
        tools.push_back(cubepi::detail::subagent_tasks_tool(agents->owner->shared));
    if (core_->options().waits_for_tasks)
        options.middleware.emplace_back(WaitForTasks{agents->owner->shared});
    options.middleware.emplace_back(agents->middleware);
    const auto running = state_.service<RunningTurn>();
    if (!running || !plan_.message) return;
    running->results_message = results_message(*run_message(), plan_.session_id);
}

Task<std::string> AgentTurn::system_prompt() {
    std::filesystem::path directory = core_->workspace_of(state_);
    const auto texts = co_await core_->project_texts(std::move(directory));
    // For the builtin plugin's part of the system prompt.
    state_.replace(texts);
    std::string text = co_await core_->framework().system_prompt(prompt_, state_);
    std::vector<Skill> skills = texts->skills;
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
