#include <cubepi/agent/detail/loop_run.hpp>

#include <utility>

#include <cubepi/agent/detail/model_turn.hpp>
#include <cubepi/agent/detail/tool_batch.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/provider/cost.hpp>

namespace cubepi::detail {

namespace {

constexpr std::size_t max_run_end_cycles = 100;

/// What follows a turn.
enum class Next : std::uint8_t { turn, end_of_turns, ended };

class Loop {
public:
    Loop(RunCore& core, std::function<Rest(RunOutcome)> finish_run, std::function<Rest()> opening)
        : core_(core),
          parts_(core.parts()),
          finish_run_(std::move(finish_run)),
          opening_(std::move(opening)) {}

    Task<void> drive(std::vector<Input> prompts);
    Task<void> close(std::exception_ptr failure);
    void fill(RunResult& result) const;
    /// What whoever awaits the run is to get as an exception, or null.
    const std::exception_ptr& rethrow() const noexcept { return rethrow_; }

private:
    Task<Next> turn();
    bool limit_reached();
    void limited(std::string text);
    bool price_unknown();
    Task<void> end_unpriced();
    Rest begin_turn();
    Rest end_turn(Message message, MessageList tool_results);
    Task<void> end_failed_turn(Message message);
    Task<Next> run_tools(Message message, ToolList tools, MessageList inject_messages);
    Task<void> ask_after_response(Message& message, TurnDecision& decision, MessageList& more);
    bool asks_to_stop() const noexcept {
        return parts_.hooks->should_stop_after_turn && !core_.stopped();
    }
    Task<bool> should_stop(Message message, MessageList tool_results);
    std::vector<Input> take_queued(bool& steering);
    Task<bool> ask_at_run_end();
    Task<void> inject(MessageList messages);
    Rest end_run();
    Task<void> end_run_after(Task<void> finished);
    Rest announce_end();

    RunCore& core_;
    const RunParts& parts_;
    std::function<Rest(RunOutcome)> finish_run_;
    std::function<Rest()> opening_;
    RunOutcome outcome_ = RunOutcome::completed;
    std::shared_ptr<const Error> error_;
    std::exception_ptr rethrow_;
    std::size_t run_end_cycles_ = 0;
    std::uint32_t turns_ = 0;
    bool turn_open_ = false;
    bool end_announced_ = false;
    bool terminated_ = false;
};

// The run, top to bottom.

Task<void> Loop::drive(std::vector<Input> prompts) {
    if (Rest rest = core_.emit(AgentStartEvent())) co_await std::move(*rest);
    if (opening_) {
        if (Rest rest = opening_()) co_await std::move(*rest);
    }
    if (Rest rest = begin_turn()) co_await std::move(*rest);
    if (Rest rest = core_.close_open_calls()) co_await std::move(*rest);
    if (Rest rest = core_.take_in(std::move(prompts), true)) co_await std::move(*rest);
    if (!core_.stopped()) {
        if (Rest rest = core_.take_in(parts_.inputs->take_steering(), true)) {
            co_await std::move(*rest);
        }
    }
    if (price_unknown()) co_return co_await end_unpriced();
    Next next = Next::turn;
    while (next == Next::turn) {
        if (!turn_open_) {
            if (limit_reached()) break;
            if (Rest rest = begin_turn()) co_await std::move(*rest);
        }
        next = co_await turn();
        if (next != Next::end_of_turns || core_.stopped()) continue;
        // The model is done: queued inputs come now, and what middleware wants to add (D5, D33).
        bool steering = false;
        std::vector<Input> queued = take_queued(steering);
        if (!queued.empty()) {
            if (Rest rest = core_.take_in(std::move(queued), steering)) co_await std::move(*rest);
            next = Next::turn;
        } else if (parts_.hooks->on_run_end && run_end_cycles_ < max_run_end_cycles) {
            const bool more = co_await ask_at_run_end();
            if (more) next = Next::turn;
        }
    }
    if (next == Next::ended) co_return;
    if (Rest rest = end_run()) co_await std::move(*rest);
}

bool Loop::limit_reached() {
    const AgentLimits& limits = parts_.limits;
    if (limits.max_turns != 0 && turns_ >= limits.max_turns) {
        limited("the run reached its limit max_turns (" + std::to_string(limits.max_turns) +
                "): raise limits.max_turns, or prompt again to go on");
        return true;
    }
    if (limits.max_spend <= 0) return false;
    const std::optional<double> spent = core_.spent();
    if (spent && *spent < limits.max_spend) return false;
    const std::string limit =
        "the run reached its limit max_spend (" + money_text(limits.max_spend) + "): ";
    limited(spent
                ? limit + money_text(*spent) +
                      " are spent; raise limits.max_spend, or prompt again to go on"
                : limit + "what an answer cost is not known; give its model a price (Model::cost)");
    return true;
}

void Loop::limited(std::string text) {
    outcome_ = RunOutcome::limited;
    error_ = std::make_shared<const Error>(ErrorCode::limit, std::move(text));
}

bool Loop::price_unknown() {
    if (parts_.limits.max_spend <= 0 || core_.stopped()) return false;
    const Model& model = parts_.model.spec();
    if (price_of(model)) return false;
    limited("limits.max_spend is set, and the price of model '" + model.id + "' of provider '" +
            model.provider_id + "' is not known: give the model a price (Model::cost)");
    return true;
}

/// A limit of money with a model of unknown price: the run ends before its first call (D24).
Task<void> Loop::end_unpriced() {
    Message message = failure_message(core_, error_->what(), false);
    if (Rest rest = core_.announce(message)) co_await std::move(*rest);
    if (Rest rest = end_turn(std::move(message), MessageList())) co_await std::move(*rest);
    if (Rest rest = end_run()) co_await std::move(*rest);
}

Task<Next> Loop::turn() {
    ModelTurn model(core_);
    co_await model.run();
    Message message = model.take_message();
    const AssistantMessage& answer = *message.assistant();
    if (answer.stop_reason == stop_reason::error || answer.stop_reason == stop_reason::aborted) {
        error_ = model.failure();
        outcome_ =
            answer.stop_reason == stop_reason::aborted ? RunOutcome::aborted : RunOutcome::failed;
        co_await end_failed_turn(std::move(message));
        co_return Next::ended;
    }
    TurnDecision decision = TurnDecision::natural;
    MessageList more;
    if (parts_.hooks->after_model_response) co_await ask_after_response(message, decision, more);
    if (Rest rest = core_.finish(message)) co_await std::move(*rest);
    const bool has_calls = message.assistant()->has_tool_calls();
    if (decision == TurnDecision::natural && has_calls) {
        co_return co_await run_tools(std::move(message), model.tools(), std::move(more));
    }
    if (Rest rest = core_.close_open_calls()) co_await std::move(*rest);
    if (!more.empty()) co_await inject(std::move(more));
    if (Rest rest = end_turn(message, MessageList())) co_await std::move(*rest);
    if (decision == TurnDecision::loop_to_model) co_return Next::turn;
    bool stop = decision == TurnDecision::stop;
    if (!stop && asks_to_stop()) {
        stop = co_await should_stop(std::move(message), MessageList());
    }
    if (!stop) co_return Next::end_of_turns;
    if (Rest rest = end_run()) co_await std::move(*rest);
    co_return Next::ended;
}

Task<Next> Loop::run_tools(Message message, ToolList tools, MessageList inject_messages) {
    ToolBatch batch(core_, message, std::move(tools));
    co_await batch.run();
    if (!inject_messages.empty()) co_await inject(std::move(inject_messages));
    if (Rest rest = end_turn(message, batch.results())) co_await std::move(*rest);
    bool stop = false;
    if (asks_to_stop()) stop = co_await should_stop(std::move(message), batch.results());
    if (stop) {
        if (Rest rest = end_run()) co_await std::move(*rest);
        co_return Next::ended;
    }
    if (batch.terminates()) {
        terminated_ = true;
        co_return Next::end_of_turns;
    }
    if (core_.stopped()) co_return Next::turn;
    if (Rest rest = core_.take_in(parts_.inputs->take_steering(), true)) {
        co_await std::move(*rest);
    }
    co_return Next::turn;
}

Rest Loop::begin_turn() {
    core_.next_turn();
    ++turns_;
    turn_open_ = true;
    return core_.emit(TurnStartEvent());
}

Rest Loop::end_turn(Message message, MessageList tool_results) {
    turn_open_ = false;
    TurnEndEvent event;
    event.message = std::move(message);
    event.tool_results = std::move(tool_results);
    return core_.emit(std::move(event));
}

/// A failed or aborted answer: nothing of it is executed, its calls get error results (D1, D34).
Task<void> Loop::end_failed_turn(Message message) {
    if (Rest rest = core_.finish(message)) co_await std::move(*rest);
    if (Rest rest = core_.close_open_calls()) co_await std::move(*rest);
    if (Rest rest = end_turn(std::move(message), MessageList())) co_await std::move(*rest);
    if (Rest rest = end_run()) co_await std::move(*rest);
}

Task<void> Loop::ask_after_response(Message& message, TurnDecision& decision, MessageList& more) {
    HookContext context = core_.hook_context();
    // The hook sees the history with the response at its end.
    MessageList seen = core_.state().messages;
    seen.push_back(message);
    HookContext with_response{
        context.system_prompt, seen,         context.extra,      context.run_id,
        context.thread_id,     context.turn, context.stop_token, context.runtime};
    AssistantMessage response = *message.assistant();
    auto hook = parts_.hooks->after_model_response(std::move(response), with_response);
    std::optional<TurnAction> action = co_await core_.call_hook(std::move(hook));
    if (!action) co_return;
    if (action->response) {
        AssistantMessage replaced = std::move(*action->response);
        replaced.id = message.id();
        replaced.run_id = message.run_id();
        message = Message(std::move(replaced));
    }
    decision = action->decision.value_or(TurnDecision::natural);
    more = std::move(action->inject_messages);
}

Task<bool> Loop::should_stop(Message message, MessageList tool_results) {
    HookContext context = core_.hook_context();
    ShouldStopAfterTurnContext asked{message, tool_results, core_.new_messages(), context};
    auto hook = parts_.hooks->should_stop_after_turn(asked);
    const bool stop = co_await core_.call_hook(std::move(hook));
    co_return stop;
}

std::vector<Input> Loop::take_queued(bool& steering) {
    if (terminated_) return {};
    std::vector<Input> queued = parts_.inputs->take_steering();
    steering = !queued.empty();
    return steering ? std::move(queued) : parts_.inputs->take_follow_ups();
}

Task<bool> Loop::ask_at_run_end() {
    HookContext context = core_.hook_context();
    auto hook = parts_.hooks->on_run_end(context);
    MessageList more = co_await core_.call_hook(std::move(hook));
    if (more.empty()) co_return false;
    ++run_end_cycles_;
    terminated_ = false;
    co_await inject(std::move(more));
    co_return true;
}

Task<void> Loop::inject(MessageList messages) {
    for (const Message& message : messages) {
        if (Rest rest = core_.announce(message)) co_await std::move(*rest);
    }
}

// The end.

Rest Loop::end_run() {
    if (finish_run_) {
        if (Rest rest = finish_run_(outcome_)) return end_run_after(std::move(*rest));
    }
    return announce_end();
}

Task<void> Loop::end_run_after(Task<void> finished) {
    co_await std::move(finished);
    core_.time_passes();
    if (Rest rest = announce_end()) co_await std::move(*rest);
}

Rest Loop::announce_end() {
    end_announced_ = true;
    AgentEndEvent event;
    event.messages = core_.new_messages();
    return core_.emit(std::move(event));
}

void Loop::fill(RunResult& made) const {
    made.run_id = core_.run_id().str();
    made.attempt_id = core_.info().attempt_id;
    made.outcome = outcome_;
    made.new_messages = core_.new_messages();
    made.usage = core_.usage();
    made.cost = core_.spent();
    made.failure = error_;
}

/// Closes a run that an exception ended: an error message, turn_end if a turn is open (D31), one agent_end (D30).
/// Whatever fails on the way, the rest is still done.
Task<void> Loop::close(std::exception_ptr failure) {
    outcome_ = RunOutcome::failed;
    bool announce_message = true;
    std::string text = "unknown exception";
    try {
        std::rethrow_exception(failure);
    } catch (const ListenerFailed&) {
        rethrow_ = parts_.hub->take_failure();
        text = "a listener threw an exception";
    } catch (const CheckpointerError& error) {
        rethrow_ = std::current_exception();
        text = error.what();
    } catch (const ProviderError& error) {
        error_ = std::make_shared<const ProviderError>(error);
        text = error.what();
    } catch (const std::exception& error) {
        if (core_.stopped() && is_cancellation(std::current_exception())) {
            outcome_ = RunOutcome::aborted;
            text = "Request was aborted";
        } else {
            text = error.what();
        }
    } catch (...) {
    }
    if (!error_) {
        const ErrorCode code =
            outcome_ == RunOutcome::aborted ? ErrorCode::cancelled : ErrorCode::unknown;
        error_ = std::make_shared<const Error>(code, text);
    }
    if (end_announced_) {
        // Thrown at agent_end, or while the outcome was stored: there is no second end.
        announce_message = false;
    }
    const auto keep_first = [this] {
        std::exception_ptr listener = parts_.hub->take_failure();
        if (!rethrow_) rethrow_ = listener ? listener : std::current_exception();
    };
    if (announce_message) {
        Message message = failure_message(core_, text, outcome_ == RunOutcome::aborted);
        try {
            if (Rest rest = core_.close_open_calls()) co_await std::move(*rest);
        } catch (...) {
            keep_first();
        }
        try {
            if (Rest rest = core_.announce(message)) co_await std::move(*rest);
        } catch (...) {
            keep_first();
        }
        core_.state().error_message = text;
        if (turn_open_) {
            try {
                if (Rest rest = end_turn(message, MessageList())) co_await std::move(*rest);
            } catch (...) {
                keep_first();
            }
        }
        try {
            if (Rest rest = end_run()) co_await std::move(*rest);
        } catch (...) {
            keep_first();
        }
    }
    if (!end_announced_) {
        try {
            if (Rest rest = announce_end()) co_await std::move(*rest);
        } catch (...) {
            keep_first();
        }
    }
    core_.state().error_message = text;
}

}  // namespace

Task<void> run_loop(RunCore& core, std::vector<Input> prompts,
                    std::function<Rest(RunOutcome)> finish_run, std::function<Rest()> opening,
                    RunResult& result) {
    Loop loop(core, std::move(finish_run), std::move(opening));
    std::exception_ptr failure;
    try {
        co_await loop.drive(std::move(prompts));
    } catch (...) {
        failure = std::current_exception();
    }
    if (failure) co_await loop.close(std::move(failure));
    if (loop.rethrow()) std::rethrow_exception(loop.rethrow());
    loop.fill(result);
}

}  // namespace cubepi::detail
