#include <bub/builtin/turn/agent_turn.hpp>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include <bub/builtin/client_tools.hpp>
#include <bub/builtin/tools/session_files.hpp>
#include <bub/builtin/tools/tool_names.hpp>
#include <bub/builtin/turn/earlier_turn.hpp>
#include <bub/tape/prompt_context.hpp>
#include <bub/tape/tape_checkpointer.hpp>
#include <bub/tape/tape_context.hpp>
#include <bub/tape/turn_lease.hpp>
#include <bub/turn_error.hpp>
#include <bub/turn_span.hpp>
#include <bub/turn_usage.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/middleware/goal.hpp>
#include <cubepi/middleware/todo_list.hpp>
#include <cubepi/workspace/memory_tool.hpp>
#include <cubepi/workspace/standard_tools.hpp>

// The lifecycle of a turn: its start, the agent with its model, memory, tools and prompt, its output, its end.

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

/// Shown text is in the journal after this delay; writing costs little compared with drawing a frame.
constexpr std::chrono::milliseconds shown_text_interval{50};

[[noreturn]] void throw_failure(const cubepi::Error& failure) {
    if (const auto* error = dynamic_cast<const cubepi::ProviderError*>(&failure)) {
        cubepi::throw_provider_error(error->info(), error->what());
    }
    if (dynamic_cast<const SessionTakenError*>(&failure)) throw SessionTakenError(failure.what());
    throw cubepi::Error(failure.code(), failure.what());
}

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

constexpr std::string_view late_mark =
    "[This message is late: it was sent before the messages above. Its turn was interrupted; what "
    "that turn had done is above.]";

/// The mark follows the context of the message, which users are not shown.
std::string late_text(std::string_view text) {
    const std::size_t context = text.size() - without_context(text).size();
    return std::string(text.substr(0, context)) + std::string(late_mark) + "\n" +
           std::string(text.substr(context));
}

/// Returns what the user wrote of a message.
std::string_view text_of_user(std::string_view text) {
    text = without_context(text);
    if (text.starts_with(late_mark))
        text.remove_prefix(std::min(late_mark.size() + 1, text.size()));
    return text;
}

Prompt marked_late(const Prompt& prompt) {
    if (const std::string* text = prompt.if_text()) return Prompt(late_text(*text));
    JsonArray parts = *prompt.if_parts();
    JsonObject* const first = parts.empty() ? nullptr : parts.front().if_object();
    Json* const text = first ? first->if_contains("text") : nullptr;
    if (text && text->is_string()) {
        *text = late_text(text->get_string());
    } else {
        JsonObject mark{{"type", "text"}, {"text", late_mark}};
        parts.insert(parts.begin(), Json(std::move(mark)));
    }
    return Prompt(std::move(parts));
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

void request_form(cubepi::PromptOptions& options, const AnswerForm& form) {
    cubepi::detail::AnswerRequest request;
    request.schema = form.schema;
    request.read = [on_answer = form.on_answer](const Json& value) {
        if (on_answer) on_answer(value);
        return std::vector<cubepi::SchemaIssue>();
    };
    cubepi::detail::PromptAccess::request_answer(options, std::move(request));
}

}  // namespace

const cubepi::AssistantMessage* last_answer(const cubepi::MessageList& messages) {
    const cubepi::AssistantMessage* answer = nullptr;
    for (const cubepi::Message& message : messages) {
        if (message.assistant()) answer = message.assistant();
    }
    return answer;
}

namespace {

/// Returns the texts of the complete answers.
std::vector<std::string> texts_of(const cubepi::MessageList& messages) {
    std::vector<std::string> texts;
    for (const cubepi::Message& message : messages) {
        const cubepi::AssistantMessage* const answer = message.assistant();
        if (!answer || is_broken_off(*answer)) continue;
        if (std::string text = answer->text(); !text.empty()) texts.push_back(std::move(text));
    }
    return texts;
}

}  // namespace

AgentTurn::AgentTurn(std::shared_ptr<BuiltinCore> core, Prompt prompt, AgentTurnPlan plan,
                     TurnState& state)
    : core_(std::move(core)), prompt_(std::move(prompt)), plan_(std::move(plan)), state_(state) {}

std::optional<StreamEvent> AgentTurn::ready() {
    if (events_.empty()) return std::nullopt;
    StreamEvent event = std::move(events_.front());
    events_.pop_front();
    return event;
}

Task<std::optional<StreamEvent>> AgentTurn::next() {
    while (true) {
        if (std::optional<StreamEvent> event = ready()) co_return event;
        if (over_) co_return std::nullopt;
        if (!std::exchange(begun_, true)) {
            co_await begin();
            continue;
        }
        std::optional<cubepi::AgentEvent> event = co_await next_event();
        if (over_) continue;
        if (event) {
            translate(*event);
        } else {
            co_await finish();
        }
    }
}

Task<> AgentTurn::begin() {
    // The run records the message. Recorded by the kernel when the tape cannot be opened, it would have neither its run nor its images.
    state_.mark_recorded();
    Tape tape = co_await core_->tape(plan_.session_id, state_);
    if (plan_.inherits) {
        message_id_ = std::string(inherited_prefix) + core_->runtime().ids->next();
        tape_.emplace(tape.in(plan_.inherits));
    } else {
        TurnTransactionOptions options;
        options.turn_id = core_->runtime().ids->next();
        options.runtime = core_->framework().runtime();
        options.flush_interval = shown_text_interval;
        options.meta = trace_meta(state_);
        fork_ = tape.fork(std::move(options));
        // From here on the tape has all that an earlier turn of the message has done, or no turn begins.
        co_await fork_->open();
        tape_.emplace(tape.in(fork_));
        co_await tape_->bootstrap();
        state_.replace(std::make_shared<RunningTurn>(RunningTurn{fork_}));
    }
    state_.replace(std::make_shared<Tape>(*tape_));
    co_await recognize_answer();
    if (plan_.answer) co_await answer_task();
    if (over_) co_return;
    if (plan_.answer) {
        co_await continue_answered_run();
    } else if (!plan_.input_id.empty()) {
        co_await recover_input();
    }
    if (!over_) co_await start_agent();
}

/// The input may have been received before, by a process that died (D42). Its run continues only at the end of the tape: after
/// another input has followed, the message is repeated in a run of its own (D90).
Task<> AgentTurn::recover_input() {
    message_id_ = plan_.input_id;
    const std::optional<EarlierTurn> earlier = co_await find_earlier_turn(*tape_, message_id_);
    if (!earlier) co_return;
    require_same_request(*earlier, plan_.message);
    message_id_ = earlier->message_id;
    if (earlier->superseded && !earlier->answered) {
        message_id_ = next_message_id(message_id_);
        prompt_ = marked_late(prompt_);
        co_return;
    }
    run_id_ = earlier->run_id;
    over_ = earlier->answered;
    if (over_) status_ = TurnStatus::ok;
    if (over_ && earlier->joined) {
        // The turn to which it was added has answered it.
        state_.mark_silent();
        co_return;
    }
    if (over_) {
        repeat_answers(earlier->texts, earlier->last);
    } else {
        for (const std::string& text : earlier->texts) repeat(text);
    }
}

/// Ends the turn with answers that an earlier one has made.
void AgentTurn::repeat_answers(const std::vector<std::string>& texts,
                               const std::optional<cubepi::AssistantMessage>& last) {
    if (!has_text_)
        for (const std::string& text : texts) repeat(text);
    JsonObject data;
    data["ok"] = !texts.empty();
    data["text"] = texts.empty() ? std::string() : texts.back();
    push(event_kind::final, std::move(data), nullptr);
    if (last) finish_answer(*last);
    const bool explained = last && cubepi::answer_end(*last) != cubepi::AnswerEnd::complete;
    if (explained || !texts.empty()) return;
    JsonObject silence;
    silence["kind"] = "temporary";
    silence["message"] = "the turn was over without an answer";
    push(event_kind::error, std::move(silence), nullptr);
}

void AgentTurn::repeat(std::string text) {
    if (std::exchange(has_text_, true)) events_.push_back(StreamEvent::text("\n\n"));
    events_.push_back(StreamEvent::text(std::move(text)));
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
    for (cubepi::AgentTool& tool : session_tools(core_, *tape_, plan_.session_id, state_)) {
        tools.push_back(std::move(tool));
    }
    const BuiltinOptions& chosen = core_->options();
    if (chosen.memory != MemoryScope::none && !plan_.is_subagent &&
        !is_temporary(plan_.session_id)) {
        tools.push_back(cubepi::memory_tool(
            memory_directory(chosen.home, directory, plan_.session_id, chosen.memory)));
    }
    if (core_->options().files && plan_.message && !plan_.is_subagent)
        tools.push_back(send_file_tool(core_, plan_.session_id, *plan_.message, directory));
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
        const std::vector<cubepi::PendingRequest> pending =
            co_await memory.load_pending_requests(tape_->name());
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

void AgentTurn::make_agent(cubepi::AgentOptions options) {
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
}

cubepi::PromptOptions AgentTurn::run_options(std::string run_id) const {
    cubepi::PromptOptions origin = plan_.parent.value_or(cubepi::PromptOptions());
    cubepi::PromptOptions how = std::move(origin).run_id(std::move(run_id));
    if (plan_.parent) return how;
    cubepi::TraceContext trace = trace_of_run(state_, plan_.message);
    if (trace.empty()) return how;
    return std::move(how).tracing_context(std::move(trace));
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

Task<> AgentTurn::start_agent() {
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
    options.reasoning = reasoning_of(state_);
    options.runtime = core_->framework().runtime();
    const TurnContext occasion{plan_.session_id, directory, state_, plan_.message,
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
    make_agent(std::move(options));
    // The same view of the conversation, which is its cached prefix.
    for (const auto& [key, value] : inherited_) {
        if (key.starts_with("compaction")) agent_->set_extra(key, value);
    }
    agent_->subscribe([this](const cubepi::AgentEvent& event, const std::stop_token& aborted) {
        return on_agent_event(event, aborted);
    });
    if (chosen.on_agent && !plan_.is_subagent) chosen.on_agent(agent_, occasion);
    cubepi::MessageList inputs;
    if (plan_.receives_results) {
        inputs = co_await open_results();
        if (inputs.empty()) co_return end_silently();
    } else {
        cubepi::Message message = user_message_of(prompt_);
        // A run that continues has its prompt.
        const bool is_new = !plan_.is_subagent && !plan_.answer && run_id_.empty();
        if (is_new) {
            const std::string refused = co_await submit(message);
            if (!refused.empty()) co_return say_and_end(refused);
        }
        if (!message_id_.empty()) message = std::move(message).with_id(message_id_);
        if (const std::string digest = request_digest(plan_.message); !digest.empty()) {
            cubepi::UserMessage marked = *message.user();
            marked.metadata[request_digest_key] = digest;
            message = std::move(marked);
        }
        inputs.push_back(std::move(message));
    }
    cubepi::PromptOptions how = run_options(run_id_);
    if (has_form) request_form(how, *chosen.answer_form);
    if (plan_.message && !plan_.is_subagent && run_id_.empty()) {
        if (std::optional<cubepi::ToolChoice> choice = client_choice_of(plan_.message->rest))
            how = std::move(how).tool_choice(std::move(*choice));
    }
    co_await start_run(std::move(inputs), std::move(how));
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

/// Passes a message of the user to the hooks, which may add context to it. Returns why it is not sent; empty: it is.
Task<std::string> AgentTurn::submit(cubepi::Message& message) {
    if (!hooks_) co_return std::string();
    std::string text(text_of_user(message.text()));
    HookReply reply = co_await hooks_->submit_prompt(std::move(text));
    if (reply.blocks) co_return "A hook of the user has blocked the message: " + reply.reason;
    if (reply.context.empty()) co_return std::string();
    cubepi::UserMessage more = *message.user();
    more.content.emplace_back(
        cubepi::TextContent{"[Context from a hook of the user]\n" + reply.context});
    message = std::move(more);
    co_return std::string();
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

void AgentTurn::report(const cubepi::RunResult& result) {
    if (!core_->options().on_result || plan_.is_subagent) return;
    const std::filesystem::path directory = core_->workspace_of(state_);
    const TurnContext occasion{plan_.session_id, directory, state_, plan_.message};
    core_->options().on_result(result, occasion);
}

Task<> AgentTurn::finish() {
    cubepi::RunResult result = co_await run_->result();
    report(result);
    if (plan_.inherits) made_ = result.new_messages;
    if (result) {
        const cubepi::AssistantMessage* const answer = last_answer(result.new_messages);
        if (!has_step_) {
            // The run had ended before (D42).
            std::optional<cubepi::AssistantMessage> last;
            if (answer) last = *answer;
            repeat_answers(texts_of(result.new_messages), last);
        } else if (answer) {
            finish_answer(*answer);
        }
        status_ = TurnStatus::ok;
        over_ = true;
        co_return;
    }
    if (result.outcome == cubepi::RunOutcome::suspended && result.pending_requests.empty()) {
        // Its questions are answered: a process was killed before it continued.
        run_.emplace(agent_->start_resume(run_options("")));
        co_return;
    }
    if (result.outcome == cubepi::RunOutcome::suspended) {
        end_suspended(std::move(result.pending_requests));
        co_return;
    }
    if (result.outcome == cubepi::RunOutcome::aborted) cubepi::throw_cancelled();
    const cubepi::Error& failure = result.error();
    over_ = true;
    if (result.outcome == cubepi::RunOutcome::failed) {
        status_ = TurnStatus::error;
        throw_failure(failure);
    }
    // A limit was reached: the turn ends with the output so far.
    status_ = TurnStatus::ok;
    JsonObject data;
    data["kind"] = "temporary";
    data["message"] = failure.what();
    if (const auto* reached = dynamic_cast<const cubepi::LimitReachedError*>(&failure))
        data["limit"] = reached->limit();
    push(event_kind::error, std::move(data), nullptr);
}

/// Reports an answer that is not complete (D87): to the parent of a subagent, or with the outputs of the turn.
void AgentTurn::finish_answer(const cubepi::AssistantMessage& answer) {
    TurnFinish finish{cubepi::answer_end(answer), cubepi::answer_end_text(answer)};
    if (!plan_.is_subagent) {
        state_.replace(std::make_shared<TurnFinish>(std::move(finish)));
    } else if (!finish.problem.empty()) {
        JsonObject data;
        data["kind"] = "provider";
        data["message"] = std::move(finish.problem);
        push(event_kind::error, std::move(data), nullptr);
    }
}

/// Appends the messages of a turn that inherits after those of its outer turn.
Task<> AgentTurn::keep_inherited() {
    if (made_.empty()) co_return;
    const std::shared_ptr<TurnTransaction> own =
        std::make_shared<TurnTransaction>(plan_.inherits, plan_.inherits->tape());
    TapeCheckpointer memory(own);
    cubepi::AppendOptions options;
    cubepi::MessageList made = std::move(made_);
    made_.clear();
    (void)co_await memory.append(own->tape(), std::move(made), std::move(options));
    std::vector<TapeEntry> entries = own->entries();
    co_await plan_.inherits->append_behind(std::move(entries));
    co_await own->discard();
}

Task<> AgentTurn::close() {
    if (!tape_ || std::exchange(closed_, true)) co_return;
    run_.reset();  // aborts the current run, whose last step goes to the tape
    co_await wait_for_run();
    if (notifying_) co_await notifying_->idle();
    agent_.reset();
    tape_.reset();
    if (plan_.inherits) {
        co_await keep_inherited();
        co_return;
    }
    const std::shared_ptr<TurnTransaction> fork = std::exchange(fork_, nullptr);
    const std::shared_ptr<RunningTurn> running = state_.service<RunningTurn>();
    state_.replace(std::make_shared<RunningTurn>());
    // Later readers of the tape in this turn must see the tape into which the fork was merged.
    Tape after = co_await core_->tape(plan_.session_id, state_);
    state_.replace(std::make_shared<Tape>(std::move(after)));
    core_->release_session(plan_.session_id);
    // A turn whose answer was stale has done nothing, and its record of the answer is not true.
    if (is_temporary(plan_.session_id) || is_stale_) {
        co_await fork->discard();
    } else {
        co_await fork->merge(status_);
        // Also of a turn that is suspended: the results of calls that have ended are on the tape.
        if (running) co_await remove_tapes(std::move(running->ended_tapes));
    }
}

/// Waits for the end of the run. It uses this object, the state of the turn and the framework until then, also when the time for the end
/// of a cancelled turn is over: a cancellation does not interrupt the wait.
Task<> AgentTurn::wait_for_run() {
    const bool throws = co_await cubepi::detail::throws_when_cancelled;
    co_await cubepi::detail::throw_when_cancelled(false);
    std::exception_ptr failure;
    for (bool waits = agent_ != nullptr; waits;) {
        const cubepi::Outcome<> idle = co_await cubepi::outcome_of(agent_->wait_for_idle());
        waits = idle.cancelled();
        failure = idle.failure();
    }
    co_await cubepi::detail::throw_when_cancelled(throws);
    if (failure) std::rethrow_exception(failure);
}

/// Removes the tapes of subagents whose results are on the tape of this turn.
Task<> AgentTurn::remove_tapes(std::vector<std::string> tapes) {
    if (tapes.empty()) co_return;
    const std::shared_ptr<TapeStore> store = co_await core_->store(state_);
    for (std::string& tape : tapes) co_await store->reset(std::move(tape));
}

}  // namespace bub::detail
