#include <cubepi/agent/agent.hpp>

#include <utility>

#include <cubepi/agent/run/abort_when_cancelled.hpp>
#include <cubepi/agent/run/agent_impl.hpp>
#include <cubepi/agent/run/prompt.hpp>
#include <cubepi/agent/run/store_call.hpp>
#include <cubepi/agent/run/stored_questions.hpp>
#include <cubepi/agent/run/suspended_run.hpp>
#include <cubepi/core/cancellation.hpp>

namespace cubepi {

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

/// Awaits `work`, the run of a prompt with `options`, after an aborted run has ended. Cancelling the awaiting coroutine
/// aborts the run, which then closes regularly (D38).
Task<RunResult> run_guarded(std::shared_ptr<Agent::Impl> impl, Task<RunResult> work,
                            PromptOptions options) {
    if (impl->state.is_streaming) {
        const bool free = co_await detail::wait_for_aborted_run(impl);
        if (!free) co_return detail::aborted_before_start(options);
    }
    const auto cancellation = co_await this_cancellation;
    if (!cancellation.slot().is_connected()) co_return co_await std::move(work);
    std::function<void()> abort = [&impl] { impl->inbox.abort(); };
    co_return co_await detail::abort_when_cancelled(std::move(work), std::move(abort));
}

}  // namespace

Agent::Agent(AgentOptions options) : impl_(std::make_shared<Impl>(std::move(options))) {}

Agent::Agent(BoundModel model) : Agent(AgentOptions{.model = std::move(model)}) {}

Agent::~Agent() {
    impl_->destroyed = true;
    impl_->hub.clear();
    abort();
}

Task<RunResult> Agent::prompt(PromptInput input, PromptOptions options) {
    Task<RunResult> work = detail::run_prompt(impl_, std::move(input), options);
    return run_guarded(impl_, std::move(work), std::move(options));
}

Task<RunResult> Agent::resume(PromptOptions options) {
    Task<RunResult> work = detail::run_resume(impl_, options);
    return run_guarded(impl_, std::move(work), std::move(options));
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

Task<RunResult> Agent::respond(std::string question_id, Json answer, AnswerOrigin origin) {
    return respond_with(std::move(question_id), std::move(answer), std::move(origin),
                        PromptOptions());
}

Task<RunResult> Agent::respond_with(std::string question_id, Json answer, AnswerOrigin origin,
                                    PromptOptions options) {
    Task<RunResult> work = detail::run_respond(impl_, std::move(question_id), std::move(answer),
                                               std::move(origin), options);
    return run_guarded(impl_, std::move(work), std::move(options));
}

Task<void> Agent::abort_pending(std::string reason) {
    const std::shared_ptr<Impl> impl = impl_;
    if (impl->state.is_streaming) {
        impl->inbox.abort();
        co_await detail::wait_until_idle(impl);
    }
    Task<void> work = detail::run_abort_pending(impl, std::move(reason));
    std::function<void()> abort = [&impl] { impl->inbox.abort(); };
    co_await detail::abort_when_cancelled(std::move(work), std::move(abort));
}

Task<std::vector<HitlRequest>> Agent::load_pending_hitl_requests() {
    const std::shared_ptr<Impl> impl = impl_;
    std::vector<HitlRequest> requests;
    HitlStore* store = impl->log.questions();
    if (!store) co_return requests;
    auto call = [&] { return store->load_pending_requests(impl->log.thread_id()); };
    Task<std::vector<PendingRequest>> loading =
        detail::store_call("load the pending requests", impl->log.thread_id(), std::move(call));
    std::vector<PendingRequest> pending = co_await std::move(loading);
    const double now = detail::unix_seconds(*impl);
    for (PendingRequest& one : pending) {
        if (!detail::is_expired(one, now)) requests.push_back(std::move(one.request));
    }
    co_return requests;
}

std::vector<HitlRequest> Agent::in_flight_hitl_requests() const {
    const Impl::Settings& settings = impl_->settings();
    const auto questions = settings.channel ? settings.active_questions->get() : nullptr;
    return questions ? questions->waiting() : std::vector<HitlRequest>();
}

Receipt Agent::steer(PromptInput message, std::string for_run) {
    bool by_caller = false;
    Message queued = identified(*impl_, message, by_caller);
    return impl_->inbox.steer(std::move(queued), std::move(for_run), by_caller);
}

Receipt Agent::follow_up(PromptInput message) {
    bool by_caller = false;
    Message queued = identified(*impl_, message, by_caller);
    return impl_->inbox.follow_up(std::move(queued), by_caller);
}

bool Agent::cancel_steer(std::string_view id) { return impl_->inbox.cancel_steer(id); }

void Agent::abort() {
    // In this order: a waiting prompt must not start in between.
    impl_->inbox.abort_waiting();
    impl_->inbox.abort();
}

Task<void> Agent::wait_for_idle() { return detail::wait_until_idle(impl_); }

void Agent::reset() {
    const detail::SerialSection here(impl_->serial);
    refuse_while_running(*impl_, "reset()");
    impl_->state.messages.clear();
    impl_->state.streaming_message = PartialMessage();
    impl_->state.pending_tool_calls = std::vector<SharedString>();
    impl_->state.error_message = {};
    impl_->inbox.clear();
    impl_->log.forget();
    impl_->prefix_guard.reset();
}

Subscription Agent::subscribe(Listener listener, EventTypes types) {
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

}  // namespace cubepi
