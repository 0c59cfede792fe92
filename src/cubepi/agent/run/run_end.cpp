#include <cubepi/agent/run/turn_loop.hpp>

#include <utility>
#include <vector>

#include <cubepi/agent/run/run_core.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/support/error_with_text.hpp>

namespace cubepi::detail {

void RunEnd::set_failed_answer(std::shared_ptr<const Error> error, const AssistantMessage& answer) {
    const bool aborted = answer.stop_reason == stop_reason::aborted;
    outcome_ = aborted ? RunOutcome::aborted : RunOutcome::failed;
    error_ = std::move(error);
    if (dynamic_cast<const LimitReachedError*>(error_.get())) outcome_ = RunOutcome::limited;
}

void RunEnd::set_limited(LimitReachedError reached) {
    outcome_ = RunOutcome::limited;
    error_ = std::make_shared<const LimitReachedError>(std::move(reached));
}

void RunEnd::set_without_value(std::shared_ptr<const Error> error) {
    outcome_ = RunOutcome::failed;
    core_.state().error_message = error->what();
    error_ = std::move(error);
}

void RunEnd::set_aborted() {
    outcome_ = RunOutcome::aborted;
    error_ = std::make_shared<const Error>(ErrorCode::cancelled, std::string(aborted_text));
}

/// A run that its time limit has aborted is limited.
void RunEnd::note_time_limit() {
    if (outcome_ == RunOutcome::aborted && limit_ && limit_->expired())
        set_limited(limit_->error());
}

Task<void> RunEnd::finish() {
    note_time_limit();
    if (store_) {
        co_await store_(outcome_);
        core_.invalidate_timestamp();
    }
    co_await announce();
}

Task<void> RunEnd::suspend() {
    // An exception from here on leaves the run as it is: its requests are stored.
    announced_ = true;
    outcome_ = RunOutcome::suspended;
    const std::vector<HitlRequest>& requests = core_.questions()->detached();
    std::vector<std::string> ids;
    for (const HitlRequest& request : requests) ids.push_back(request.question_id);
    const std::string count = std::to_string(ids.size());
    error_ = std::make_shared<const PendingRequestsError>(
        std::move(ids), "the run is suspended: " + count + " request(s) wait for an answer");
    if (store_) co_await store_(outcome_);
    AgentSuspendedEvent event;
    event.pending_requests = requests;
    const Spending spending = core_.account()->own_spending();
    event.usage = spending.usage;
    event.cost = spending.cost;
    core_.account()->charge_to_budget();
    co_await core_.emit(std::move(event));
}

Task<void> RunEnd::announce() {
    announced_ = true;
    AgentEndEvent event;
    event.messages = core_.new_messages();
    event.outcome = outcome_;
    event.error = error_;
    const Spending spending = core_.account()->own_spending();
    event.usage = spending.usage;
    event.cost = spending.cost;
    core_.account()->charge_to_budget();
    return core_.emit(std::move(event));
}

Task<void> RunEnd::close(std::exception_ptr failure, bool is_turn_open) {
    const std::string text = note_failure(failure);
    // If the exception came from agent_end, or from storing the outcome, no second end is emitted.
    if (!announced_) {
        const Message message = failure_message(core_, text, outcome_ == RunOutcome::aborted);
        co_await attempt(core_.close_open_calls());
        co_await attempt(core_.announce(message));
        core_.state().error_message = text;
        TurnEndEvent turn_end;
        turn_end.message = message;
        if (is_turn_open) co_await attempt(core_.emit(std::move(turn_end)));
        co_await attempt(finish());
        if (!announced_) co_await attempt(announce());
    }
    core_.state().error_message = text;
    // Further exceptions of listeners must not affect the next run.
    (void)core_.parts().hub->take_failure();
}

/// Sets the outcome and the error of the run for the exception. Returns the text for the messages.
std::string RunEnd::note_failure(const std::exception_ptr& failure) {
    outcome_ = RunOutcome::failed;
    error_ = nullptr;
    std::string text = "unknown exception";
    try {
        std::rethrow_exception(failure);
    } catch (const ListenerFailed&) {
        rethrow_ = core_.parts().hub->take_failure();
        text = "a listener threw an exception";
    } catch (const CheckpointerError& error) {
        rethrow_ = failure;
        text = error.what();
        error_ = error_with_text(failure, text);
    } catch (const HookFailed& failed) {
        text = failed.text();
        error_ = error_with_text(failed.cause, text);
    } catch (const std::exception& error) {
        const bool aborted = core_.stopped() && is_cancellation(failure);
        if (aborted) outcome_ = RunOutcome::aborted;
        text = aborted ? std::string(aborted_text) : error.what();
        if (!aborted) error_ = error_with_text(failure, text);
    } catch (...) {
    }
    if (!error_) {
        const ErrorCode code =
            outcome_ == RunOutcome::aborted ? ErrorCode::cancelled : ErrorCode::unknown;
        error_ = std::make_shared<const Error>(code, text);
    }
    return text;
}

/// Runs one step of closing: if it throws, the next step still runs. The first failure is stored for the caller.
Task<void> RunEnd::attempt(Task<void> step) {
    const Outcome<> done = co_await outcome_of(std::move(step));
    if (done.ok()) co_return;
    std::exception_ptr listener = core_.parts().hub->take_failure();
    if (!rethrow_) rethrow_ = listener ? listener : done.failure();
}

RunResult RunEnd::result() const {
    RunResult made;
    made.run_id = core_.run_id().str();
    made.attempt_id = core_.info().attempt_id;
    made.outcome = outcome_;
    made.new_messages = core_.new_messages();
    const Spending spending = core_.spending();
    made.usage = spending.usage;
    made.cost = spending.cost;
    made.failure = error_;
    if (outcome_ == RunOutcome::suspended) made.pending_requests = core_.questions()->detached();
    return made;
}

}  // namespace cubepi::detail
