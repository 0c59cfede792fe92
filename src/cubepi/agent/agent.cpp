#include <cubepi/agent/agent.hpp>

#include <exception>
#include <optional>
#include <utility>

#include <cubepi/agent/run/agent_impl.hpp>
#include <cubepi/agent/run/prompt.hpp>
#include <cubepi/agent/run/run_core.hpp>
#include <cubepi/agent/run/thread_log.hpp>
#include <cubepi/agent/transcript.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/outcome.hpp>

namespace cubepi {

namespace {

/// Assigns an id to a queued user message, unless the caller has.
Message identified(const Agent::Impl& impl, const PromptInput& input, bool& by_caller) {
    if (input.messages().size() != 1 || input.messages().front().role() != Role::user) {
        throw Error(ErrorCode::invalid_argument, "queue one user message at a time");
    }
    Message message = input.messages().front();
    by_caller = !message.id().empty();
    return by_caller ? message : message.with_id(impl.runtime->ids->next());
}

void refuse_while_running(const Agent::Impl& impl, const std::string& operation) {
    if (!impl.state.is_streaming) return;
    throw Error(ErrorCode::busy, operation + " was called during run " +
                                     impl.state.active_run_id.str() +
                                     ": await its end with wait_for_idle(), after abort() if it is "
                                     "not wanted any more");
}

/// Returns null if all settings have their defaults.
std::unique_ptr<Agent::Impl::Settings> take_settings(AgentOptions& options) {
    HookSet hooks;
#define TAKE(type, name, ...) hooks.name = std::move(options.name);
    CUBEPI_AGENT_HOOKS(TAKE)
#undef TAKE
    Agent::Impl::Settings taken;
    taken.hooks = compose_middleware(options.middleware, std::move(hooks));
    taken.tool_execution = options.tool_execution;
    taken.limits = options.limits;
    taken.on_payload = std::move(options.on_payload);
    taken.on_response = std::move(options.on_response);
    taken.spill = std::move(options.spill);
    taken.channel = std::move(options.channel);
    for (const Middleware& one : options.middleware) {
        const std::vector<BoundModel>& models = one.models();
        taken.middleware_models.insert(taken.middleware_models.end(), models.begin(), models.end());
        for (const AgentTool& tool : one.tools()) taken.middleware_tools.push_back(tool.name);
    }
    if (taken.channel) taken.active_questions = std::make_unique<detail::ActiveQuestions>();
    const bool all_default =
        taken.hooks.empty() && taken.tool_execution == ExecutionMode::parallel &&
        taken.limits == AgentLimits() && !taken.on_payload && !taken.on_response && !taken.spill &&
        !taken.channel && taken.middleware_models.empty() && taken.middleware_tools.empty();
    if (all_default) return nullptr;
    return std::make_unique<Agent::Impl::Settings>(std::move(taken));
}

/// Combines the model and the provider in `options.model`.
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

std::shared_ptr<const Runtime> runtime_of(AgentOptions& options) {
    if (!options.runtime) return Runtime::standard();
    const Runtime& given = *options.runtime;
    if (!given.clock || !given.ids || !given.workers) {
        throw Error(ErrorCode::invalid_argument,
                    "AgentOptions: the runtime needs a clock, ids and workers: begin with "
                    "Runtime() and replace what is to differ");
    }
    return std::move(options.runtime);
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

std::string_view to_string(LastOutcome outcome) noexcept {
    switch (outcome) {
        case LastOutcome::none: return "none";
        case LastOutcome::complete: return "complete";
        case LastOutcome::suspended: return "suspended";
        case LastOutcome::incomplete: return "incomplete";
        case LastOutcome::abandoned: return "abandoned";
    }
    return "none";
}

Agent::Agent(AgentOptions options) : impl_(std::make_shared<Impl>(std::move(options))) {}

Agent::Agent(BoundModel model) : Agent(AgentOptions{.model = std::move(model)}) {}

Agent::~Agent() {
    impl_->destroyed = true;
    impl_->hub.clear();
    abort();
}

Task<RunResult> Agent::prompt(PromptInput input, PromptOptions options) {
    Task<RunResult> work = detail::run_prompt(impl_, std::move(input), options);
    return detail::run_guarded(impl_, std::move(work), std::move(options));
}

Task<RunResult> Agent::resume(PromptOptions options) {
    Task<RunResult> work = detail::run_resume(impl_, options);
    return detail::run_guarded(impl_, std::move(work), std::move(options));
}

bool Agent::detach() {
    const Impl::Settings& settings = impl_->settings();
    if (!settings.channel) {
        throw Error(ErrorCode::no_channel,
                    "detach(): the agent has no channel (AgentOptions::channel)");
    }
    if (!settings.channel->is_durable() || !impl_->log.questions()) {
        throw Error(ErrorCode::invalid_state,
                    "detach(): the requests of this agent are not stored; it needs a "
                    "CheckpointedChannel and a checkpointer with a thread_id");
    }
    const auto questions = settings.active_questions->get();
    return questions && questions->detach();
}

std::vector<HitlRequest> Agent::in_flight_hitl_requests() const {
    const Impl::Settings& settings = impl_->settings();
    const auto questions = settings.channel ? settings.active_questions->get() : nullptr;
    return questions ? questions->waiting() : std::vector<HitlRequest>();
}

Receipt Agent::steer(PromptInput message, std::string for_run) {
    bool by_caller = false;
    Message queued = identified(*impl_, message, by_caller);
    return impl_->input_queue.steer(std::move(queued), std::move(for_run), by_caller);
}

Receipt Agent::follow_up(PromptInput message) {
    bool by_caller = false;
    Message queued = identified(*impl_, message, by_caller);
    return impl_->input_queue.follow_up(std::move(queued), by_caller);
}

bool Agent::cancel_steer(std::string_view id) { return impl_->input_queue.cancel_steer(id); }

void Agent::abort() {
    // In this order: a waiting prompt must not start in between.
    impl_->input_queue.abort_waiting();
    impl_->input_queue.abort();
}

Task<void> Agent::wait_for_idle() { return detail::wait_until_idle(impl_); }

void Agent::reset() {
    const detail::SerialSection here(impl_->serial);
    refuse_while_running(*impl_, "reset()");
    impl_->state.messages.clear();
    impl_->state.streaming_message = PartialMessage();
    impl_->state.pending_tool_calls = std::vector<SharedString>();
    impl_->state.error_message = {};
    impl_->input_queue.clear();
    impl_->log.forget();
    impl_->prefix_guard.reset();
}

Subscription Agent::subscribe(AgentListener listener, EventTypes types) {
    const detail::SerialSection here(impl_->serial);
    return impl_->hub.subscribe(std::move(listener), types);
}

std::vector<BoundModel> Agent::models() const {
    std::vector<BoundModel> all = {BoundModel(impl_->provider, impl_->state.model)};
    const std::vector<BoundModel>& others = impl_->settings().middleware_models;
    all.insert(all.end(), others.begin(), others.end());
    return all;
}

void Agent::set_model(BoundModel model) {
    if (!model) {
        throw Error(ErrorCode::invalid_argument,
                    "set_model(): the model '" + model.spec().id +
                        "' has no provider; pass provider.model(\"id\")");
    }
    const detail::SerialSection here(impl_->serial);
    impl_->provider = model.provider();
    impl_->state.model = model.shared_spec();
}

void Agent::set_system_prompt(std::string system_prompt) {
    const detail::SerialSection here(impl_->serial);
    impl_->state.system_prompt = std::move(system_prompt);
}

void Agent::set_tools(ToolList tools) {
    const detail::SerialSection here(impl_->serial);
    impl_->state.tools = std::move(tools);
}

void Agent::set_reasoning(std::optional<ReasoningControl> reasoning) {
    const detail::SerialSection here(impl_->serial);
    impl_->state.reasoning = reasoning;
}

void Agent::set_extra(std::string_view key, Json value) {
    const detail::SerialSection here(impl_->serial);
    impl_->state.extra[key] = std::move(value);
}

void Agent::set_messages(MessageList messages) {
    const detail::SerialSection here(impl_->serial);
    refuse_while_running(*impl_, "set_messages()");
    if (impl_->log.persistent()) {
        throw Error(ErrorCode::invalid_argument,
                    "set_messages() was called on an agent with a store: its history is the stored "
                    "thread '" +
                        impl_->log.thread_id() + "'");
    }
    impl_->log.forget();
    impl_->state.messages = std::move(messages);
}

const AgentState& Agent::state() const noexcept { return impl_->state; }
const std::shared_ptr<const Runtime>& Agent::runtime() const noexcept { return impl_->runtime; }
const std::string& Agent::thread_id() const noexcept { return impl_->log.thread_id(); }

Agent::Impl::Impl(AgentOptions options)
    : provider(provider_of(options)),
      runtime(runtime_of(options)),
      own_settings(take_settings(options)),
      state(first_state(options)),
      input_queue(options.steering_mode, options.follow_up_mode),
      log(state, std::move(options.checkpointer), std::move(options.thread_id)) {}

const Agent::Impl::Settings& Agent::Impl::settings() const noexcept {
    static const Settings all_default;
    return own_settings ? *own_settings : all_default;
}

detail::RunParts Agent::Impl::parts() noexcept {
    const Settings& set = settings();
    return {.provider = provider,
            .system_prompt = state.system_prompt,
            .tools = state.tools,
            .reasoning = state.reasoning,
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
            .inputs = &input_queue,
            .prefix_guard = &prefix_guard,
            .channel = set.channel,
            .serial = serial};
}

const Error& RunResult::error() const {
    if (!failure) throw Error(ErrorCode::invalid_state, "the run completed: it has no error");
    return *failure;
}

std::string RunResult::text() const {
    for (std::size_t i = new_messages.size(); i > 0; --i) {
        if (const AssistantMessage* message = new_messages[i - 1].assistant())
            return message->text();
    }
    return {};
}

namespace {

bool is_last(const AgentEvent& event) noexcept {
    return event.type() == AgentEventType::agent_end ||
           event.type() == AgentEventType::agent_suspended ||
           event.type() == AgentEventType::agent_aborted;
}

/// Waits until the event `number` was handled: the caller has requested the one after it.
Task<void> wait_until_handled(std::shared_ptr<AgentRun::State> state, std::size_t number) {
    while (state->handled < number) {
        state->request.reset();
        co_await state->request.wait();
    }
}

Task<void> push_event(std::shared_ptr<AgentRun::State> state, AgentEvent event,
                      std::stop_token aborted) {
    // A run that was dropped ends without delivering its events.
    if (!state || !state->begun || state->dropped) co_return;
    // A caller may stop reading after the last event.
    const bool waits = !is_last(event);
    state->events.force_push(std::move(event));
    const std::size_t number = ++state->pushed;
    if (!waits) co_return;
    Task<void> handled = wait_until_handled(std::move(state), number);
    // An aborted run ends also when its events are not taken; only the closing ones follow. The same applies to the task
    // that emits the event, for example a tool whose run is being suspended.
    (void)co_await outcome_of(cancel_on(aborted, std::move(handled)));
}

/// Returns false if the run was aborted or dropped before it could start.
Task<bool> wait_for_start(std::shared_ptr<AgentRun::State> state) {
    const std::stop_source given_up;
    state->waiting = given_up;
    Task<bool> wait = detail::wait_for_aborted_run(state->impl);
    Outcome<bool> free = co_await outcome_of(cancel_on(given_up.get_token(), std::move(wait)));
    state->waiting = std::stop_source(std::nostopstate);
    if (given_up.stop_requested()) co_return false;
    co_return std::move(free).value();
}

Task<RunResult> run_when_free(std::shared_ptr<AgentRun::State> state) {
    bool free = true;
    if (state->impl->state.is_streaming) free = co_await wait_for_start(state);
    if (!free) co_return detail::aborted_before_start(state->options);
    // Until here the events are those of a run that was aborted.
    state->begun = true;
    co_return co_await state->work(state->impl);
}

Task<void> drive(std::shared_ptr<AgentRun::State> state) {
    Outcome<RunResult> ended = co_await outcome_of(run_when_free(state));
    if (ended.ok()) {
        state->result = std::move(ended).value();
    } else {
        state->failure = ended.failure();
    }
    state->subscription.cancel();
    state->events.close();
}

void start(const std::shared_ptr<AgentRun::State>& state, const Executor& executor) {
    if (std::exchange(state->started, true)) return;
    std::weak_ptr<AgentRun::State> weak = state;
    state->subscription = state->impl->hub.subscribe(
        [weak](const AgentEvent& event, std::stop_token aborted) -> Task<void> {
            return push_event(weak.lock(), event, std::move(aborted));
        });
    state->scope.emplace(executor);
    state->scope->spawn(drive(state));
}

[[noreturn]] void refuse_moved_run() {
    throw Error(ErrorCode::invalid_argument,
                "this AgentRun was moved from: use the one that it was moved to");
}

}  // namespace

AgentRun Agent::start(PromptInput input, PromptOptions options) {
    auto work = [input = std::move(input), options](std::shared_ptr<Impl> impl) {
        return detail::run_prompt(std::move(impl), input, options);
    };
    return AgentRun(std::make_shared<AgentRun::State>(impl_, std::move(work), std::move(options)));
}

AgentRun Agent::start_resume(PromptOptions options) {
    auto work = [options](std::shared_ptr<Impl> impl) {
        return detail::run_resume(std::move(impl), options);
    };
    return AgentRun(std::make_shared<AgentRun::State>(impl_, std::move(work), std::move(options)));
}

AgentRun::AgentRun(AgentRun&&) noexcept = default;

AgentRun& AgentRun::operator=(AgentRun&& other) noexcept {
    std::swap(state_, other.state_);
    return *this;
}

AgentRun::~AgentRun() {
    if (!state_ || !state_->started || state_->result || state_->failure) return;
    state_->dropped = true;
    state_->events.close();
    state_->abort();
}

Task<std::optional<AgentEvent>> AgentRun::next() {
    const std::shared_ptr<State> state = state_;
    if (!state) refuse_moved_run();
    state->handled = state->taken;
    state->request.set();
    cubepi::start(state, co_await this_executor);
    std::optional<AgentEvent> event = co_await state->events.next();
    if (event) ++state->taken;
    if (!event && state->failure) std::rethrow_exception(state->failure);
    co_return event;
}

Task<RunResult> AgentRun::result() {
    const std::shared_ptr<State> state = state_;
    for (;;) {
        const std::optional<AgentEvent> event = co_await next();
        if (!event) break;
    }
    co_return *state->result;
}

void AgentRun::abort() {
    if (!state_) refuse_moved_run();
    state_->abort();
}

}  // namespace cubepi
