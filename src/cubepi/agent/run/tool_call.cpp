#include <cubepi/agent/run/tool_batch.hpp>

#include <algorithm>
#include <string>
#include <utility>

#include <cubepi/agent/run/run_core.hpp>
#include <cubepi/agent/run/tool_output.hpp>
#include <cubepi/agent/transcript.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/number_text.hpp>

// One call from its start event to its stored result.

namespace cubepi::detail {

namespace {

constexpr std::string_view call_aborted_text = "The run was aborted before this call was made.";
constexpr std::string_view unannounced_text =
    "The run failed before this call was made: a listener of its events threw an exception.";

}  // namespace

void ToolBatch::refuse(Call& call, std::string text) {
    call.result = AgentToolResult::error(std::move(text));
    call.state = State::refused;
}

void ToolBatch::refuse_aborted(Call& call) {
    const bool killed = open_ && open_->killed;
    refuse(call, std::string(killed ? interrupted_call_text : call_aborted_text));
}

void ToolBatch::refuse_unannounced(Call& call) { refuse(call, std::string(unannounced_text)); }

void ToolBatch::refuse_after(Call& call, const std::exception_ptr& failure) {
    if (core_.stopped()) return refuse_aborted(call);
    refuse(call, exception_text(failure));
}

// While the tool runs.

Task<void> ToolBatch::announce(Call& call) {
    if (core_.stopped()) refuse_aborted(call);
    ToolExecutionStartEvent event;
    event.tool_call_id = call.call().id;
    event.tool_name = call.call().name;
    event.args = call.call().arguments;
    return tell(std::move(event));
}

/// A call is not made if a listener failed on its start event (D6); the other calls of the batch are.
Task<void> ToolBatch::announce_in_batch(Call& call) {
    const bool failed_before = listener_failure_ != nullptr;
    co_await announce(call);
    if (listener_failure_ && !failed_before) refuse_unannounced(call);
}

std::string ToolBatch::key_of(const Call& call) const {
    const std::vector<const ToolCall*> calls = assistant_.tool_calls();
    const auto found = std::find(calls.begin(), calls.end(), call.given);
    return message_.id() + "." + std::to_string(found - calls.begin());
}

MaybeTask<AgentToolResult> ToolBatch::start(Call& call) {
    // A listener of the start may have aborted.
    if (core_.stopped() && call.state == State::ready) refuse_aborted(call);
    if (call.state != State::ready) return std::move(call.result);
    call.context.emplace(
        call.call().id, call.call().name, call.stop.get_token(), core_.parts().runtime,
        [this, &call](Json partial) { return update(call, std::move(partial)); },
        core_.parts().channel, core_.account(), key_of(call), open_ && call.is_repeatable);
    core_.invalidate_timestamp();
    const SerialSection here(core_.parts().serial);
    try {
        // after_tool_call receives the arguments too.
        JsonObject args = core_.parts().hooks->after_tool_call ? call.args : std::move(call.args);
        MaybeTask<AgentToolResult> result = call.tool->execute(std::move(args), *call.context);
        if (result.is_pending()) {
            call.kill = std::stop_source();
            call.state = State::running;
            ++running_;
        }
        return result;
    } catch (...) {
        return AgentToolResult::error(exception_text(std::current_exception()));
    }
}

std::unique_ptr<PausableTimer> ToolBatch::time_limit(Call& call) {
    const auto limit = call.tool->time_limit.value_or(core_.parts().limits.tool_timeout);
    if (limit.count() <= 0) return nullptr;
    auto expire = [this, &call, limit] {
        call.time_out = "The call was stopped after its time limit of " + seconds_text(limit) +
                        "; whether it took effect is unknown.";
        call.stop.request_stop();
        if (!call.sees_stop()) {
            call.kill.request_stop();
            return;
        }
        call.limit->restart(core_.parts().limits.abort_grace,
                            [&call] { call.kill.request_stop(); });
    };
    return std::make_unique<PausableTimer>(*core_.runtime().clock, executor_, limit,
                                           std::move(expire));
}

/// The result of a tool that has ended, whatever ended it.
AgentToolResult ToolBatch::result_of(const Call& call, Outcome<AgentToolResult> outcome) const {
    if (!call.time_out.empty()) {
        std::string text = call.time_out;
        if (outcome.ok()) {
            const std::string late = std::move(outcome).value().text();
            if (!late.empty()) text += "\n" + late;
        }
        return AgentToolResult::error(std::move(text));
    }
    if (outcome.ok()) return std::move(outcome).value();
    if (!outcome.cancelled()) return AgentToolResult::error(exception_text(outcome.failure()));
    return AgentToolResult::error(
        core_.stopped() ? "The call was interrupted by an abort; whether it took effect is unknown."
                        : "The tool cancelled its own execution.");
}

Task<void> ToolBatch::await_result(Call& call, Task<AgentToolResult> task) {
    call.limit = time_limit(call);
    Task<AgentToolResult> cancellable = cancel_on(call.kill.get_token(), std::move(task));
    Outcome<AgentToolResult> outcome = co_await outcome_of(std::move(cancellable));
    call.state = State::finished;
    core_.invalidate_timestamp();
    if (call.limit) call.limit->cancel();
    if (call.suspended && !core_.stopped()) {
        call.state = State::waiting;
    } else {
        AgentToolResult result = result_of(call, std::move(outcome));
        co_await conclude(call, std::move(result));
    }
    --running_;
    slot_.set();
    // The last one that ran: the others may wait for the user.
    if (core_.questions()) core_.questions()->note_change();
}

Task<void> ToolBatch::update(Call& call, Json partial_result) {
    if (call.state == State::finished || !call.context) co_return;
    sanitize(partial_result);
    core_.invalidate_timestamp();
    ToolExecutionUpdateEvent event;
    event.tool_call_id = call.call().id;
    event.tool_name = call.call().name;
    event.args = call.call().arguments;
    event.partial_result = std::move(partial_result);
    // A listener that throws fails the run when the batch is over; the tool is not to blame. What ends the tool does
    // not end a listener.
    Task<void> telling = tell(std::move(event));
    std::function<void()> nothing = [] {};
    co_await abort_when_cancelled(std::move(telling), std::move(nothing));
}

// After it has ended.

Task<void> ToolBatch::conclude(Call& call, AgentToolResult result) {
    const bool refused = call.state == State::refused;
    call.state = State::finished;
    call.result = std::move(result);
    sanitize(call.result);
    if (!refused && core_.parts().hooks->after_tool_call) co_await ask_after(call);
    std::string repeated;
    if (core_.repeated_calls().enabled() && !core_.stopped())
        repeated = core_.repeated_calls().note(call.call(), call.result);
    const std::size_t limit = call.max_chars.value_or(core_.parts().limits.tool_result_chars);
    if (limit != 0 && is_longer(call.result, limit)) {
        AgentToolResult whole = std::move(call.result);
        call.result =
            co_await cut_tool_output(core_.parts().runtime, core_.parts().spill, call.call().name,
                                     call.call().id, limit, std::move(whole));
    }
    if (!repeated.empty()) call.result.content.emplace_back(TextContent{std::move(repeated)});
    ToolExecutionEndEvent event;
    event.tool_call_id = call.call().id;
    event.tool_name = call.call().name;
    event.result = call.result;
    event.is_error = call.is_error();
    event.terminate = call.result.terminate.value_or(false);
    event.blocked_by_hook = call.block_reason.has_value();
    event.block_reason = call.block_reason.value_or(std::string());
    co_await tell(std::move(event));
}

Task<void> ToolBatch::ask_after(Call& call) {
    const HookContext context = core_.hook_context();
    const bool blocked = call.block_reason.has_value();
    AfterToolCallContext asked{assistant_,      call.call(), call.args, call.result,
                               call.is_error(), blocked,     context};
    auto asking = core_.call_hook(core_.parts().hooks->after_tool_call(asked));
    Outcome<std::optional<AfterToolCallResult>> outcome = co_await outcome_of(std::move(asking));
    // An abort that cut the hook short takes nothing from the result.
    if (outcome.cancelled() && core_.stopped()) co_return;
    if (!outcome.ok()) {
        call.result = AgentToolResult::error(exception_text(outcome.failure()));
        co_return;
    }
    std::optional<AfterToolCallResult> answer = std::move(outcome).value();
    if (!answer) co_return;
    if (answer->content) call.result.content = std::move(*answer->content);
    if (answer->details) call.result.details = std::move(*answer->details);
    if (answer->terminate) call.result.terminate = answer->terminate;
    if (answer->is_error) call.result.is_error = answer->is_error;
    call.max_chars = answer->max_chars;
    sanitize(call.result);
}

Task<void> ToolBatch::commit(Call& call) {
    ToolResultMessage message;
    message.tool_call_id = call.call().id;
    message.tool_name = call.call().name;
    message.content = std::move(call.result.content);
    if (core_.questions())
        add_origin(call.hitl_trace, core_.questions()->origin_for(call.call().id.str()));
    message.details = with_trace(std::move(call.result.details), call.hitl_trace);
    message.is_error = call.is_error();
    message.timestamp = core_.wall_seconds();
    // That of the answer: a run that continues another one may have an id of its own.
    message.run_id = message_.run_id().empty() ? core_.run_id() : message_.run_id();
    message.id = core_.runtime().ids->next();
    Message result(std::move(message));
    results_.push_back(result);
    RunQuestions* questions = core_.questions();
    if (questions && core_.parts().log->persistent() && questions->is_durable()) {
        std::vector<std::string> settled = questions->answered_for(call.call().id.str());
        if (!settled.empty()) core_.parts().log->settle_with_next(std::move(settled));
    }
    if (questions) questions->settle(call.call().id.str());
    try {
        co_await core_.announce(std::move(result));
    } catch (const ListenerFailed&) {
        keep_failure();
    }
}

}  // namespace cubepi::detail
