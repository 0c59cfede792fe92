#include <cubepi/agent/agent.hpp>

#include <exception>
#include <functional>
#include <optional>
#include <stop_token>
#include <utility>

#include <cubepi/agent/run/agent_impl.hpp>
#include <cubepi/agent/run/prompt.hpp>
#include <cubepi/agent/run/suspended_run.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/task_scope.hpp>

namespace cubepi {

struct AgentRun::State {
    /// Starts the run. Called once.
    using Work = std::function<Task<RunResult>(std::shared_ptr<Agent::Impl>)>;

    State(std::shared_ptr<Agent::Impl> i, Work w, PromptOptions opt)
        : impl(std::move(i)), work(std::move(w)), options(std::move(opt)) {}

    std::shared_ptr<Agent::Impl> impl;
    Work work;
    PromptOptions options;
    AsyncQueue<AgentEvent> events{1};
    std::size_t pushed = 0;   // events that entered the queue
    std::size_t taken = 0;    // events that next() has returned
    std::size_t handled = 0;  // of these; the caller has requested the one after them
    AsyncEvent request;       // set by the next call of next()
    Subscription subscription;
    std::optional<BackgroundScope> scope;
    std::optional<RunResult> result;
    std::exception_ptr failure;
    std::stop_source waiting{std::nostopstate};  // while waiting for the end of an aborted run
    bool started = false;
    bool begun = false;  // the run itself
    bool dropped = false;

    void abort() {
        if (waiting.stop_possible()) {
            waiting.request_stop();
        } else {
            impl->input_queue.abort();
        }
    }
};

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

}  // namespace

namespace {

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

AgentRun Agent::start_response(std::string question_id, Json answer, AnswerOrigin origin) {
    auto work = [question_id = std::move(question_id), answer = std::move(answer),
                 origin = std::move(origin)](std::shared_ptr<Impl> impl) {
        return detail::run_respond(std::move(impl), question_id, answer, origin);
    };
    return AgentRun(std::make_shared<AgentRun::State>(impl_, std::move(work), PromptOptions()));
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
