#include <cubepi/agent/agent.hpp>

#include <utility>

#include <cubepi/agent/run/abort_when_cancelled.hpp>
#include <cubepi/agent/run/agent_impl.hpp>
#include <cubepi/agent/run/prompt.hpp>
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

Subscription Agent::subscribe(Listener listener) {
    const detail::SerialSection here(impl_->serial);
    return impl_->hub.subscribe(std::move(listener));
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
