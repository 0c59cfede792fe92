#include <cubepi/agent/run/turn_loop.hpp>

#include <chrono>
#include <optional>
#include <utility>

#include <cubepi/agent/run/limit_checks.hpp>
#include <cubepi/agent/run/model_turn.hpp>
#include <cubepi/agent/run/prompt_settings.hpp>
#include <cubepi/agent/run/suspended_run.hpp>
#include <cubepi/agent/run/tool_output.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/clock.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/provider/answer_end.hpp>

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

// The hooks at the end of a turn and of a run. Each is called only if it is set. A failure throws HookFailed.

/// An answer after after_model_response.
struct ResponseReview {
    Message message = {};
    TurnDecision decision = TurnDecision::natural;
    MessageList inject_messages = {};
    bool cut_short = false;  ///< the run was aborted before the hook returned
};

/// Passes an answer to after_model_response. The hook's changes of an answer that is cut short are preserved, too.
Task<ResponseReview> review_answer(RunCore& core, Message message);

/// Calls should_stop_after_turn.
Task<bool> should_stop(RunCore& core, Message message, MessageList tool_results);

/// Calls on_run_end.
Task<MessageList> messages_at_run_end(RunCore& core);

// The steps of the loop for a run that is to answer with a value (D80).

/// Reads the value of an answer without tool calls. Returns true if it is valid; otherwise the answer continues with a
/// correction for the model, or the run ends with the error.
bool review_value(AnswerTask& task, RunEnd& end, ResponseReview& answer);
/// Returns true if the calls of an answer, which have been executed, contained the value. Sets the error of the run if the
/// model may not try again.
bool review_called_value(AnswerTask& task, RunEnd& end, const AssistantMessage& answer);
/// Makes a run that ends without error and value a failure.
void require_value(const AnswerTask& task, RunEnd& end);

/// One run: turns, until neither the model nor a queue nor a hook continues it. A turn is one call of the model
/// (ModelTurn) and the tools that it calls (ToolBatch); both share the run's RunCore.
class Loop {
public:
    Loop(RunCore& core, RunPlan plan)
        : core_(core),
          parts_(core.parts()),
          end_(core, std::exchange(plan.store_outcome, {}), plan.duration_limit),
          plan_(std::move(plan)),
          turns_(core.turns_before()) {}

    Task<void> drive();
    /// Ends the run after an exception of drive().
    Task<void> close(std::exception_ptr failure);
    const RunEnd& end() const noexcept { return end_; }

private:
    Task<void> open();
    Task<Next> resume_calls();
    Task<Next> next_turn();
    Task<Next> turn();
    Task<bool> wait_to_repeat(ModelTurn& model, std::size_t number);
    Task<void> begin_turn();
    Task<void> end_before_call(LimitReachedError reached);
    Task<Next> end_with_answer(ResponseReview answer);
    Task<Next> run_tools(Message message, ToolList tools, MessageList inject_messages);
    Task<void> end_turn(Message message, MessageList tool_results);
    Task<void> end_failed_turn(Message message);
    Task<void> end_cut_short(AssistantMessage answer);
    bool asks_to_stop() const noexcept {
        return parts_.hooks->should_stop_after_turn && !core_.stopped();
    }
    Task<Next> add_queued();
    std::vector<Input> take_queued();
    Task<void> inject(MessageList messages);

    RunCore& core_;
    const RunParts& parts_;
    RunEnd end_;
    RunPlan plan_;  // the prompts until the history has them
    std::size_t run_end_cycles_ = 0;
    std::uint32_t turns_;  ///< of this run, and those before it that count toward its limits
    bool turn_open_ = false;
    bool terminated_ = false;  ///< by the tools of the last turn
};

// The run, top to bottom.

Task<void> Loop::drive() {
    co_await open();
    Next next = Next::turn;
    if (plan_.open_calls) next = co_await resume_calls();
    if (next == Next::end_of_turns && !core_.stopped()) next = co_await add_queued();
    while (next == Next::turn) {
        next = co_await next_turn();
        // Lets timers and signals of the event loop run if neither the model nor the tools ever wait.
        if (next == Next::turn && turns_ % yield_interval == 0) co_await yield_now();
        if (next == Next::end_of_turns && !core_.stopped()) next = co_await add_queued();
    }
    if (next == Next::suspension) co_return co_await end_.suspend();
    if (core_.answer_task()) require_value(*core_.answer_task(), end_);
    co_await end_.finish();
}

/// Begins the first turn and adds the prompts to the history.
Task<void> Loop::open() {
    co_await core_.emit(AgentStartEvent());
    if (plan_.opening) co_await plan_.opening();
    co_await begin_turn();
    if (plan_.open_calls) co_return;
    if (plan_.continued_input) {
        turns_ += restore_work(core_, *plan_.continued_input);
    } else if (const MessageList& history = core_.state().messages; !history.empty()) {
        core_.repeated_calls().begin_after(history.back().id());
    }
    forget_turn(core_.state());
    if (core_.has_open_calls()) co_await core_.close_open_calls();
    std::vector<Input> prompts = std::exchange(plan_.prompts, {});
    co_await core_.take_in(std::move(prompts));
    if (core_.stopped()) co_return;
    std::vector<Input> steering = parts_.inputs->take_steering();
    if (!steering.empty()) co_await core_.take_in(std::move(steering));
}

/// Continues the tool calls of a run that was suspended, or whose process was killed.
Task<Next> Loop::resume_calls() {
    const MessageList& messages = core_.state().messages;
    const std::size_t last = end_of_answer(messages);
    const Message answer = messages[last - 1];
    ToolList tools = core_.begin_call(core_.model());
    if (core_.answer_task()) core_.answer_task()->resume(*answer.assistant(), messages, last);
    MessageList injected = restore_turn(core_, answer.id());
    std::uint32_t before =
        restore_work(core_, plan_.continued_input.value_or(std::string()), answer.id());
    before = restore_spending(core_, answer.id(), before);
    // The turn of the answer has begun.
    turns_ += before > 0 ? before - 1 : 0;
    if (any_repeatable(*parts_.log, tools)) {
        const bool may_repeat = co_await note_attempt(core_, answer.id());
        plan_.open_calls->exhausted = !may_repeat;
    }
    co_return co_await run_tools(answer, std::move(tools), std::move(injected));
}

// One turn.

/// Begins a turn, unless one is open, and runs it within the limits of the run.
Task<Next> Loop::next_turn() {
    if (!turn_open_) {
        auto reached = core_.repeated_calls().limit_reached();
        if (!reached) reached = limit_reached(parts_.limits, turns_, core_.limited_cost());
        if (reached) {
            end_.set_limited(std::move(*reached));
            co_return Next::end_of_run;
        }
        co_await begin_turn();
    }
    if (!core_.stopped()) {
        auto reached = limit_reached(parts_.limits, turns_ - 1, core_.limited_cost());
        if (reached) {
            co_await end_before_call(std::move(*reached));
            co_return Next::end_of_run;
        }
    }
    co_return co_await turn();
}

Task<void> Loop::begin_turn() {
    core_.next_turn();
    ++turns_;
    turn_open_ = true;
    return core_.emit(TurnStartEvent());
}

/// Closes the turn before its model call (D24), because of a limit that earlier model calls have reached.
Task<void> Loop::end_before_call(LimitReachedError reached) {
    end_.set_limited(std::move(reached));
    Message message = failure_message(core_, end_.error()->what(), false);
    co_await core_.announce(message);
    co_await end_turn(std::move(message), MessageList());
}

/// Calls the model, until its answer was not cut off, then the tools that it calls.
Task<Next> Loop::turn() {
    std::optional<ModelTurn> model;
    model.emplace(core_);
    co_await model->run();
    for (std::size_t number = 1; number <= parts_.limits.max_cut_answers && model->may_repeat();
         ++number) {
        const bool waited = co_await wait_to_repeat(*model, number);
        if (!waited) break;
        const Message cut = model->take_message();
        co_await core_.discard(cut);
        model.emplace(core_);
        co_await model->run();
    }
    ResponseReview answer;
    answer.message = model->take_message();
    if (has_failed(*answer.message.assistant())) {
        end_.set_failed_answer(model->failure(), *answer.message.assistant());
        co_await end_failed_turn(std::move(answer.message));
        co_return Next::end_of_run;
    }
    if (parts_.hooks->after_model_response) {
        answer = co_await review_answer(core_, std::move(answer.message));
        if (answer.cut_short) {
            co_await end_cut_short(*answer.message.assistant());
            co_return Next::end_of_run;
        }
    }
    const bool has_calls = answer.message.assistant()->has_tool_calls();
    const bool runs_tools = has_calls && answer.decision == TurnDecision::natural;
    // In the write that stores the answer.
    if (has_calls && !runs_tools && parts_.log->persistent())
        refuse_turn(core_.state(), answer.message.id());
    co_await core_.finish(answer.message);
    if (runs_tools) {
        co_return co_await run_tools(std::move(answer.message), model->tools(),
                                     std::move(answer.inject_messages));
    }
    const bool reviewed = core_.answer_task() && !is_paused(*answer.message.assistant());
    if (reviewed) terminated_ = review_value(*core_.answer_task(), end_, answer);
    co_return co_await end_with_answer(std::move(answer));
}

/// Waits before the call of a cut answer is made again. Returns false if the run was aborted meanwhile: then what was streamed stays (D7).
Task<bool> Loop::wait_to_repeat(ModelTurn& model, std::size_t number) {
    const std::chrono::milliseconds delay = model.repeat_delay(number);
    Notice notice = model.repeat_notice(number, delay);
    co_await core_.notice(std::move(notice));
    core_.invalidate_timestamp();
    Task<void> sleeping = core_.runtime().clock->sleep_for(delay);
    Task<void> waiting = cancel_on(core_.stop_token(), std::move(sleeping));
    const Outcome<> waited = co_await outcome_of(std::move(waiting));
    const bool stopped = core_.stopped();
    if (stopped) {
        model.abort();
    } else {
        waited.rethrow();
    }
    co_return !stopped;
}

/// Ends a turn whose answer calls no tools, or whose calls are not to be made.
Task<Next> Loop::end_with_answer(ResponseReview answer) {
    if (core_.has_open_calls()) {
        co_await core_.close_open_calls();
        forget_turn(core_.state());
    }
    if (!answer.inject_messages.empty()) co_await inject(std::move(answer.inject_messages));
    co_await end_turn(answer.message, MessageList());
    if (answer.decision == TurnDecision::loop_to_model) co_return Next::turn;
    bool stop = answer.decision == TurnDecision::stop;
    const bool paused = is_paused(*answer.message.assistant());
    if (!stop && asks_to_stop()) {
        stop = co_await should_stop(core_, std::move(answer.message), MessageList());
    }
    if (stop) co_return Next::end_of_run;
    co_return paused ? Next::turn : Next::end_of_turns;
}

Task<Next> Loop::run_tools(Message message, ToolList tools, MessageList inject_messages) {
    std::optional<OpenCalls> open_calls = std::exchange(plan_.open_calls, std::nullopt);
    ToolBatch batch(core_, message, std::move(tools), std::move(open_calls));
    const auto save = [&] {
        return save_turn(core_, message.id(), inject_messages, turns_ - core_.turns_before());
    };
    if (core_.can_suspend()) {
        // Before the first request is stored. Without messages to save, the digest of the prompt is saved when a wait begins.
        if (!inject_messages.empty()) co_await save();
        core_.questions()->before_wait = save;
    }
    co_await batch.run();
    if (batch.suspended()) {
        if (!core_.stopped()) {
            forget_attempts(core_.state());
            // With what sub-agents and other calls have spent since the first question.
            co_await save();
            co_return Next::suspension;
        }
        co_await core_.questions()->withdraw_detached();
    }
    forget_turn(core_.state());
    if (!inject_messages.empty()) co_await inject(std::move(inject_messages));
    co_await end_turn(message, batch.results());
    if (core_.answer_task() && !core_.stopped()) {
        terminated_ = review_called_value(*core_.answer_task(), end_, *message.assistant());
        if (terminated_) co_return Next::end_of_turns;
        if (end_.error()) co_return Next::end_of_run;
    }
    bool stop = false;
    if (asks_to_stop()) stop = co_await should_stop(core_, std::move(message), batch.results());
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
    end_.set_aborted();
    co_await end_failed_turn(Message(std::move(answer)));
}

// Continuation of a run whose model is done.

/// Adds queued inputs or the messages of on_run_end (D5, D33).
Task<Next> Loop::add_queued() {
    std::vector<Input> queued = take_queued();
    if (!queued.empty()) {
        co_await core_.take_in(std::move(queued));
        co_return Next::turn;
    }
    if (!parts_.hooks->on_run_end || run_end_cycles_ >= max_run_end_cycles) {
        co_return Next::end_of_turns;
    }
    MessageList more = co_await messages_at_run_end(core_);
    if (more.empty()) co_return Next::end_of_turns;
    ++run_end_cycles_;
    terminated_ = false;
    if (core_.answer_task()) core_.answer_task()->reopen();
    co_await inject(std::move(more));
    co_return Next::turn;
}

std::vector<Input> Loop::take_queued() {
    if (terminated_) return {};
    std::vector<Input> queued = parts_.inputs->take_steering();
    return queued.empty() ? parts_.inputs->take_follow_ups() : std::move(queued);
}

Task<void> Loop::inject(MessageList messages) {
    for (const Message& message : messages) {
        Message clean = sanitized(message);
        co_await core_.announce(std::move(clean));
    }
}

Task<void> Loop::close(std::exception_ptr failure) {
    core_.put_back(std::exchange(plan_.prompts, {}));
    co_await end_.close(std::move(failure), turn_open_);
}

// The hooks.

/// Awaits after_model_response with the history in which the answer is the last message.
Task<std::optional<TurnAction>> ask_after_response(RunCore& core, Message answer) {
    const HookContext context = core.hook_context();
    MessageList seen = core.state().messages;
    seen.push_back(answer);
    HookContext with_answer{
        context.system_prompt, seen,           context.extra,      context.run_id,
        context.thread_id,     context.turn,   context.stop_token, context.runtime,
        context.account,       context.request};
    AssistantMessage response = *answer.assistant();
    auto hook = core.parts().hooks->after_model_response(std::move(response), with_answer);
    auto asked = core.call_run_hook("after_model_response", std::move(hook));
    std::optional<TurnAction> action = co_await std::move(asked);
    co_return action;
}

Task<ResponseReview> review_answer(RunCore& core, Message message) {
    ResponseReview review;
    review.message = std::move(message);
    Task<std::optional<TurnAction>> asking = ask_after_response(core, review.message);
    Outcome<std::optional<TurnAction>> answer = co_await outcome_of(std::move(asking));
    review.cut_short = core.stopped();
    if (answer.cancelled() && review.cut_short) co_return review;
    std::optional<TurnAction> action = std::move(answer).value();
    if (!action) co_return review;
    if (action->response) {
        AssistantMessage replaced = std::move(*action->response);
        replaced.id = review.message.id();
        replaced.run_id = review.message.run_id();
        review.message = sanitized(Message(std::move(replaced)));
    }
    review.decision = action->decision.value_or(TurnDecision::natural);
    review.inject_messages = std::move(action->inject_messages);
    co_return review;
}

Task<bool> should_stop(RunCore& core, Message message, MessageList tool_results) {
    HookContext context = core.hook_context();
    ShouldStopAfterTurnContext asked{message, tool_results, core.new_messages(), context};
    auto hook = core.parts().hooks->should_stop_after_turn(asked);
    const bool stop = co_await core.call_run_hook("should_stop_after_turn", std::move(hook));
    co_return stop;
}

Task<MessageList> messages_at_run_end(RunCore& core) {
    HookContext context = core.hook_context();
    auto hook = core.parts().hooks->on_run_end(context);
    MessageList messages = co_await core.call_run_hook("on_run_end", std::move(hook));
    co_return messages;
}

// Answers with a value.

bool review_value(AnswerTask& task, RunEnd& end, ResponseReview& answer) {
    if (answer.decision != TurnDecision::natural) return false;
    switch (task.review(*answer.message.assistant())) {
        case AnswerTask::Verdict::accepted: return true;
        case AnswerTask::Verdict::retry:
            answer.inject_messages.push_back(task.correction());
            answer.decision = TurnDecision::loop_to_model;
            break;
        case AnswerTask::Verdict::failed:
            end.set_without_value(task.error());
            answer.decision = TurnDecision::stop;
            break;
    }
    return false;
}

bool review_called_value(AnswerTask& task, RunEnd& end, const AssistantMessage& answer) {
    const AnswerTask::Verdict verdict = task.review_calls(answer);
    if (verdict == AnswerTask::Verdict::failed) end.set_without_value(task.error());
    return verdict == AnswerTask::Verdict::accepted;
}

void require_value(const AnswerTask& task, RunEnd& end) {
    if (!task.accepted() && !end.error()) end.set_without_value(task.missing());
}

}  // namespace

Task<RunResult> run_turns(RunCore& core, RunPlan plan) {
    Loop loop(core, std::move(plan));
    const Outcome<> driven = co_await outcome_of(loop.drive());
    if (!driven.ok()) co_await loop.close(driven.failure());
    if (loop.end().rethrow()) std::rethrow_exception(loop.end().rethrow());
    co_return loop.end().result();
}

}  // namespace cubepi::detail
