#include <cubepi/agent/run/turn_loop.hpp>

#include <utility>

#include <cubepi/agent/run/limit_checks.hpp>
#include <cubepi/agent/run/model_turn.hpp>
#include <cubepi/agent/run/tool_batch.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/support/error_with_text.hpp>

namespace cubepi::detail {

namespace {

/// Limit of additions by hooks at the end of a run.
constexpr std::size_t max_run_end_cycles = 100;

/// Turns after which the event loop gets a turn of its own, whether the model and the tools waited or not.
constexpr std::uint32_t yield_interval = 16;

/// The step that follows a turn.
enum class Next : std::uint8_t {
    turn,
    end_of_turns,  ///< the model is done; queued inputs or middleware may continue the run
    end_of_run,
    suspension,  ///< calls wait for the user
};

/// An answer after after_model_response.
struct ResponseReview {
    Message message = {};
    TurnDecision decision = TurnDecision::natural;
    MessageList inject_messages = {};
    bool cut_short = false;  ///< the run was aborted before the hook returned
};

bool has_failed(const AssistantMessage& answer) {
    return answer.stop_reason == stop_reason::error || answer.stop_reason == stop_reason::aborted;
}

/// One run: turns, until neither the model nor a queue nor a hook continues it. A turn is one call of the model
/// (ModelTurn) and the tools that it calls (ToolBatch); both share the run's RunCore.
class Loop {
public:
    Loop(RunCore& core, RunPlan plan)
        : core_(core), parts_(core.parts()), plan_(std::move(plan)), turns_(core.turns_before()) {}

    Task<void> drive();
    Task<void> close(std::exception_ptr failure);
    RunResult result() const;
    /// Returns the exception for the caller that awaits the run, or null.
    const std::exception_ptr& rethrow() const noexcept { return rethrow_; }

private:
    Task<void> open();
    Task<Next> turn();
    Task<Next> take_up_calls();
    Task<void> suspend();
    Task<void> withdraw_questions();
    Task<Next> add_queued();
    std::optional<LimitReachedError> limit_before_call() const;
    void note_failed_answer(std::shared_ptr<const Error> error, const AssistantMessage& answer);
    void end_limited(LimitReachedError reached);
    Task<void> end_before_call(LimitReachedError reached);
    Task<void> begin_turn();
    Task<void> end_turn(Message message, MessageList tool_results);
    Task<void> end_failed_turn(Message message);
    Task<void> end_cut_short(AssistantMessage answer);
    Task<Next> run_tools(Message message, ToolList tools, MessageList inject_messages);
    Task<ResponseReview> review(Message message);
    bool asks_to_stop() const noexcept {
        return parts_.hooks->should_stop_after_turn && !core_.stopped();
    }
    Task<bool> should_stop(Message message, MessageList tool_results);
    std::vector<Input> take_queued();
    Task<bool> ask_at_run_end();
    Task<void> inject(MessageList messages);
    Task<void> end_run();
    Task<void> announce_end();
    std::string note_failure(const std::exception_ptr& failure);
    Task<void> attempt(Task<void> step);

    RunCore& core_;
    const RunParts& parts_;
    RunPlan plan_;  // the prompts until the history has them
    RunOutcome outcome_ = RunOutcome::completed;
    std::shared_ptr<const Error> error_;
    std::exception_ptr rethrow_;
    std::size_t run_end_cycles_ = 0;
    std::uint32_t turns_;  ///< of this run, and those before it that count toward its limits
    bool turn_open_ = false;
    bool end_announced_ = false;
    bool terminated_ = false;
};

// The run, top to bottom.

Task<void> Loop::drive() {
    co_await open();
    Next next = Next::turn;
    if (plan_.open_calls) next = co_await take_up_calls();
    if (next == Next::end_of_turns && !core_.stopped()) next = co_await add_queued();
    while (next == Next::turn) {
        if (!turn_open_) {
            auto reached = limit_reached(parts_.limits, turns_, core_.spent());
            if (reached) {
                end_limited(std::move(*reached));
                break;
            }
            co_await begin_turn();
        }
        if (!core_.stopped()) {
            auto reached = limit_before_call();
            if (reached) {
                co_await end_before_call(std::move(*reached));
                break;
            }
        }
        next = co_await turn();
        // Lets timers and signals of the event loop run if neither the model nor the tools ever wait.
        if (next == Next::turn && turns_ % yield_interval == 0) co_await yield_now();
        if (next == Next::end_of_turns && !core_.stopped()) next = co_await add_queued();
    }
    if (next == Next::suspension) co_return co_await suspend();
    co_await end_run();
}

/// Begins the first turn and adds the prompts to the history.
Task<void> Loop::open() {
    co_await core_.emit(AgentStartEvent());
    if (plan_.opening) co_await plan_.opening();
    co_await begin_turn();
    if (plan_.open_calls) co_return;
    if (core_.has_open_calls()) co_await core_.close_open_calls();
    std::vector<Input> prompts = std::exchange(plan_.prompts, {});
    co_await core_.take_in(std::move(prompts));
    if (core_.stopped()) co_return;
    std::vector<Input> steering = parts_.inputs->take_steering();
    if (!steering.empty()) co_await core_.take_in(std::move(steering));
}

/// Continues the tool calls of a suspended run.
Task<Next> Loop::take_up_calls() {
    const MessageList& messages = core_.state().messages;
    std::size_t last = messages.size();
    while (last > 0 && messages[last - 1].role() == Role::tool_result) --last;
    return run_tools(messages[last - 1], parts_.tools, MessageList());
}

/// Adds queued inputs or the messages of on_run_end when the model is done (D5, D33).
Task<Next> Loop::add_queued() {
    std::vector<Input> queued = take_queued();
    if (!queued.empty()) {
        co_await core_.take_in(std::move(queued));
        co_return Next::turn;
    }
    if (!parts_.hooks->on_run_end || run_end_cycles_ >= max_run_end_cycles) {
        co_return Next::end_of_turns;
    }
    const bool more = co_await ask_at_run_end();
    if (!more) co_return Next::end_of_turns;
    co_return Next::turn;
}

/// Returns the limit that prevents the model call of the open turn. Checks the price before each call, because set_model()
/// may have changed the model.
std::optional<LimitReachedError> Loop::limit_before_call() const {
    auto reached = limit_reached(parts_.limits, turns_ - 1, core_.spent());
    if (reached) return reached;
    return price_missing(parts_.limits, *core_.state().model);
}

void Loop::end_limited(LimitReachedError reached) {
    outcome_ = RunOutcome::limited;
    error_ = std::make_shared<const LimitReachedError>(std::move(reached));
}

/// Closes the turn before its model call (D24): because of a spend limit with a model of unknown price, or of a limit
/// that earlier model calls have reached.
Task<void> Loop::end_before_call(LimitReachedError reached) {
    end_limited(std::move(reached));
    Message message = failure_message(core_, error_->what(), false);
    co_await core_.announce(message);
    co_await end_turn(std::move(message), MessageList());
}

Task<Next> Loop::turn() {
    ModelTurn model(core_);
    co_await model.run();
    ResponseReview answer;
    answer.message = model.take_message();
    if (has_failed(*answer.message.assistant())) {
        note_failed_answer(model.failure(), *answer.message.assistant());
        co_await end_failed_turn(std::move(answer.message));
        co_return Next::end_of_run;
    }
    if (parts_.hooks->after_model_response) {
        answer = co_await review(std::move(answer.message));
        if (answer.cut_short) {
            co_await end_cut_short(*answer.message.assistant());
            co_return Next::end_of_run;
        }
    }
    co_await core_.finish(answer.message);
    const bool has_calls = answer.message.assistant()->has_tool_calls();
    if (answer.decision == TurnDecision::natural && has_calls) {
        co_return co_await run_tools(std::move(answer.message), model.tools(),
                                     std::move(answer.inject_messages));
    }
    if (core_.has_open_calls()) co_await core_.close_open_calls();
    if (!answer.inject_messages.empty()) co_await inject(std::move(answer.inject_messages));
    co_await end_turn(answer.message, MessageList());
    if (answer.decision == TurnDecision::loop_to_model) co_return Next::turn;
    bool stop = answer.decision == TurnDecision::stop;
    if (!stop && asks_to_stop()) {
        stop = co_await should_stop(std::move(answer.message), MessageList());
    }
    if (stop) co_return Next::end_of_run;
    co_return Next::end_of_turns;
}

/// Sets the outcome and the error of the run for a failed or aborted answer.
void Loop::note_failed_answer(std::shared_ptr<const Error> error, const AssistantMessage& answer) {
    const bool aborted = answer.stop_reason == stop_reason::aborted;
    outcome_ = aborted ? RunOutcome::aborted : RunOutcome::failed;
    error_ = std::move(error);
    if (dynamic_cast<const LimitReachedError*>(error_.get())) outcome_ = RunOutcome::limited;
}

Task<Next> Loop::run_tools(Message message, ToolList tools, MessageList inject_messages) {
    const std::optional<OpenCalls> open_calls = std::exchange(plan_.open_calls, std::nullopt);
    ToolBatch batch(core_, message, std::move(tools), open_calls);
    co_await batch.run();
    if (batch.suspended()) {
        if (!core_.stopped()) co_return Next::suspension;
        co_await withdraw_questions();
    }
    if (!inject_messages.empty()) co_await inject(std::move(inject_messages));
    co_await end_turn(message, batch.results());
    bool stop = false;
    if (asks_to_stop()) stop = co_await should_stop(std::move(message), batch.results());
    if (stop) co_return Next::end_of_run;
    if (batch.terminates()) {
        terminated_ = true;
        co_return Next::end_of_turns;
    }
    // An aborted run ends with an aborted answer, in a turn of its own.
    if (core_.stopped()) co_return Next::turn;
    std::vector<Input> steering = parts_.inputs->take_steering();
    if (!steering.empty()) co_await core_.take_in(std::move(steering));
    co_return Next::turn;
}

/// Ends the run as suspended (D59): what is stored is complete before agent_suspended.
Task<void> Loop::suspend() {
    // An exception from here on leaves the run as it is: its requests are stored.
    end_announced_ = true;
    outcome_ = RunOutcome::suspended;
    const std::vector<HitlRequest>& requests = core_.questions()->detached();
    std::vector<std::string> ids;
    for (const HitlRequest& request : requests) ids.push_back(request.question_id);
    const std::string count = std::to_string(ids.size());
    error_ = std::make_shared<const PendingRequestsError>(
        std::move(ids), "the run is suspended: " + count + " request(s) wait for an answer");
    if (plan_.finish) co_await plan_.finish(outcome_);
    AgentSuspendedEvent event;
    event.pending_requests = requests;
    co_await core_.emit(std::move(event));
}

/// Removes the requests of a run that was aborted while it was being suspended.
Task<void> Loop::withdraw_questions() {
    std::vector<std::string> ids;
    for (const HitlRequest& request : core_.questions()->detached())
        ids.push_back(request.question_id);
    if (!ids.empty()) parts_.log->settle_with_next(std::move(ids));
    co_await core_.close_open_calls();
}

Task<void> Loop::begin_turn() {
    core_.next_turn();
    ++turns_;
    turn_open_ = true;
    return core_.emit(TurnStartEvent());
}

Task<void> Loop::end_turn(Message message, MessageList tool_results) {
    turn_open_ = false;
    TurnEndEvent event;
    event.message = std::move(message);
    event.tool_results = std::move(tool_results);
    return core_.emit(std::move(event));
}

/// Closes the turn of a failed or aborted answer: its calls are not executed and get error results (D1, D34).
Task<void> Loop::end_failed_turn(Message message) {
    co_await core_.finish(message);
    if (core_.has_open_calls()) co_await core_.close_open_calls();
    co_await end_turn(std::move(message), MessageList());
}

/// Handles an abort between the answer and the end of its hook: the answer is preserved as far as received (D7).
Task<void> Loop::end_cut_short(AssistantMessage answer) {
    answer.stop_reason = stop_reason::shared(stop_reason::aborted);
    answer.error_message = aborted_text;
    error_ = std::make_shared<const Error>(ErrorCode::cancelled, std::string(aborted_text));
    outcome_ = RunOutcome::aborted;
    co_await end_failed_turn(Message(std::move(answer)));
}

/// Passes an answer to after_model_response. The hook's changes of an answer that is cut short are preserved, too.
Task<ResponseReview> Loop::review(Message message) {
    ResponseReview review;
    review.message = std::move(message);
    HookContext context = core_.hook_context();
    // The hook sees the history with the response at its end.
    MessageList seen = core_.state().messages;
    seen.push_back(review.message);
    HookContext with_response{
        context.system_prompt, seen,         context.extra,      context.run_id,
        context.thread_id,     context.turn, context.stop_token, context.runtime};
    AssistantMessage response = *review.message.assistant();
    auto hook = parts_.hooks->after_model_response(std::move(response), with_response);
    auto asked = core_.call_run_hook("after_model_response", std::move(hook));
    Outcome<std::optional<TurnAction>> answer = co_await outcome_of(std::move(asked));
    review.cut_short = core_.stopped();
    if (answer.cancelled() && review.cut_short) co_return review;
    std::optional<TurnAction> action = std::move(answer).value();
    if (!action) co_return review;
    if (action->response) {
        AssistantMessage replaced = std::move(*action->response);
        replaced.id = review.message.id();
        replaced.run_id = review.message.run_id();
        review.message = Message(std::move(replaced));
    }
    review.decision = action->decision.value_or(TurnDecision::natural);
    review.inject_messages = std::move(action->inject_messages);
    co_return review;
}

Task<bool> Loop::should_stop(Message message, MessageList tool_results) {
    HookContext context = core_.hook_context();
    ShouldStopAfterTurnContext asked{message, tool_results, core_.new_messages(), context};
    auto hook = parts_.hooks->should_stop_after_turn(asked);
    const bool stop = co_await core_.call_run_hook("should_stop_after_turn", std::move(hook));
    co_return stop;
}

std::vector<Input> Loop::take_queued() {
    if (terminated_) return {};
    std::vector<Input> queued = parts_.inputs->take_steering();
    return queued.empty() ? parts_.inputs->take_follow_ups() : std::move(queued);
}

Task<bool> Loop::ask_at_run_end() {
    HookContext context = core_.hook_context();
    auto hook = parts_.hooks->on_run_end(context);
    MessageList more = co_await core_.call_run_hook("on_run_end", std::move(hook));
    if (more.empty()) co_return false;
    ++run_end_cycles_;
    terminated_ = false;
    co_await inject(std::move(more));
    co_return true;
}

Task<void> Loop::inject(MessageList messages) {
    for (const Message& message : messages) {
        co_await core_.announce(message);
    }
}

// The end of the run.

Task<void> Loop::end_run() {
    if (plan_.finish) {
        co_await plan_.finish(outcome_);
        core_.time_passes();
    }
    co_await announce_end();
}

Task<void> Loop::announce_end() {
    end_announced_ = true;
    AgentEndEvent event;
    event.messages = core_.new_messages();
    return core_.emit(std::move(event));
}

RunResult Loop::result() const {
    RunResult made;
    made.run_id = core_.run_id().str();
    made.attempt_id = core_.info().attempt_id;
    made.outcome = outcome_;
    made.new_messages = core_.new_messages();
    made.usage = core_.usage();
    made.cost = core_.spent();
    made.failure = error_;
    if (outcome_ == RunOutcome::suspended) made.pending_requests = core_.questions()->detached();
    return made;
}

// The end of a run by an exception.

/// Sets the outcome and the error of the run for the exception. Returns the text for the messages.
std::string Loop::note_failure(const std::exception_ptr& failure) {
    outcome_ = RunOutcome::failed;
    std::string text = "unknown exception";
    try {
        std::rethrow_exception(failure);
    } catch (const ListenerFailed&) {
        rethrow_ = parts_.hub->take_failure();
        text = "a listener threw an exception";
    } catch (const CheckpointerError& error) {
        rethrow_ = failure;
        text = error.what();
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
Task<void> Loop::attempt(Task<void> step) {
    const Outcome<> done = co_await outcome_of(std::move(step));
    if (done.ok()) co_return;
    std::exception_ptr listener = parts_.hub->take_failure();
    if (!rethrow_) rethrow_ = listener ? listener : done.failure();
}

/// Emits an error message, turn_end if a turn is open (D31), one agent_end (D30).
Task<void> Loop::close(std::exception_ptr failure) {
    const std::string text = note_failure(failure);
    core_.put_back(std::exchange(plan_.prompts, {}));
    // Thrown at agent_end, or while the outcome was stored: do not emit a second end.
    if (!end_announced_) {
        const Message message = failure_message(core_, text, outcome_ == RunOutcome::aborted);
        co_await attempt(core_.close_open_calls());
        co_await attempt(core_.announce(message));
        core_.state().error_message = text;
        if (turn_open_) co_await attempt(end_turn(message, MessageList()));
        co_await attempt(end_run());
        if (!end_announced_) co_await attempt(announce_end());
    }
    core_.state().error_message = text;
    // Further exceptions of listeners must not affect the next run.
    (void)parts_.hub->take_failure();
}

}  // namespace

Task<RunResult> run_turns(RunCore& core, RunPlan plan) {
    Loop loop(core, std::move(plan));
    const Outcome<> driven = co_await outcome_of(loop.drive());
    if (!driven.ok()) co_await loop.close(driven.failure());
    if (loop.rethrow()) std::rethrow_exception(loop.rethrow());
    co_return loop.result();
}

}  // namespace cubepi::detail
