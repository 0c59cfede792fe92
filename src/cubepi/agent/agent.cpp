#include <cubepi/agent/agent.hpp>

#include <utility>

#include <cubepi/agent/detail/agent_impl.hpp>
#include <cubepi/agent/detail/run_guard.hpp>
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

/// Gives a queued user message an id, unless the caller has.
Message identified(const Agent::Impl& impl, const PromptInput& input, bool& by_caller) {
    if (input.messages().size() != 1 || input.messages().front().role() != Role::user) {
        throw Error(ErrorCode::invalid_argument, "queue one user message at a time");
    }
    Message message = input.messages().front();
    by_caller = !message.id().empty();
    return by_caller ? message : message.with_id(impl.runtime->ids->next());
}

using StartRun = Task<void> (*)(const std::shared_ptr<Agent::Impl>& impl, PromptInput& input,
                                PromptOptions& options, RunResult& result);

/// Runs the agent so that cancelling the awaiting coroutine aborts the run, which then closes in order (D38).
Task<RunResult> run_guarded(std::shared_ptr<Agent::Impl> impl, StartRun start, PromptInput input,
                            PromptOptions options) {
    RunResult result;
    Task<void> work = start(impl, input, options, result);
    const auto cancellation = co_await this_cancellation;
    if (cancellation.slot().is_connected()) {
        std::function<void()> abort = [&impl] { impl->inbox.abort(); };
        co_await detail::abort_when_cancelled(std::move(work), std::move(abort));
    } else {
        co_await std::move(work);
    }
    co_return result;
}

}  // namespace

Agent::Agent(AgentOptions options) : impl_(std::make_shared<Impl>(std::move(options))) {}

Agent::~Agent() {
    impl_->destroyed = true;
    impl_->hub.clear();
    impl_->inbox.abort();
}

Task<RunResult> Agent::prompt(PromptInput input, PromptOptions options) {
    const StartRun start = [](const std::shared_ptr<Impl>& impl, PromptInput& in,
                              PromptOptions& opt, RunResult& result) {
        return detail::run_prompt(impl, std::move(in), std::move(opt), result);
    };
    return run_guarded(impl_, start, std::move(input), std::move(options));
}

Task<RunResult> Agent::resume(PromptOptions options) {
    const StartRun start = [](const std::shared_ptr<Impl>& impl, PromptInput&, PromptOptions& opt,
                              RunResult& result) {
        return detail::run_resume(impl, std::move(opt), result);
    };
    return run_guarded(impl_, start, PromptInput(MessageList()), std::move(options));
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

void Agent::abort() { impl_->inbox.abort(); }

Task<void> Agent::wait_for_idle() { return detail::wait_until_idle(impl_); }

void Agent::reset() {
    if (impl_->state.is_streaming) {
        throw Error(ErrorCode::busy,
                    "the agent runs: await it, or abort() and wait_for_idle(), before reset()");
    }
    impl_->state.messages.clear();
    impl_->state.streaming_message = PartialMessage();
    impl_->state.pending_tool_calls = std::vector<SharedString>();
    impl_->state.error_message = {};
    impl_->inbox.clear();
    impl_->log.forget();
    impl_->prefix_guard.reset();
}

Subscription Agent::subscribe(Listener listener) {
    return impl_->hub.subscribe(std::move(listener));
}

const AgentState& Agent::state() const noexcept { return impl_->state; }
AgentState& Agent::state() noexcept { return impl_->state; }
const std::shared_ptr<const Runtime>& Agent::runtime() const noexcept { return impl_->runtime; }
const std::string& Agent::thread_id() const noexcept { return impl_->log.thread_id(); }

}  // namespace cubepi
