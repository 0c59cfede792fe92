#include <bub/builtin/turn/agent_turn.hpp>

#include <chrono>
#include <utility>

#include <bub/builtin/tools/tool_names.hpp>
#include <bub/builtin/turn/earlier_turn.hpp>
#include <bub/tape/tape_checkpointer.hpp>
#include <bub/turn_span.hpp>
#include <cubepi/core/cancellation.hpp>

// The lifecycle of a turn: its start, its output, its end.

namespace bub::detail {

namespace {

/// Shown text is in the journal after this delay; writing costs little compared with drawing a frame.
constexpr std::chrono::milliseconds shown_text_interval{50};

[[noreturn]] void throw_failure(const cubepi::Error& failure) {
    if (const auto* error = dynamic_cast<const cubepi::ProviderError*>(&failure)) {
        cubepi::throw_provider_error(error->info(), error->what());
    }
    throw cubepi::Error(failure.code(), failure.what());
}

}  // namespace

std::optional<StreamEvent> AgentTurn::ready() {
    if (events_.empty()) return std::nullopt;
    StreamEvent event = std::move(events_.front());
    events_.pop_front();
    return event;
}

Task<std::optional<StreamEvent>> AgentTurn::next() {
    while (true) {
        if (std::optional<StreamEvent> event = ready()) co_return event;
        if (over_) co_return std::nullopt;
        if (!std::exchange(begun_, true)) {
            co_await begin();
            continue;
        }
        std::optional<cubepi::AgentEvent> event = co_await next_event();
        if (event && hand_off_) {
            translate_summary(*event);
        } else if (event) {
            translate(*event);
        } else if (hand_off_) {
            co_await finish_summary();
        } else {
            co_await finish();
        }
    }
}

Task<> AgentTurn::begin() {
    Tape tape = co_await core_->tape(plan_.session_id, state_);
    if (plan_.inherits) {
        tape_.emplace(tape.in(plan_.inherits));
    } else {
        TurnTransactionOptions options;
        options.turn_id = core_->runtime().ids->next();
        options.runtime = core_->framework().runtime();
        options.flush_interval = shown_text_interval;
        options.meta = trace_meta(state_);
        fork_ = tape.fork(std::move(options));
        tape_.emplace(tape.in(fork_));
        co_await tape_->bootstrap();
        state_.replace(std::make_shared<RunningTurn>(RunningTurn{fork_}));
    }
    state_.replace(std::make_shared<Tape>(*tape_));
    state_.mark_recorded();
    co_await recognize_answer();
    if (plan_.answer) {
        co_await continue_answered_run();
    } else if (!plan_.input_id.empty()) {
        co_await recover_input();
    }
    if (!over_) co_await start_agent();
}

/// The input may have been received before, by a process that died (D42).
Task<> AgentTurn::recover_input() {
    message_id_ = plan_.input_id;
    const std::optional<EarlierTurn> earlier = co_await find_earlier_turn(*tape_, message_id_);
    if (!earlier) co_return;
    message_id_ = earlier->message_id;
    run_id_ = earlier->run_id;
    over_ = earlier->answered;
    if (over_) status_ = TurnStatus::ok;
    if (over_ && earlier->joined) {
        // The turn to which it was added has answered it.
        state_.mark_silent();
        co_return;
    }
    if (over_) {
        repeat_answers(earlier->texts);
    } else {
        for (const std::string& text : earlier->texts) repeat(text);
    }
}

/// Ends the turn with the answers of an earlier process.
void AgentTurn::repeat_answers(const std::vector<std::string>& texts) {
    for (const std::string& text : texts) repeat(text);
    JsonObject data;
    data["ok"] = !texts.empty();
    data["text"] = texts.empty() ? std::string() : texts.back();
    push(event_kind::final, std::move(data), nullptr);
    if (!texts.empty()) return;
    JsonObject silence;
    silence["kind"] = "temporary";
    silence["message"] = "the turn was over without an answer";
    push(event_kind::error, std::move(silence), nullptr);
}

void AgentTurn::repeat(std::string text) {
    if (std::exchange(has_text_, true)) events_.push_back(StreamEvent::text("\n\n"));
    events_.push_back(StreamEvent::text(std::move(text)));
}

void AgentTurn::report(const cubepi::RunResult& result) {
    if (plan_.caller) plan_.caller->charge(result.usage, result.cost);
    if (!core_->options().on_result || plan_.is_subagent) return;
    const std::filesystem::path directory = core_->workspace_of(state_);
    const TurnContext occasion{plan_.session_id, directory, state_, plan_.message};
    core_->options().on_result(result, occasion);
}

Task<> AgentTurn::finish() {
    cubepi::RunResult result = co_await run_->result();
    if (should_hand_off(result)) {
        co_await begin_hand_off(std::move(result));
        co_return;
    }
    report(result);
    if (plan_.inherits) made_ = result.new_messages;
    if (result) {
        status_ = TurnStatus::ok;
        over_ = true;
        co_return;
    }
    if (result.outcome == cubepi::RunOutcome::suspended && result.pending_requests.empty()) {
        // Its questions are answered: a process was killed before it continued.
        run_.emplace(agent_->start_resume(run_options("")));
        co_return;
    }
    if (result.outcome == cubepi::RunOutcome::suspended) {
        end_suspended(std::move(result.pending_requests));
        co_return;
    }
    if (result.outcome == cubepi::RunOutcome::aborted) cubepi::throw_cancelled();
    const cubepi::Error& failure = result.error();
    over_ = true;
    if (result.outcome == cubepi::RunOutcome::failed) {
        status_ = TurnStatus::error;
        throw_failure(failure);
    }
    // A limit was reached: the turn ends with the output so far.
    status_ = TurnStatus::ok;
    JsonObject data;
    data["kind"] = "temporary";
    data["message"] = failure.what();
    if (const auto* reached = dynamic_cast<const cubepi::LimitReachedError*>(&failure))
        data["limit"] = reached->limit();
    push(event_kind::error, std::move(data), nullptr);
}

/// Appends the messages of a turn that inherits after those of its outer turn.
Task<> AgentTurn::keep_inherited() {
    if (made_.empty()) co_return;
    const std::shared_ptr<TurnTransaction> own =
        std::make_shared<TurnTransaction>(plan_.inherits, plan_.inherits->tape());
    TapeCheckpointer memory(own);
    cubepi::AppendOptions options;
    cubepi::MessageList made = std::move(made_);
    made_.clear();
    (void)co_await memory.append(own->tape(), std::move(made), std::move(options));
    std::vector<TapeEntry> entries = own->entries();
    co_await plan_.inherits->append_behind(std::move(entries));
    co_await own->discard();
}

Task<> AgentTurn::close() {
    if (!tape_ || std::exchange(closed_, true)) co_return;
    run_.reset();  // aborts the current run, whose last step goes to the tape
    if (agent_) co_await agent_->wait_for_idle();
    agent_.reset();
    tape_.reset();
    if (plan_.inherits) {
        co_await keep_inherited();
        co_return;
    }
    const std::shared_ptr<TurnTransaction> fork = std::exchange(fork_, nullptr);
    state_.replace(std::make_shared<RunningTurn>());
    // Later readers of the tape in this turn must see the tape into which the fork was merged.
    Tape after = co_await core_->tape(plan_.session_id, state_);
    state_.replace(std::make_shared<Tape>(std::move(after)));
    if (is_temporary(plan_.session_id)) {
        co_await fork->discard();
    } else {
        core_->keep_shells(plan_.session_id, std::move(shells_));
        co_await fork->merge(status_);
    }
}

}  // namespace bub::detail
