#include <bub/builtin/tools/subagent_tool.hpp>

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include <bub/builtin/tools/tool_names.hpp>
#include <bub/builtin/turn/agent_turn.hpp>
#include <bub/questions.hpp>
#include <bub/session_tape.hpp>
#include <bub/tape/tape_checkpointer.hpp>
#include <cubepi/agent/hitl_channel.hpp>
#include <cubepi/agent/run/prompt_work.hpp>
#include <cubepi/agent/run/suspended_cost.hpp>
#include <cubepi/agent/transcript.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/support/base64.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/core/support/lower_case.hpp>
#include <cubepi/net/utf8.hpp>
#include <cubepi/provider/cost.hpp>
#include <cubepi/schema/json_convert.hpp>
#include <cubepi/schema/json_schema.hpp>

// The tool `subagent`: sub-agents whose runs are turns with a tape of their own. Their limits, their money, their questions and those
// in the background are the ones of the middleware (cubepi/middleware/subagents.hpp).

namespace bub::detail {

namespace {

using cubepi::AgentTool;
using cubepi::AgentToolResult;
using cubepi::ErrorCode;
using cubepi::SubagentResult;
using cubepi::detail::BackgroundTask;

constexpr std::string_view results_text = "(results of sub-agents)";
/// Of a task, for the user.
constexpr std::size_t longest_description = 80;

struct SubagentArgs {
    std::variant<std::string, std::vector<JsonObject>> prompt;
    std::optional<std::string> model;
    std::string session = "temp";
    std::optional<std::vector<std::string>> allowed_tools;
    std::optional<std::vector<std::string>> allowed_skills;
    std::optional<std::string> name;
    std::optional<bool> run_in_background;

    static void describe_fields(cubepi::FieldNotes& fields) {
        fields.describe("prompt", "The task, with all that the agent has to know of it.")
            .describe("model", "Another model's id. Default: the one of this conversation.")
            .describe("session",
                      "temp: nothing of it is kept. inherit: it knows this conversation, and what "
                      "it says stays in it. Any other text: a conversation of that name within "
                      "this one, which it continues with.")
            .describe("allowed_tools", "The tools that it may use. Default: all but this one.")
            .describe("allowed_skills", "The skills listed in its prompt. Default: all.")
            .describe("name", "A short name, for the user.")
            .describe("run_in_background", cubepi::detail::background_text);
    }
};

/// Returns the schema for a session without sub-agents in the background.
const cubepi::JsonSchema& foreground_schema() {
    static const cubepi::JsonSchema schema = [] {
        Json made = cubepi::json_schema_of<SubagentArgs>();
        made.as_object().at("properties").as_object().erase("run_in_background");
        return cubepi::JsonSchema(std::move(made));
    }();
    return schema;
}

Prompt prompt_of(const SubagentArgs& args) {
    if (const auto* text = std::get_if<std::string>(&args.prompt)) return Prompt(*text);
    JsonArray parts;
    for (const JsonObject& part : std::get<std::vector<JsonObject>>(args.prompt)) {
        parts.emplace_back(part);
    }
    return Prompt(std::move(parts));
}

/// Returns true if all pictures of the prompt are in it. The endpoint of the model would fetch a URL, which no rule and no hook has
/// seen.
bool has_own_pictures(const SubagentArgs& args) {
    const auto* const parts = std::get_if<std::vector<JsonObject>>(&args.prompt);
    if (!parts) return true;
    for (const JsonObject& part : *parts) {
        for (const auto& [key, value] : part) {
            if (!key.ends_with("url")) continue;
            const std::string url = value.is_object()
                                        ? cubepi::detail::text_member(value.get_object(), "url")
                                        : cubepi::detail::text_member(part, key);
            constexpr std::string_view mark = ";base64,";
            const std::size_t end = url.find(mark);
            if (!url.starts_with("data:") || end == std::string::npos ||
                !cubepi::detail::is_base64(std::string_view(url).substr(end + mark.size())))
                return false;
        }
    }
    return true;
}

/// Returns true if the caller may choose the model: an operator, whose command has no run, may choose any.
bool may_use_model(const BuiltinOptions& options, const TurnState& parent, const std::string& id,
                   const cubepi::ToolContext& caller) {
    return id.empty() || !options.may_name_model || caller.run().run_id.empty() ||
           id == parent.text("model") || options.may_name_model(id);
}

/// Returns true if the sub-agent continues the conversation of its parent.
bool is_inherited(std::string_view session, std::string_view session_id) {
    return session == "inherit" || session == session_id;
}

cubepi::SubagentLimits of_session(cubepi::SubagentLimits limits) {
    limits.max_total = 0;
    limits.max_spend = 0;
    return limits;
}

/// Returns the limits of the sub-agent of a call: others that run at the same time must find money, too (D127).
cubepi::AgentLimits share_of(const AgentsOfSession& agents, const std::string& call_key) {
    cubepi::AgentLimits limits;
    const cubepi::detail::SubagentCounts& counts = *agents.prompt;
    const double most = agents.limits.max_spend;
    const auto known = counts.calls.find(call_key);
    const bool is_left = known != counts.calls.end() &&
                         known->second.state == cubepi::detail::SubagentCounts::State::left;
    const double counted = is_left ? known->second.cost.value_or(0.0) : 0.0;
    if (agents.limits.max_background != 0 && most > 0) {
        limits.max_spend =
            (most - counts.spent.cost.value_or(most) - counts.reserved + counted) / 2;
    }
    return limits;
}

/// Returns the channel of the caller's run if its requests are stored, so that a run that waits can be suspended; else null.
std::shared_ptr<cubepi::HitlChannel> durable_channel(const cubepi::ToolContext& caller) {
    if (caller.call_key().empty()) return nullptr;
    try {
        std::shared_ptr<cubepi::HitlChannel> channel = caller.channel();
        return channel->is_durable() ? channel : nullptr;
    } catch (const cubepi::Error& error) {
        if (error.code() != ErrorCode::no_channel) throw;
        return nullptr;
    }
}

/// A sub-agent of one tool call: its session, and the turns that it consists of. A question suspends its run; the call asks it
/// on the channel of its own run, which may be suspended too, and the answer is another turn of the sub-agent. If the body of
/// the tool begins again after a restart, its turns are found on the tape of the sub-agent.
class Subagent {
public:
    /// `parent` and `caller` are not used later in the background, else they must outlive the object. `task`: in the background;
    /// else null. Throws Error(busy) if another call uses the conversation, and Error(limit).
    Subagent(std::shared_ptr<BuiltinCore> core, const TurnState& parent,
             const std::string& session_id, SubagentArgs args, cubepi::ToolContext& caller,
             std::shared_ptr<BackgroundTask> task);
    Subagent(const Subagent&) = delete;
    Subagent& operator=(const Subagent&) = delete;
    ~Subagent();

    Task<SubagentResult> run();
    JsonObject work_of(const SubagentResult& result) const;

private:
    void choose_session();
    TurnState child_state() const;
    Task<> work();
    Task<> turn(std::optional<Answer> answer);
    Task<> read_answer(AgentTurn& turn);
    Task<> note(cubepi::AgentEvent event, std::shared_ptr<const cubepi::Model> model);
    void note_call(const cubepi::ToolExecutionStartEvent& call);
    Task<> note_questions(const TurnState& state);
    Task<> count_earlier_attempts(std::string tape);
    Task<> shorten();
    Task<Answer> ask(cubepi::HitlRequest request);

    std::shared_ptr<BuiltinCore> core_;
    const TurnState parent_;
    const std::string session_id_;  ///< of the caller
    SubagentArgs args_;
    const std::shared_ptr<BackgroundTask> task_;
    cubepi::ToolContext* const caller_;  ///< null in the background
    const std::string call_key_;
    std::shared_ptr<cubepi::HitlChannel>
        channel_;                           ///< of the caller; null if its run cannot be suspended
    std::shared_ptr<RunningTurn> running_;  ///< of the caller; null if it has none
    std::shared_ptr<AgentsOfSession> agents_;
    cubepi::detail::SubagentSlot slot_;
    cubepi::detail::SubagentSlot budget_;  ///< of the user's prompt
    AgentTurnPlan plan_;
    SubagentResult result_;
    cubepi::detail::SubagentMeter meter_;
    std::shared_ptr<const cubepi::Model> model_;  ///< of its last run; null: it has not run yet
    std::int64_t calls_ = 0;
    JsonObject call_;                        ///< the last one, for those who watch
    std::vector<cubepi::HitlRequest> open_;  ///< the questions of its last turn
    std::string asking_message_;             ///< the id of the message whose calls ask them
    bool unread_ = false;                    ///< they are older than the prompt of that turn
    std::optional<double> earlier_cost_ =
        0.0;  ///< USD, of the run that this call continues, before it; absent: unknown
};

Subagent::Subagent(std::shared_ptr<BuiltinCore> core, const TurnState& parent,
                   const std::string& session_id, SubagentArgs args, cubepi::ToolContext& caller,
                   std::shared_ptr<BackgroundTask> task)
    : core_(std::move(core)),
      parent_(parent.child()),
      session_id_(session_id),
      args_(std::move(args)),
      task_(std::move(task)),
      caller_(task_ ? nullptr : &caller),
      call_key_(caller.call_key()),
      channel_(task_ ? nullptr : durable_channel(caller)),
      running_(parent_.service<RunningTurn>()),
      agents_(core_->agents(session_id)),
      slot_(agents_->owner->shared, cubepi::AgentLimits()),
      budget_(agents_->prompt, share_of(*agents_, caller.call_key()), caller.call_key()),
      meter_(result_, task_) {
    result_.agent_id = "subagent:" + caller.tool_call_id().str();
    if (task_) task_->most = budget_.reserved();
    plan_.is_subagent = true;
    plan_.in_background = task_ != nullptr;
    if (task_ && running_) plan_.asks_in = running_->results_message;
    plan_.name = args_.name.value_or("");
    plan_.call_key = call_key_.empty() ? core_->runtime().ids->next() : call_key_;
    plan_.max_spend = budget_.limits().max_spend;
    // A comma command calls the tool without a run.
    if (!caller.run().run_id.empty()) plan_.parent = cubepi::detail::origin_of(caller, task_.get());
    plan_.on_event = [this](cubepi::AgentEvent event, std::shared_ptr<const cubepi::Model> model) {
        return note(std::move(event), std::move(model));
    };
    if (running_) {
        plan_.policy = running_->policy;
        plan_.asker = running_->asker;
        plan_.endpoint = running_->endpoint;
    }
    plan_.model_id = args_.model.value_or("");
    choose_session();
    plan_.can_suspend = channel_ && !plan_.inherits;
    // Without a tape of its own, what it has done before is not known, and must not be done twice.
    if (caller.is_repeated() && !plan_.can_suspend)
        throw cubepi::Error(ErrorCode::invalid_state, std::string(cubepi::interrupted_call_text));
    if (plan_.can_suspend) plan_.input_id = "subagent/" + call_key_;
    if (args_.allowed_tools && !args_.allowed_tools->empty()) {
        plan_.allowed_tools.emplace(args_.allowed_tools->begin(), args_.allowed_tools->end());
    }
    if (args_.allowed_skills) {
        plan_.allowed_skills.emplace();
        for (const std::string& name : *args_.allowed_skills)
            plan_.allowed_skills->insert(cubepi::detail::lower_case(name));
    }
    if (!plan_.inherits && !agents_->conversations.insert(plan_.session_id).second) {
        throw cubepi::Error(ErrorCode::busy,
                            "the conversation '" + args_.session +
                                "' is in use by another call; make one call after the other");
    }
}

void Subagent::choose_session() {
    if (is_inherited(args_.session, session_id_)) {
        plan_.session_id = session_id_;
        if (task_) {
            throw cubepi::Error(ErrorCode::invalid_argument,
                                "a sub-agent in the background cannot inherit this conversation; "
                                "leave `session` out, or give a name");
        }
        if (running_) plan_.inherits = running_->fork;
        if (!plan_.inherits) {
            throw cubepi::Error(
                ErrorCode::invalid_state,
                "there is no turn in progress to inherit; leave `session` out, or give a name");
        }
    } else if (args_.session != "temp" && !args_.session.empty()) {
        // The name is one within this conversation: other sessions belong to other users.
        plan_.session_id = session_id_ + "/agent/" + args_.session;
    } else if (channel_) {
        plan_.session_id = session_id_ + "/call/" + call_key_;
        plan_.is_removed = true;
    } else {
        plan_.session_id = "temp/" + core_->runtime().ids->next();
    }
}

Subagent::~Subagent() {
    if (!plan_.inherits) agents_->conversations.erase(plan_.session_id);
}

TurnState Subagent::child_state() const {
    TurnState state = parent_.child();
    state.values["session_id"] = plan_.session_id;
    state.values.erase("_runtime_thread_id");
    // In the background it outlives the lease of the turn that has started it.
    if (plan_.in_background) {
        auto tapes = std::make_shared<TurnTapes>();
        if (const auto own = parent_.service<TurnTapes>()) tapes->base = own->base;
        state.replace(std::move(tapes));
    }
    if (!plan_.model_id.empty()) state.values["model"] = plan_.model_id;
    if (plan_.allowed_skills) {
        JsonArray list(plan_.allowed_skills->begin(), plan_.allowed_skills->end());
        state.values["allowed_skills"] = std::move(list);
    }
    return state;
}

/// Returns how much it has done. `result` is its own, or that of run().
JsonObject Subagent::work_of(const SubagentResult& result) const {
    JsonObject work = cubepi::detail::work_json(result);
    if (calls_ > 0) work["calls"] = calls_;
    return work;
}

/// Notes a call for display: its texts are shortened.
void Subagent::note_call(const cubepi::ToolExecutionStartEvent& call) {
    constexpr std::size_t longest_text = 400;
    ++calls_;
    JsonObject arguments;
    for (const auto& [key, value] : call.args) {
        if (!value.is_primitive()) continue;
        if (!value.is_string()) {
            arguments[key] = value;
            continue;
        }
        const std::string_view text = std::string_view(value.get_string()).substr(0, longest_text);
        arguments[key] = text.substr(0, cubepi::complete_utf8_prefix(text));
    }
    call_ = JsonObject{{"tool", call.tool_name.str()}, {"arguments", std::move(arguments)}};
}

/// Shows the progress to those who watch the call, or the tasks of the session.
Task<> Subagent::note(cubepi::AgentEvent event, std::shared_ptr<const cubepi::Model> model) {
    if (event.run) result_.run_id = event.run->run_id;
    model_ = model;
    const auto* const call = event.get_if<cubepi::ToolExecutionStartEvent>();
    if (call) note_call(*call);
    const bool has_more_work = meter_.note(event, *model);
    if (!has_more_work && !call) co_return;
    if (caller_) {
        JsonObject shown = work_of(result_);
        if (!call_.empty()) shown["call"] = call_;
        Json progress = JsonObject{{"subagent", std::move(shown)}};
        co_await caller_->update(std::move(progress));
    } else if (const auto& changed = core_->options().on_tasks;
               changed && !agents_->owner->shared->closed) {
        changed(session_id_);
    }
}

Task<> Subagent::read_answer(AgentTurn& turn) {
    while (std::optional<StreamEvent> event = co_await turn.next()) {
        if (event->kind == event_kind::text) {
            result_.text += event->delta();
        } else if (event->kind == event_kind::error) {
            if (!result_.error.empty()) result_.error += "; ";
            result_.error += error_from_event(event->data).message();
        }
    }
}

/// Runs a turn, which is closed on every path. A failure is its error.
Task<> Subagent::turn(std::optional<Answer> answer) {
    TurnState state = child_state();
    AgentTurnPlan plan = plan_;
    if (answer) plan.input_id.clear();
    plan.answer = std::move(answer);
    Prompt prompt = plan.answer ? Prompt() : prompt_of(args_);
    result_.text.clear();
    result_.error.clear();
    AgentTurn turn(core_, std::move(prompt), std::move(plan), state);
    const cubepi::Outcome<> read = co_await cubepi::outcome_of(read_answer(turn));
    if (read.cancelled()) co_await cubepi::shield();
    co_await turn.close();
    if (read.cancelled()) co_await cubepi::unshield();
    if (read.cancelled()) read.rethrow();
    if (!read) result_.error = describe(read.failure());
    co_await note_questions(state);
}

/// Notes the questions with which a turn has ended. `state` is that of the turn.
Task<> Subagent::note_questions(const TurnState& state) {
    open_.clear();
    unread_ = false;
    const std::shared_ptr<OpenQuestions> open = state.service<OpenQuestions>();
    if (!open && !plan_.is_removed) co_return;
    const Tape tape = co_await core_->tape(plan_.session_id, state);
    if (!open) {
        if (running_) running_->ended_tapes.push_back(tape.name());
        const bool was_killed = caller_ && caller_->is_repeated() && earlier_cost_ == 0.0;
        if (was_killed) co_await count_earlier_attempts(tape.name());
        co_return;
    }
    open_ = open->requests;
    unread_ = open->unread;
    std::shared_ptr<TapeStore> store = co_await core_->store(state);
    TapeCheckpointer memory(std::move(store));
    const std::optional<cubepi::CheckpointData> stored = co_await memory.load(tape.name());
    if (!stored) co_return;
    const bool continues = caller_ && caller_->is_repeated() && result_.turns == 0 && !unread_;
    if (continues) earlier_cost_ = cubepi::detail::suspended_cost(stored->extra);
    for (const cubepi::Message& message : stored->messages) {
        const cubepi::AssistantMessage* const answer = message.assistant();
        if (answer && answer->has_tool_calls()) asking_message_ = message.id();
    }
}

/// Counts what the answers on the tape of a call that is repeated have cost before.
Task<> Subagent::count_earlier_attempts(std::string tape) {
    std::shared_ptr<TapeStore> store = co_await core_->store(parent_);
    TapeCheckpointer memory(std::move(store));
    const std::optional<cubepi::CheckpointData> stored = co_await memory.load(std::move(tape));
    if (!stored) co_return;
    if (!model_) model_ = core_->model(child_state()).shared_spec();
    std::optional<double> all = 0.0;
    for (const cubepi::Message& message : stored->messages) {
        const std::optional<double> cost = cubepi::detail::cost_in_history(message, *model_);
        all = all && cost ? std::optional(*all + *cost) : std::nullopt;
    }
    earlier_cost_.reset();
    if (all && result_.cost) earlier_cost_ = std::max(0.0, *all - *result_.cost);
}

/// Asks a question of the sub-agent on the channel of the caller. Its id there names the message of the sub-agent, too: an id
/// that the endpoint repeats, or a question that is asked again, is another question (D83).
Task<Answer> Subagent::ask(cubepi::HitlRequest request) {
    Answer given;
    given.question = question_name(request);
    std::string id = call_key_ + "/" + asking_message_ + "/" + request.question_id;
    cubepi::HitlOptions options =
        cubepi::detail::forward_question(request, plan_.name, std::move(id));
    given.value = co_await channel_->request(std::move(request.payload), std::move(options));
    co_return given;
}

/// Its permissions are those of its parent at most; its model and its session do not affect the parent. Its prompt is never a
/// command (B11).
Task<> Subagent::work() {
    co_await turn(std::nullopt);
    if (unread_) {
        // A call that was abandoned has left its questions in this conversation.
        Answer close;
        close.action = AnswerAction::abandon;
        std::optional<Answer> closing(std::move(close));
        co_await turn(std::move(closing));
        co_await turn(std::nullopt);
    }
    while (!open_.empty()) {
        cubepi::HitlRequest request = open_.front();
        Task<Answer> asking = ask(std::move(request));
        cubepi::Outcome<Answer> answered = co_await cubepi::outcome_of(std::move(asking));
        const std::exception_ptr failure = answered.failure();
        if (answered.cancelled()) answered.rethrow();
        std::optional<Answer> answer;
        if (!failure) {
            answer = std::move(answered).value();
        } else {
            // The question was cancelled, or its time is over: the run that waits for it is closed.
            answer.emplace();
            answer->action = AnswerAction::abandon;
        }
        co_await turn(std::move(answer));
        if (!failure) continue;
        result_.text.clear();
        result_.error = "the sub-agent has ended: " + cubepi::exception_text(failure);
        co_return;
    }
}

Task<SubagentResult> Subagent::run() {
    Task<> working = work();
    if (task_) working = cubepi::cancel_on(task_->stop.get_token(), std::move(working));
    cubepi::Outcome<> ended = co_await cubepi::outcome_of(std::move(working));
    budget_.spend(result_, earlier_cost_, ended.cancelled() && !task_);
    if (!ended.ok() && !(ended.cancelled() && task_)) ended.rethrow();
    if (ended.cancelled()) {
        result_.outcome = cubepi::RunOutcome::aborted;
        result_.error = "it was cancelled";
    } else if (!result_.error.empty()) {
        result_.outcome = cubepi::RunOutcome::failed;
    }
    if (task_) co_await shorten();
    co_return std::move(result_);
}

/// In the foreground the agent shortens the result of the call.
Task<> Subagent::shorten() {
    std::shared_ptr<cubepi::SpillSink> spill;
    if (core_->options().with_tools || core_->options().shell.spill)
        spill = core_->spill(core_->workspace_of(parent_));
    const std::size_t limit = cubepi::SubagentOptions().max_result_chars;
    Task<std::string> shortening = cubepi::detail::limited_result(
        core_->framework().runtime(), std::move(spill), call_key_, limit, std::move(result_.text));
    result_.text = co_await std::move(shortening);
}

Task<SubagentResult> run_owned(std::unique_ptr<Subagent> agent) { co_return co_await agent->run(); }

std::string description_of(const Prompt& prompt) {
    std::string text = prompt.text();
    text.resize(std::min(text.find_first_of("\r\n"), text.size()));
    return cubepi::replace_broken_utf8(text.substr(0, longest_description));
}

Task<AgentToolResult> start_in_background(std::shared_ptr<BuiltinCore> core, TurnState* parent,
                                          std::string session_id, SubagentArgs args,
                                          cubepi::ToolContext* caller) {
    const auto running = parent->service<RunningTurn>();
    if (core->options().subagents.max_background == 0 || is_temporary(session_id) || !running ||
        caller->run().run_id.empty())
        co_return AgentToolResult::error("a sub-agent cannot run in the background here");
    const cubepi::Executor executor = co_await cubepi::this_executor;
    const std::shared_ptr<AgentsOfSession> agents = core->agents(session_id);
    auto task = std::make_shared<BackgroundTask>();
    task->name = args.name.value_or("");
    task->type = "agent";
    task->task = description_of(prompt_of(args));
    const auto make = [&] {
        return run_owned(
            std::make_unique<Subagent>(core, *parent, session_id, std::move(args), *caller, task));
    };
    AgentToolResult result =
        cubepi::detail::start_subagent_task(*agents->owner, executor, task, *caller, make);
    if (running->results_message) {
        Envelope& message = agents->messages[task->id];
        message = *running->results_message;
        if (const auto& expect = core->options().expect_results) {
            message.held = std::make_shared<HeldTurn>();
            expect(message);
        }
    }
    if (const auto& changed = core->options().on_tasks) changed(session_id);
    co_return result;
}

/// The work of such a sub-agent is lost with the turn of its parent, so it must not be done again either.
cubepi::ReplayPolicy replay_policy_of(const cubepi::JsonObject& arguments,
                                      std::string_view session_id) {
    const Json* const session = arguments.if_contains("session");
    if (session && session->is_string() && is_inherited(session->get_string(), session_id))
        return cubepi::ReplayPolicy::never;
    return cubepi::detail::subagent_replay_policy(arguments);
}

Task<AgentToolResult> call_subagent(std::shared_ptr<BuiltinCore> core, TurnState* parent,
                                    std::string session_id, SubagentArgs args,
                                    cubepi::ToolContext* caller) {
    if (prompt_of(args).empty()) co_return AgentToolResult::error("the prompt is empty");
    if (!has_own_pictures(args)) {
        co_return AgentToolResult::error(
            "a picture in the prompt is not a data URL with base64; call fetch for another address "
            "and describe it in the prompt");
    }
    if (!may_use_model(core->options(), *parent, args.model.value_or(""), *caller)) {
        co_return AgentToolResult::error("the model '" + *args.model +
                                         "' is not one that sub-agents may have here; leave "
                                         "`model` out");
    }
    if (args.run_in_background.value_or(false)) {
        co_return co_await start_in_background(std::move(core), parent, std::move(session_id),
                                               std::move(args), caller);
    }
    const std::shared_ptr<cubepi::detail::SubagentCounts> counts = core->agents(session_id)->prompt;
    Subagent agent(std::move(core), *parent, session_id, std::move(args), *caller, nullptr);
    SubagentResult ended = co_await agent.run();
    JsonObject work = agent.work_of(ended);
    JsonObject counted = cubepi::detail::counted_call(*counts, caller->call_key());
    AgentToolResult result = cubepi::detail::result_of(std::move(ended), std::move(counted));
    result.details.as_object()["subagent"] = std::move(work);
    co_return result;
}

}  // namespace

AgentsOfSession::AgentsOfSession(const cubepi::SubagentLimits& chosen,
                                 std::function<void(const cubepi::SubagentTask&)> on_end)
    : limits(chosen),
      owner(std::make_shared<cubepi::detail::SubagentOwner>(
          std::make_shared<cubepi::detail::SubagentTasks>(of_session(chosen), std::move(on_end)))),
      middleware(owner) {
    begin_prompt();
}

void AgentsOfSession::begin_prompt() {
    cubepi::SubagentLimits of_prompt = limits;
    of_prompt.max_running = 0;
    prompt = std::make_shared<cubepi::detail::SubagentCounts>(of_prompt);
    // The history of its turns says what processes that were killed have used.
    owner->counts = prompt;
}

std::vector<cubepi::HitlRequest> AgentsOfSession::new_questions() const {
    std::vector<cubepi::HitlRequest> found = questions->pending();
    std::erase_if(found,
                  [&](const auto& one) { return shown_questions_.contains(one.request_id); });
    return found;
}

void AgentsOfSession::note_shown(const std::vector<cubepi::HitlRequest>& shown) {
    std::set<std::string> open;
    for (const cubepi::HitlRequest& one : questions->pending()) open.insert(one.request_id);
    for (const cubepi::HitlRequest& one : shown) shown_questions_.insert(one.request_id);
    // Those that are over are forgotten.
    std::erase_if(shown_questions_, [&](const std::string& id) { return !open.contains(id); });
}

Task<Json> TaskQuestionChannel::request(cubepi::HitlPayload payload, cubepi::HitlOptions options) {
    options.extra[asker_key] = parts_.asker;
    if (!options.timeout && parts_.timeout.count() > 0) options.timeout = parts_.timeout;
    // The turn begins after this coroutine has suspended, when the question is open.
    parts_.before();
    Task<Json> waiting = parts_.to->request(std::move(payload), std::move(options));
    cubepi::Outcome<Json> answer = co_await cubepi::outcome_of(std::move(waiting));
    parts_.after();
    co_return std::move(answer).value();
}

Task<> TaskQuestionChannel::answer(std::string question_id, Json value,
                                   cubepi::AnswerOrigin origin) {
    return parts_.to->answer(std::move(question_id), std::move(value), std::move(origin));
}

Task<> TaskQuestionChannel::cancel(std::string question_id, std::string reason) {
    return parts_.to->cancel(std::move(question_id), std::move(reason));
}

bool is_results_message(const Envelope& message) {
    return message.rest.contains(task_results_key) && message.content_text() == results_text;
}

Envelope results_message(const Envelope& message, const std::string& session_id) {
    Envelope made{std::string(results_text)};
    made.session_id = session_id;
    made.channel = message.channel;
    made.chat_id = message.chat_id;
    made.output_channel = message.output_channel;
    made.context = message.context;
    made.context.erase(date_key);
    made.context.erase(arrived_key);
    made.context.erase(redelivered_key);
    made.is_active = true;
    made.from_operator = false;
    made.rest[task_results_key] = true;
    return made;
}

AgentTool subagent_tool(std::shared_ptr<BuiltinCore> core, std::string session_id,
                        TurnState& state) {
    TurnState* const parent = &state;
    const auto call = [core, session_id, parent](SubagentArgs args, cubepi::ToolContext& caller) {
        return call_subagent(core, parent, session_id, std::move(args), &caller);
    };
    AgentTool made = cubepi::tool<SubagentArgs>(
                         std::string(cubepi::detail::subagent_tool_name),
                         "Has another agent do a task of its own and returns what it says. By "
                         "default it knows nothing of this conversation.",
                         call)
                         .risk(cubepi::ToolRisk::writes)
                         .replay([session_id](const cubepi::JsonObject& arguments) {
                             return replay_policy_of(arguments, session_id);
                         });
    if (core->options().subagents.max_background == 0 || is_temporary(session_id))
        made.parameters = foreground_schema();
    // It has limits of its own.
    made.time_limit = std::chrono::milliseconds(0);
    return made;
}

}  // namespace bub::detail
