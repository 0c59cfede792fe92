#include <cubepi/agent/detail/agent_impl.hpp>

#include <optional>
#include <utility>

#include <cubepi/agent/detail/claim_keeper.hpp>
#include <cubepi/agent/detail/loop_run.hpp>
#include <cubepi/agent/detail/model_turn.hpp>
#include <cubepi/agent/transcript.hpp>
#include <cubepi/core/cancellation.hpp>

namespace cubepi {

namespace {

/// Null where everything is as usual.
std::unique_ptr<const Agent::Impl::Settings> take_settings(AgentOptions& options) {
    HookSet hooks;
    hooks.transform_context = std::move(options.transform_context);
    hooks.convert_to_llm = std::move(options.convert_to_llm);
    hooks.transform_system_prompt = std::move(options.transform_system_prompt);
    hooks.resolve_tool_call = std::move(options.resolve_tool_call);
    hooks.before_tool_call = std::move(options.before_tool_call);
    hooks.after_tool_call = std::move(options.after_tool_call);
    hooks.after_model_response = std::move(options.after_model_response);
    hooks.should_stop_after_turn = std::move(options.should_stop_after_turn);
    hooks.on_run_end = std::move(options.on_run_end);
    hooks.around_model_call = std::move(options.around_model_call);
    Agent::Impl::Settings taken;
    taken.hooks = compose_middleware(options.middleware, std::move(hooks));
    taken.tool_execution = options.tool_execution;
    taken.limits = options.limits;
    taken.on_payload = std::move(options.on_payload);
    taken.on_response = std::move(options.on_response);
    taken.spill = std::move(options.spill);
    const bool usual = taken.hooks.empty() && taken.tool_execution == ExecutionMode::parallel &&
                       taken.limits == AgentLimits() && !taken.on_payload && !taken.on_response &&
                       !taken.spill;
    if (usual) return nullptr;
    return std::make_unique<const Agent::Impl::Settings>(std::move(taken));
}

/// Both in `options.model`.
const std::shared_ptr<Provider>& provider_of(AgentOptions& options) {
    if (options.model) return options.model.provider();
    if (options.provider.get()) {
        options.model = BoundModel(options.provider.get(), options.model.spec());
        return options.model.provider();
    }
    throw Error(ErrorCode::invalid_argument,
                "AgentOptions: no provider: use .model = provider.model(\"id\"), or .provider "
                "together with "
                ".model = Model{...}");
}

AgentState first_state(AgentOptions& options) {
    if (!options.messages.empty() && options.checkpointer && !options.thread_id.empty()) {
        throw Error(ErrorCode::invalid_argument,
                    "AgentOptions: messages and a checkpointer with thread_id exclude each other: "
                    "the history comes "
                    "from the store");
    }
    AgentState state;
    state.model = options.model.shared_spec();
    state.system_prompt = std::move(options.system_prompt);
    state.tools = std::move(options.tools);
    for (const Middleware& one : options.middleware) {
        for (const AgentTool& tool : one.tools()) state.tools.push_back(tool);
    }
    state.reasoning = options.reasoning;
    state.messages = std::move(options.messages);
    return state;
}

}  // namespace

Agent::Impl::Impl(AgentOptions options)
    : provider(provider_of(options)),
      runtime(options.runtime ? std::move(options.runtime) : Runtime::standard()),
      own_settings(take_settings(options)),
      state(first_state(options)),
      inbox(options.steering_mode, options.follow_up_mode),
      log(state, std::move(options.checkpointer), std::move(options.thread_id)) {}

const Agent::Impl::Settings& Agent::Impl::settings() const noexcept {
    static const Settings usual;
    return own_settings ? *own_settings : usual;
}

detail::RunParts Agent::Impl::parts() noexcept {
    const Settings& set = settings();
    return {.model = BoundModel(provider, state.model),
            .hooks = &set.hooks,
            .tool_execution = set.tool_execution,
            .limits = set.limits,
            .on_payload = set.on_payload,
            .on_response = set.on_response,
            .spill = set.spill,
            .runtime = runtime,
            .state = &state,
            .hub = &hub,
            .log = &log,
            .inputs = &inbox,
            .prefix_guard = &prefix_guard};
}

namespace detail {

namespace {

/// From the moment a run is accepted to the moment the agent is idle again, on every path.
class ActiveRun {
public:
    ActiveRun(Agent::Impl& impl, const SharedString& run_id) : impl_(impl) {
        if (impl_.state.is_streaming) {
            throw Error(ErrorCode::busy,
                        "the agent is already processing a prompt: steer() or follow_up() it, or "
                        "await its end");
        }
        token_ = impl_.inbox.begin_run(run_id);
        impl_.state.is_streaming = true;
        impl_.state.streaming_message = PartialMessage();
        impl_.state.error_message = {};
        impl_.state.active_run_id = run_id;
        impl_.state.last_outcome = LastOutcome::none;
    }
    ~ActiveRun() {
        impl_.inbox.end_run();
        impl_.state.is_streaming = false;
        impl_.state.streaming_message = PartialMessage();
        impl_.state.pending_tool_calls = std::vector<SharedString>();
        impl_.state.active_run_id = {};
        if (impl_.state.last_outcome == LastOutcome::none) {
            impl_.state.last_outcome = LastOutcome::abandoned;
        }
        if (impl_.idle) impl_.idle->pulse();
    }
    ActiveRun(const ActiveRun&) = delete;
    ActiveRun& operator=(const ActiveRun&) = delete;

    const std::stop_token& token() const noexcept { return token_; }

private:
    Agent::Impl& impl_;
    std::stop_token token_;
};

LastOutcome last_outcome(RunOutcome outcome) noexcept {
    switch (outcome) {
        case RunOutcome::completed:
        case RunOutcome::limited: return LastOutcome::complete;
        case RunOutcome::suspended: return LastOutcome::suspended;
        case RunOutcome::aborted:
        case RunOutcome::failed: break;
    }
    return LastOutcome::abandoned;
}

/// One run of an agent, between claim and release.
class AgentAttempt {
public:
    AgentAttempt(Agent::Impl& impl, SharedString run_id, std::stop_token token)
        : impl_(impl), parts_(impl.parts()), core_(parts_, std::move(run_id), std::move(token)) {}

    RunCore& core() noexcept { return core_; }

    Task<void> claim(ClaimKind kind);
    Task<void> release();
    Task<void> run(std::vector<Input> prompts, RunResult& result);
    /// An abort came before there was anything to run on: the run begins and ends.
    Task<void> abandon(RunResult& result);

private:
    Rest finish(RunOutcome outcome);
    Task<void> store_outcome(RunOutcome outcome);
    Rest announce_circumstances();
    Task<void> tell_circumstances();
    std::unique_ptr<ClockTimer> wall_clock(const Executor& executor);
    RunOutcome counting_limits(RunOutcome outcome) const noexcept;

    Agent::Impl& impl_;
    const RunParts parts_;
    RunCore core_;
    std::unique_ptr<ClaimKeeper> claim_;             // null: none
    std::unique_ptr<const ClaimResult> taken_over_;  // null: nothing was
    bool out_of_time_ = false;
};

Task<void> AgentAttempt::claim(ClaimKind kind) {
    RunStore* runs = impl_.log.runs();
    if (!runs) co_return;
    claim_ = std::make_unique<ClaimKeeper>(*runs, *impl_.runtime->clock, impl_.log.thread_id(),
                                           core_.run_id().str(), core_.info().attempt_id);
    std::exception_ptr failure;
    try {
        ClaimResult result = co_await claim_->claim(kind);
        if (result.taken_over) {
            taken_over_ = std::make_unique<const ClaimResult>(std::move(result));
        }
    } catch (...) {
        failure = std::current_exception();
    }
    if (failure) {
        claim_.reset();
        std::rethrow_exception(failure);
    }
    impl_.log.set_claim(core_.run_id().str(), claim_->owner_id());
}

Task<void> AgentAttempt::release() {
    if (!claim_) co_return;
    impl_.log.set_claim({}, {});
    co_await claim_->release();
    claim_.reset();
}

/// Stores what is to be stored when the outcome is known (D19). A completed run is marked before agent_end.
Rest AgentAttempt::finish(RunOutcome outcome) {
    outcome = counting_limits(outcome);
    if (impl_.log.persistent()) return store_outcome(outcome);
    impl_.log.drop_nulls();
    impl_.state.last_outcome = last_outcome(outcome);
    return std::nullopt;
}

Task<void> AgentAttempt::store_outcome(RunOutcome outcome) {
    co_await impl_.log.save_extra();
    const bool complete = outcome == RunOutcome::completed || outcome == RunOutcome::limited;
    if (complete && claim_) {
        impl_.log.set_claim({}, {});
        co_await claim_->complete();
        claim_.reset();
    }
    impl_.state.last_outcome = last_outcome(outcome);
}

Rest AgentAttempt::announce_circumstances() {
    if (!impl_.log.lost_persistence() && !taken_over_) return std::nullopt;
    return tell_circumstances();
}

Task<void> AgentAttempt::tell_circumstances() {
    if (impl_.log.lost_persistence()) {
        impl_.log.forget_loss();
        Notice notice;
        notice.code = "no_persistence";
        notice.text =
            "Nothing is stored: a checkpointer needs a thread_id, and a thread_id a checkpointer.";
        if (Rest rest = core_.notice(std::move(notice))) co_await std::move(*rest);
    }
    if (taken_over_) {
        Notice notice;
        notice.code = "claim_taken_over";
        notice.text = "The thread was held by " + taken_over_->taken_over->description +
                      ", which does not run any more; its run was taken over.";
        notice.details["run_id"] = taken_over_->taken_over_run_id;
        notice.details["owner"] = taken_over_->taken_over->description;
        if (Rest rest = core_.notice(std::move(notice))) co_await std::move(*rest);
    }
}

/// Time's up is an abort of our own.
std::unique_ptr<ClockTimer> AgentAttempt::wall_clock(const Executor& executor) {
    const std::chrono::milliseconds limit = parts_.limits.wall_clock;
    auto timer = impl_.runtime->clock->timer(executor);
    timer->expires_after(limit, [this] {
        out_of_time_ = true;
        impl_.inbox.abort();
    });
    return timer;
}

RunOutcome AgentAttempt::counting_limits(RunOutcome outcome) const noexcept {
    return out_of_time_ && outcome == RunOutcome::aborted ? RunOutcome::limited : outcome;
}

Task<void> AgentAttempt::run(std::vector<Input> prompts, RunResult& result) {
    std::unique_ptr<ClockTimer> timer;
    if (parts_.limits.wall_clock.count() > 0) {
        const Executor executor = co_await this_executor;
        timer = wall_clock(executor);
    }
    std::function<Rest(RunOutcome)> finish_run = [this](RunOutcome outcome) {
        return finish(outcome);
    };
    std::function<Rest()> opening = [this] { return announce_circumstances(); };
    std::exception_ptr failure;
    try {
        co_await run_loop(core_, std::move(prompts), std::move(finish_run), std::move(opening),
                          result);
    } catch (...) {
        failure = std::current_exception();
    }
    if (claim_) co_await release();
    if (failure) std::rethrow_exception(failure);
    result.outcome = counting_limits(result.outcome);
    if (out_of_time_ && result.outcome == RunOutcome::limited) {
        result.failure = std::make_shared<const Error>(
            ErrorCode::limit, "the run reached its limit wall_clock (" +
                                  std::to_string(parts_.limits.wall_clock.count()) + " ms)");
    }
}

Task<void> AgentAttempt::abandon(RunResult& result) {
    co_await release();
    impl_.state.error_message = aborted_text;
    if (auto rest = core_.emit(AgentStartEvent())) co_await std::move(*rest);
    if (auto rest = core_.emit(AgentEndEvent())) co_await std::move(*rest);
    result.run_id = core_.run_id().str();
    result.attempt_id = core_.info().attempt_id;
    result.outcome = RunOutcome::aborted;
    result.cost = 0.0;
    result.failure = std::make_shared<const Error>(ErrorCode::cancelled, std::string(aborted_text));
}

/// The messages of a prompt, with ids, run id and time; the caller's are checked first.
std::vector<Input> prompt_inputs(const Agent::Impl& impl, MessageList given,
                                 const SharedString& run_id, double now) {
    for (const Message& message : given) {
        if (!message.run_id().empty() && message.run_id() != run_id) {
            throw Error(
                ErrorCode::invalid_argument,
                "a message of the prompt belongs to run " + message.run_id().str() +
                    ", not to this one: clear its run_id or pass PromptOptions().run_id(...)");
        }
    }
    std::vector<Input> inputs;
    inputs.reserve(given.size());
    for (std::size_t i = 0; i < given.size(); ++i) {
        // Only this one is moved from. NOLINTNEXTLINE(bugprone-use-after-move)
        Message message = std::move(given).take(i);
        Input& one = inputs.emplace_back();
        one.identified = !message.id().empty();
        if (message.role() == Role::user) {
            if (!one.identified) message = std::move(message).with_id(impl.runtime->ids->next());
            if (!message.timestamp()) message = std::move(message).with_timestamp(now);
        }
        one.message = std::move(message).with_run_id(run_id);
    }
    return inputs;
}

/// What a run that has ended earlier left, as its result (D42).
RunResult answered_result(const Agent::Impl& impl, const SharedString& run_id) {
    RunResult result;
    result.run_id = run_id.str();
    for (const Message& message : impl.state.messages) {
        if (message.run_id() != run_id) continue;
        result.new_messages.push_back(message);
        if (const AssistantMessage* answer = message.assistant(); answer && answer->usage) {
            result.usage += *answer->usage;
        }
    }
    return result;
}

/// The history is finished: it ends with an answer that asks for nothing.
bool is_finished(const Agent::Impl& impl) {
    const MessageList& messages = impl.state.messages;
    const AssistantMessage* last = messages.empty() ? nullptr : messages.back().assistant();
    return last && !impl.log.has_open_calls();
}

bool has_answer(const Agent::Impl& impl, const std::string& message_id) {
    bool seen = false;
    for (const Message& message : impl.state.messages) {
        if (message.id() == message_id) seen = true;
        const AssistantMessage* answer = message.assistant();
        if (!seen || !answer || answer->has_tool_calls()) continue;
        if (answer->stop_reason != stop_reason::error &&
            answer->stop_reason != stop_reason::aborted) {
            return true;
        }
    }
    return false;
}

/// Restores the history; false when an abort came first (D51).
Task<bool> load(Agent::Impl& impl, std::stop_token token) {
    if (!impl.log.persistent()) co_return true;
    std::exception_ptr failure;
    try {
        co_await cancel_on(token, impl.log.load());
    } catch (...) {
        failure = std::current_exception();
    }
    if (!failure) co_return true;
    if (token.stop_requested() && is_cancellation(failure)) co_return false;
    std::rethrow_exception(failure);
}

/// What is known of an input that came before (D42).
enum class Known : std::uint8_t { no, unanswered, answered };

Task<Known> look_up(Agent::Impl& impl, const std::string& message_id, RunResult& result) {
    const std::optional<Message> known = co_await impl.log.find(message_id);
    if (!known) co_return Known::no;
    if (!has_answer(impl, message_id)) co_return Known::unanswered;
    impl.state.last_outcome = LastOutcome::complete;
    result = answered_result(impl, known->run_id());
    co_return Known::answered;
}

}  // namespace

Task<void> run_prompt(std::shared_ptr<Agent::Impl> impl, PromptInput input, PromptOptions options,
                      RunResult& result) {
    const Runtime& runtime = *impl->runtime;
    const SharedString run_id = options.run_id().empty() ? runtime.ids->next() : options.run_id();
    ActiveRun active(*impl, run_id);
    const double now =
        std::chrono::duration<double>(runtime.clock->wall().time_since_epoch()).count();
    std::vector<Input> prompts = prompt_inputs(*impl, std::move(input).messages(), run_id, now);
    const auto attempt = std::make_unique<AgentAttempt>(*impl, run_id, active.token());

    // An input that is in the log already is not a new one (D42).
    Known known = Known::no;
    if (prompts.size() == 1 && prompts.front().identified) {
        const bool loaded = co_await load(*impl, active.token());
        if (!loaded) co_return co_await attempt->abandon(result);
        known = co_await look_up(*impl, prompts.front().message.id(), result);
        if (known == Known::answered) co_return;
        if (known == Known::unanswered) prompts.clear();
    }
    if (!impl->log.persistent()) co_return co_await attempt->run(std::move(prompts), result);
    const bool same_run = known == Known::unanswered && !options.run_id().empty();
    co_await attempt->claim(same_run ? ClaimKind::continue_run : ClaimKind::new_run);
    bool loaded = false;
    std::exception_ptr failure;
    try {
        loaded = co_await load(*impl, active.token());
    } catch (...) {
        failure = std::current_exception();
    }
    if (failure) {
        co_await attempt->release();
        std::rethrow_exception(failure);
    }
    if (!loaded) co_return co_await attempt->abandon(result);
    co_await attempt->run(std::move(prompts), result);
}

Task<void> run_resume(std::shared_ptr<Agent::Impl> impl, PromptOptions options, RunResult& result) {
    const Runtime& runtime = *impl->runtime;
    const SharedString run_id = options.run_id().empty() ? runtime.ids->next() : options.run_id();
    ActiveRun active(*impl, run_id);
    const auto attempt = std::make_unique<AgentAttempt>(*impl, run_id, active.token());
    const bool loaded = co_await load(*impl, active.token());
    if (!loaded) co_return co_await attempt->abandon(result);
    if (impl->state.messages.empty()) {
        throw Error(ErrorCode::no_messages,
                    "No messages to continue from: prompt() starts a thread");
    }
    std::vector<Input> inputs;
    const bool finished = is_finished(*impl);
    if (finished && !impl->inbox.has_steering() && !impl->inbox.has_follow_ups()) {
        throw Error(ErrorCode::cannot_continue,
                    "Cannot continue: the thread ends with a finished answer and nothing is "
                    "queued; prompt() goes on");
    }
    co_await attempt->claim(options.run_id().empty() ? ClaimKind::new_run
                                                     : ClaimKind::continue_run);
    if (finished) {
        // Steering first; the loop takes the rest at its usual places.
        inputs = impl->inbox.take_steering();
        if (inputs.empty()) inputs = impl->inbox.take_follow_ups();
    }
    co_return co_await attempt->run(std::move(inputs), result);
}

Task<void> wait_until_idle(std::shared_ptr<Agent::Impl> impl) {
    if (!impl->idle) impl->idle = std::make_unique<AsyncEvent>();
    while (impl->state.is_streaming) co_await impl->idle->wait();
}

}  // namespace detail

}  // namespace cubepi
