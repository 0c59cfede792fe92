#include <algorithm>
#include <utility>
#include <variant>

#include <cubepi/agent/call_notes.hpp>
#include <cubepi/agent/run/prompt_work.hpp>
#include <cubepi/agent/run/suspended_cost.hpp>
#include <cubepi/agent/run/tool_output.hpp>
#include <cubepi/agent/subagent_channel.hpp>
#include <cubepi/agent/transcript.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/support/error_code_of.hpp>
#include <cubepi/middleware/detail/subagent_run.hpp>
#include <cubepi/provider/answer_end.hpp>
#include <cubepi/provider/cost.hpp>
#include <cubepi/schema/json_text.hpp>

// One sub-agent: its options, its run, its questions.

namespace cubepi::detail {

namespace {

constexpr std::size_t longest_name = 80;
constexpr std::size_t most_event_bytes = std::size_t{64} << 10U;
/// A stored sub-agent whose parent is suspended waits for its other calls, which have limits of their own.
constexpr std::chrono::hours suspension_limit{24};

/// Returns one line of the name, which a model has chosen, for a question to the user.
std::string shown_name(std::string_view name, std::string_view other) {
    std::string shown;
    for (const char c : name.substr(0, longest_name)) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte >= ' ' && byte < 0x7F && c != '\'') shown += c;
    }
    return shown.empty() ? std::string(other) : shown;
}

/// Lets the hooks of the parent decide about the calls of a sub-agent.
struct ParentDecision {
    std::shared_ptr<const HookSet> hooks;
    Task<std::optional<BeforeToolCallResult>> before_tool_call(BeforeToolCallContext& call) {
        return hooks->before_tool_call(call);
    }
};

constexpr std::string_view no_user =
    "a sub-agent in the background cannot ask the user; have it done without it, or in the "
    "foreground";

/// Implements SubagentChannel::asking_on().
std::shared_ptr<HitlChannel> channel_on(const AskingAgent& agent,
                                        std::shared_ptr<HitlChannel> given);

/// The channel of a sub-agent whose questions are not stored: asks on the channel `to`, which is that of its parent as a rule, or
/// refuses if that is null.
class ForwardingChannel final : public SubagentChannel {
public:
    ForwardingChannel(std::shared_ptr<HitlChannel> to, AskingAgent agent)
        : to_(std::move(to)), agent_(std::move(agent)) {}

    std::shared_ptr<HitlChannel> asking_on(std::shared_ptr<HitlChannel> given) override {
        return channel_on(agent_, std::move(given));
    }
    Task<Json> request(HitlPayload payload, HitlOptions options) override {
        HitlRequest request;
        request.payload = std::move(payload);
        request.extra = std::move(options.extra);
        request.request_id = agent_.runtime->ids->next();
        request.question_id = std::move(options.question_id);
        if (request.question_id.empty())
            request.question_id = agent_.key + "/" + request.request_id;
        const auto wall = agent_.runtime->clock->wall().time_since_epoch();
        request.created_at = std::chrono::duration<double>(wall).count();
        return ask(std::move(request), options.timeout, std::move(options.asking_call));
    }
    std::vector<HitlRequest> pending() const override { return {}; }
    HitlRequestStream subscribe() override { return feed_.subscribe(); }
    Task<> answer(std::string question_id, Json value, AnswerOrigin origin) override {
        if (!to_) throw_stale();
        return to_->answer(std::move(question_id), std::move(value), std::move(origin));
    }
    Task<> cancel(std::string question_id, std::string reason) override {
        if (!to_) throw_stale();
        return to_->cancel(std::move(question_id), std::move(reason));
    }

private:
    [[noreturn]] static void throw_stale() {
        throw Error(ErrorCode::stale_answer, "a sub-agent in the background asks no questions");
    }
    /// The time limits of the sub-agent stand still meanwhile, as those of its parent do.
    Task<Json> ask(HitlRequest request, std::optional<std::chrono::nanoseconds> timeout,
                   std::string asking_call) {
        if (!to_) throw HitlCancelled(std::string(no_user));
        const std::shared_ptr<HitlRun> asking = run();
        const HitlRequest shown = request;
        if (asking) {
            Task<> begin = asking->begin_request(shown, asking_call);
            co_await std::move(begin);
        }
        HitlOptions options = forward_question(request, agent_.name, request.question_id);
        options.timeout = timeout;
        Task<Json> waiting = to_->request(std::move(request.payload), std::move(options));
        Outcome<Json> answer = co_await outcome_of(std::move(waiting));
        if (asking) {
            HitlEnd end = answer.ok() ? HitlEnd::answered : HitlEnd::cancelled;
            if (answer.cancelled()) end = HitlEnd::aborted;
            co_await shield();
            Json value = answer.ok() ? answer.value() : Json();
            Task<> ending =
                asking->end_request(shown, asking_call, end, std::move(value), AnswerOrigin());
            const Outcome<> ended = co_await outcome_of(std::move(ending));
            co_await unshield();
            if (answer.ok()) ended.rethrow();
        }
        co_return std::move(answer).value();
    }

    const std::shared_ptr<HitlChannel> to_;
    const AskingAgent agent_;
    HitlRequestFeed feed_;
};

std::shared_ptr<HitlChannel> channel_on(const AskingAgent& agent,
                                        std::shared_ptr<HitlChannel> given) {
    if (given == agent.parent) return nullptr;
    if (auto* const above = dynamic_cast<SubagentChannel*>(agent.parent.get())) {
        given = above->asking_on(std::move(given));
        if (!given) return nullptr;
    }
    return std::make_shared<ForwardingChannel>(std::move(given), agent);
}

/// The channel of a stored sub-agent: the one that the host has made for it.
class StoredChannel final : public SubagentChannel, public CallNotes {
public:
    StoredChannel(std::shared_ptr<HitlChannel> made, AskingAgent agent)
        : made_(std::move(made)), agent_(std::move(agent)) {}
    ~StoredChannel() override { made_->disconnect(); }
    StoredChannel(const StoredChannel&) = delete;
    StoredChannel& operator=(const StoredChannel&) = delete;

    std::shared_ptr<HitlChannel> asking_on(std::shared_ptr<HitlChannel> given) override {
        return channel_on(agent_, std::move(given));
    }
    Task<Json> request(HitlPayload payload, HitlOptions options) override {
        return made_->request(std::move(payload), std::move(options));
    }
    std::vector<HitlRequest> pending() const override { return made_->pending(); }
    HitlRequestStream subscribe() override { return made_->subscribe(); }
    Task<> answer(std::string question_id, Json value, AnswerOrigin origin) override {
        return made_->answer(std::move(question_id), std::move(value), std::move(origin));
    }
    Task<> cancel(std::string question_id, std::string reason) override {
        return made_->cancel(std::move(question_id), std::move(reason));
    }
    bool is_durable() const noexcept override { return made_->is_durable(); }
    bool can_store_notes() const noexcept override {
        auto* const notes = dynamic_cast<CallNotes*>(made_.get());
        return notes && notes->can_store_notes();
    }
    bool is_suspending() const noexcept override {
        auto* const notes = dynamic_cast<CallNotes*>(made_.get());
        return notes && notes->is_suspending();
    }
    Task<> save_note(std::string id, std::string text) override {
        return notes().save_note(std::move(id), std::move(text));
    }
    Task<std::optional<std::string>> load_note(std::string id) override {
        return notes().load_note(std::move(id));
    }
    void connect(std::shared_ptr<HitlRun> run) override {
        // The end of an earlier run disconnects only this channel.
        made_->disconnect();
        made_->connect(run);
        HitlChannel::connect(std::move(run));
    }

private:
    CallNotes& notes() const {
        if (auto* const notes = dynamic_cast<CallNotes*>(made_.get())) return *notes;
        throw Error(ErrorCode::unsupported, "the channel of the sub-agent stores no notes");
    }

    const std::shared_ptr<HitlChannel> made_;
    const AskingAgent agent_;
};

/// A sub-agent from its start to its end. Does not refer to its caller in the background.
class SubagentRun {
public:
    SubagentRun(SubagentPlan plan, ToolContext& caller);
    SubagentRun(const SubagentRun&) = delete;
    SubagentRun& operator=(const SubagentRun&) = delete;

    Task<SubagentResult> run();

private:
    bool is_stored() const noexcept { return !thread_id_.empty(); }
    const Model& model_spec() const {
        return (type_.model ? type_.model : shared_->options.default_model).spec();
    }
    AgentOptions options(const ToolContext& caller);
    std::shared_ptr<HitlChannel> channel(const ToolContext& caller);
    PromptOptions prompt_options() const;
    Task<RunResult> run_with_questions(TaskScope& scope);
    Task<RunResult> run_agent();
    void count_earlier_attempts();
    Task<> forward_questions(TaskScope& scope);
    Task<> forward(HitlRequest request);
    Task<> note(AgentEvent event);
    void leave();
    SubagentResult finished(RunResult result);

    const SubagentPlan plan_;
    const std::shared_ptr<SubagentShared>& shared_ = plan_.shared;
    const SubagentSpec& type_;
    const std::string call_key_;
    SubagentSlot slot_;
    const std::string name_;
    ToolContext* caller_;  ///< null in the background
    std::shared_ptr<RunAccount> account_;
    PromptOptions origin_;
    std::stop_token stop_;
    std::string thread_id_;  ///< empty: not stored
    std::shared_ptr<HitlChannel>
        parent_channel_;  ///< on which stored questions are passed on; null: none
    std::shared_ptr<HitlChannel> stored_channel_;  ///< null: its questions are not stored
    std::exception_ptr lost_answer_ = {};          ///< an answer of the user could not be stored
    std::unique_ptr<Agent> agent_;
    std::shared_ptr<void> attached_;
    SubagentResult result_;
    SubagentMeter meter_;
    std::size_t event_bytes_ = 0;
    bool leaving_ = false;
    std::optional<double> earlier_cost_ = 0.0;  ///< USD, before this attempt; absent: unknown
    bool has_counted_earlier_ = false;
};

SubagentRun::SubagentRun(SubagentPlan plan, ToolContext& caller)
    : plan_(std::move(plan)),
      type_(*shared_->find(plan_.type)),
      call_key_(caller.call_key().empty() ? caller.shared_runtime()->ids->next()
                                          : caller.call_key()),
      slot_(shared_, type_.limits, call_key_, plan_.parent_key),
      name_(shown_name(plan_.request.name.value_or(""), plan_.type)),
      caller_(plan_.task ? nullptr : &caller),
      account_(caller.account()),
      origin_(origin_of(caller, plan_.task.get())),
      stop_(plan_.task ? plan_.task->stop.get_token() : caller.stop_token()),
      meter_(result_, plan_.task) {
    result_.agent_id = "subagent:" + caller.tool_call_id().str();
    if (plan_.task) plan_.task->most = slot_.reserved();
    const std::string& parent_thread = caller.run().thread_id.str();
    const bool can_store = shared_->options.checkpointer && !plan_.task && !parent_thread.empty() &&
                           !caller.call_key().empty();
    if (can_store) thread_id_ = parent_thread + "/subagent/" + call_key_;
    // Its earlier actions are not known, and must not be repeated.
    if (caller.is_repeated() && !is_stored())
        throw Error(ErrorCode::invalid_state, std::string(interrupted_call_text));
    agent_ = std::make_unique<Agent>(options(caller));
    (void)agent_->subscribe([this](const AgentEvent& event) { return note(event); },
                            shared_->options.on_event || shared_->options.event_mapper
                                ? EventTypes()
                                : EventTypes::all_but({AgentEventType::message_update}));
    if (shared_->options.on_agent) attached_ = shared_->options.on_agent(*agent_);
}

AgentOptions SubagentRun::options(const ToolContext& caller) {
    AgentOptions made;
    made.model = type_.model ? type_.model : shared_->options.default_model;
    made.system_prompt = type_.system_prompt;
    std::vector<AgentTool> tools = tools_of(shared_->options, type_);
    if (plan_.depth < std::max<std::size_t>(shared_->options.limits.max_depth, 1))
        tools.push_back(subagent_tool(shared_, nullptr, plan_.depth, call_key_));
    made.tools = std::move(tools);
    for (const Middleware& one : shared_->options.inherited_middleware)
        made.middleware.push_back(one);
    for (const Middleware& one : type_.middleware) made.middleware.push_back(one);
    // Last, so that it decides about the arguments that the others have edited.
    if (account_ && account_->hooks())
        made.middleware.emplace_back(ParentDecision{account_->hooks()});
    made.limits = slot_.limits();
    made.runtime = caller.shared_runtime();
    if (is_stored()) made.checkpointer = shared_->options.checkpointer;
    made.thread_id = thread_id_;
    made.channel = channel(caller);
    return made;
}

std::shared_ptr<HitlChannel> SubagentRun::channel(const ToolContext& caller) {
    AskingAgent asking;
    if (account_) asking.parent = account_->channel();
    asking.name = name_;
    asking.key = call_key_;
    asking.runtime = caller.shared_runtime();
    std::shared_ptr<HitlChannel> to = shared_->options.background_channel;
    if (!plan_.task) {
        to = asking.parent ? caller.channel() : nullptr;
        if (!to) return nullptr;
    }
    if (is_stored() && to->is_durable() && shared_->options.make_channel) {
        parent_channel_ = std::move(to);
        stored_channel_ = shared_->options.make_channel(shared_->options.checkpointer, thread_id_);
        return std::make_shared<StoredChannel>(stored_channel_, std::move(asking));
    }
    return std::make_shared<ForwardingChannel>(std::move(to), std::move(asking));
}

PromptOptions SubagentRun::prompt_options() const {
    PromptOptions how = origin_;
    return std::move(how).stop_token(stop_);
}

/// The same id in each process: one that has ended before is not repeated (D42).
Task<RunResult> SubagentRun::run_agent() {
    Message prompt = user_message(plan_.request.prompt);
    if (is_stored()) prompt = std::move(prompt).with_id("subagent/" + call_key_);
    RunResult result = co_await agent_->prompt(std::move(prompt), prompt_options());
    // Suspended by an earlier process: its questions are asked again, and find the answers of the parent.
    if (result.outcome == RunOutcome::suspended && !leaving_) {
        count_earlier_attempts();
        earlier_cost_ = suspended_cost(agent_->state().extra);
        result = co_await agent_->resume(prompt_options());
    }
    // One that had ended has begun no run.
    count_earlier_attempts();
    co_return result;
}

/// Counts what a sub-agent whose call is repeated has done before. Called before it continues.
void SubagentRun::count_earlier_attempts() {
    if (std::exchange(has_counted_earlier_, true) || !caller_ || !caller_->is_repeated()) return;
    const MessageList& messages = agent_->state().messages;
    count_nested(*shared_, messages, call_key_);
    for (const Message& message : messages) {
        const std::optional<double> cost = cost_in_history(message, model_spec());
        earlier_cost_ =
            earlier_cost_ && cost ? std::optional(*earlier_cost_ + *cost) : std::nullopt;
    }
}

/// Runs the agent, and passes its stored questions on to the parent.
Task<RunResult> SubagentRun::run_with_questions(TaskScope& scope) {
    scope.spawn(forward_questions(scope));
    Outcome<RunResult> result = co_await outcome_of(run_agent());
    scope.cancel();
    co_return std::move(result).value();
}

Task<> SubagentRun::forward_questions(TaskScope& scope) {
    HitlRequestStream questions = stored_channel_->subscribe();
    while (std::optional<HitlRequest> request = co_await questions.next())
        scope.spawn(forward(std::move(*request)));
}

/// Asks a question on the channel of the parent. If that is withdrawn because the sub-agent is suspended with its parent, the
/// question stays stored in both threads.
Task<> SubagentRun::forward(HitlRequest request) {
    const std::string id = request.request_id;
    HitlOptions options = forward_question(request, name_, call_key_ + "/" + id);
    if (request.timeout_seconds) {
        options.timeout = std::chrono::duration_cast<std::chrono::nanoseconds>(
            std::chrono::duration<double>(*request.timeout_seconds));
    }
    Task<Json> asking = parent_channel_->request(std::move(request.payload), std::move(options));
    Outcome<Json> answer = co_await outcome_of(std::move(asking));
    if (answer.cancelled()) answer.rethrow();
    Task<> ending = answer.ok() ? stored_channel_->answer(id, answer.value())
                                : stored_channel_->cancel(id, exception_text(answer.failure()));
    Outcome<> ended = co_await outcome_of(std::move(ending));
    if (ended.cancelled()) ended.rethrow();
    // The question may have ended meanwhile.
    if (ended.ok() || error_code_of(ended.failure()) == ErrorCode::stale_answer) co_return;
    // Without its answer the sub-agent would wait for ever.
    lost_answer_ = ended.failure();
    agent_->abort();
}

Task<> SubagentRun::note(AgentEvent event) {
    if (event.get_if<AgentStartEvent>()) count_earlier_attempts();
    (void)meter_.note(event, model_spec());
    const SubagentOptions& chosen = shared_->options;
    if (shared_->closed) co_return;
    if (chosen.on_event) chosen.on_event(event);
    if (!chosen.event_mapper) co_return;
    std::vector<Json> payloads = chosen.event_mapper(event);
    for (Json& payload : payloads) {
        const std::size_t size = json_text(payload).size();
        if (result_.events.size() >= chosen.limits.max_events ||
            event_bytes_ + size > most_event_bytes) {
            continue;
        }
        event_bytes_ += size;
        result_.events.push_back(payload);
        if (caller_) co_await caller_->update(std::move(payload));
    }
}

/// The caller is cancelled: a stored sub-agent that waits for the user is suspended with its parent, any other one aborted.
void SubagentRun::leave() {
    leaving_ = true;
    try {
        if (stored_channel_ && !stop_.stop_requested() && agent_->detach()) return;
    } catch (const Error&) {
        // It cannot be suspended.
    }
    agent_->abort();
}

SubagentResult SubagentRun::finished(RunResult ended) {
    result_.run_id = ended.run_id;
    result_.outcome = ended.outcome;
    result_.text = ended.text();
    if (!ended) {
        result_.error = ended.failure ? std::string(ended.failure->what()) : "it did not complete";
        return std::move(result_);
    }
    const MessageList& messages = ended.new_messages;
    for (std::size_t i = messages.size(); i > 0; --i) {
        const AssistantMessage* const last = messages[i - 1].assistant();
        if (!last) continue;
        result_.error = answer_end_text(*last);
        break;
    }
    return std::move(result_);
}

Task<SubagentResult> SubagentRun::run() {
    std::stop_source left;
    const std::stop_callback on_leave(left.get_token(), [this] { leave(); });
    const auto with_questions = [this](TaskScope& scope) { return run_with_questions(scope); };
    Task<RunResult> running =
        stored_channel_ ? with_task_scope(with_questions, ScopePolicy::collect) : run_agent();
    Task<RunResult> leaving =
        stop_on_cancel(left, *agent_->runtime()->clock, suspension_limit, std::move(running));
    Outcome<RunResult> ended = co_await outcome_of(std::move(leaving));
    slot_.spend(result_, earlier_cost_, ended.cancelled() && !plan_.task);
    if (lost_answer_ && !ended.cancelled()) {
        result_.outcome = RunOutcome::failed;
        result_.error = "the answer of the user was lost: " + exception_text(lost_answer_);
        co_return std::move(result_);
    }
    if (ended.ok()) {
        SubagentResult done = finished(std::move(ended).value());
        const SubagentOptions& chosen = shared_->options;
        // Its call shortens the result of another one.
        const std::size_t limit = plan_.task ? chosen.max_result_chars : 0;
        Task<std::string> shortening =
            limited_result(agent_->runtime(), chosen.spill, call_key_, limit, std::move(done.text));
        done.text = co_await std::move(shortening);
        co_return done;
    }
    if (ended.cancelled() && !plan_.task) ended.rethrow();
    result_.outcome = ended.cancelled() ? RunOutcome::aborted : RunOutcome::failed;
    result_.error = ended.cancelled() ? "it was cancelled" : exception_text(ended.failure());
    co_return std::move(result_);
}

Task<SubagentResult> run_owned(std::unique_ptr<SubagentRun> agent) {
    co_return co_await agent->run();
}

}  // namespace

HitlOptions forward_question(HitlRequest& request, std::string_view agent,
                             std::string question_id) {
    HitlOptions options;
    options.extra = request.extra;
    const std::string name = shown_name(agent, "");
    JsonArray path{Json(name.empty() ? "subagent" : name)};
    const Json* const inner = options.extra.if_contains("agent_path");
    if (inner && inner->is_array())
        path.insert(path.end(), inner->get_array().begin(), inner->get_array().end());
    options.extra["agent_path"] = std::move(path);
    options.extra["agent"] = "subagent";
    if (auto* approve = std::get_if<ApproveRequest>(&request.payload)) {
        approve->tool_call_id = question_id;
        JsonObject* const details = approve->details.if_object();
        Json* const question = details ? details->if_contains("question") : nullptr;
        if (question && question->is_string()) {
            const std::string who = name.empty() ? "A sub-agent" : "The sub-agent '" + name + "'";
            *question = who + " asks: " + std::string(question->get_string());
        }
    }
    options.question_id = std::move(question_id);
    return options;
}

std::shared_ptr<HitlChannel> forwarding_channel(std::shared_ptr<HitlChannel> to,
                                                AskingAgent agent) {
    return std::make_shared<ForwardingChannel>(std::move(to), std::move(agent));
}

Task<std::string> limited_result(std::shared_ptr<const Runtime> runtime,
                                 std::shared_ptr<SpillSink> spill, std::string key,
                                 std::size_t limit, std::string text) {
    AgentToolResult result(std::move(text));
    if (limit == 0 || !is_longer(result, limit)) co_return result.text();
    Task<AgentToolResult> cutting =
        cut_tool_output(std::move(runtime), std::move(spill), std::string(subagent_tool_name),
                        std::move(key), limit, std::move(result));
    AgentToolResult cut = co_await std::move(cutting);
    co_return cut.text();
}

PromptOptions origin_of(const ToolContext& caller, BackgroundTask* task) {
    PromptOptions origin = PromptOptions().parent(caller);
    const std::shared_ptr<RunAccount>& account = caller.account();
    if (!task || !account) return origin;
    task->account = std::make_shared<RunAccount>(account->info(), account);
    return std::move(origin).budget(task->account);
}

void SubagentMeter::add(Spending& sum, const Usage& usage, std::optional<double> cost) {
    sum.usage += usage;
    sum.cost = sum.cost && cost ? std::optional(*sum.cost + *cost) : std::nullopt;
    result_.usage = ended_.usage;
    result_.cost = ended_.cost;
    result_.usage += running_.usage;
    result_.cost =
        ended_.cost && running_.cost ? std::optional(*ended_.cost + *running_.cost) : std::nullopt;
    if (!task_) return;
    task_->result.turns = result_.turns;
    task_->result.usage = result_.usage;
    task_->result.cost = result_.cost;
}

bool SubagentMeter::note(const AgentEvent& event, const Model& model) {
    if (const auto* turn = event.get_if<TurnEndEvent>()) {
        ++result_.turns;
        const AssistantMessage* const answer = turn->message.assistant();
        add(running_, answer->usage.value_or(Usage()), cost_of(*answer, model));
        return true;
    }
    const auto* ended = event.get_if<AgentEndEvent>();
    const auto* left = event.get_if<AgentSuspendedEvent>();
    if (!ended && !left) return false;
    const Usage& usage = ended ? ended->usage : left->usage;
    const std::optional<double> cost = ended ? ended->cost : left->cost;
    running_ = Spending();
    add(ended_, usage, cost);
    return true;
}

Task<SubagentResult> run_subagent(SubagentPlan plan, ToolContext& caller) {
    return run_owned(std::make_unique<SubagentRun>(std::move(plan), caller));
}

JsonObject work_json(const SubagentResult& result) {
    JsonObject work{{"turns", static_cast<std::int64_t>(result.turns)}};
    const Usage& usage = result.usage;
    if (usage.input_tokens || usage.output_tokens) {
        work["input_tokens"] = usage.input_tokens.value_or(0) +
                               usage.cache_read_tokens.value_or(0) +
                               usage.cache_write_tokens.value_or(0);
        work["output_tokens"] = usage.output_tokens.value_or(0);
    }
    if (result.cost) work["cost"] = *result.cost;
    return work;
}

AgentToolResult result_of(SubagentResult ended, JsonObject counted) {
    std::string text = std::move(ended.text);
    if (!ended.error.empty()) {
        if (!text.empty()) text += "\n";
        text += "[error: " + ended.error + "]";
    } else if (text.empty()) {
        text = "The sub-agent has ended without an answer.";
    }
    AgentToolResult result(std::move(text));
    if (!ended.error.empty()) result.is_error = true;
    JsonObject details;
    details["subagent_events"] = std::move(ended.events);
    details["subagent_run_id"] = std::move(ended.run_id);
    if (!counted.empty()) details[counted_call_key] = std::move(counted);
    result.details = std::move(details);
    return result;
}

}  // namespace cubepi::detail
