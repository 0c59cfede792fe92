#include <cubepi/agent/run/tool_batch.hpp>

#include <algorithm>
#include <utility>

#include <cubepi/agent/run/abort_when_cancelled.hpp>
#include <cubepi/agent/run/tool_output.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/number_text.hpp>

// The stages of one call: before its tool runs, while it runs, and after it.

namespace cubepi::detail {

namespace {

constexpr std::string_view aborted_text = "The run was aborted before this call was made.";
constexpr std::string_view unannounced_text =
    "The run failed before this call was made: a listener of its events threw an exception.";
constexpr std::string_view cut_off_text =
    "The answer was cut off at its token limit, so the arguments of this call may be incomplete. "
    "It was not executed. Make the call again, with shorter arguments.";

}  // namespace

void ToolBatch::refuse(Call& call, std::string text) {
    call.result = AgentToolResult::error(std::move(text));
    call.state = State::refused;
}

void ToolBatch::refuse_unannounced(Call& call) { refuse(call, std::string(unannounced_text)); }

void ToolBatch::refuse_after(Call& call, const std::exception_ptr& failure) {
    refuse(call, core_.stopped() ? std::string(aborted_text) : exception_text(failure));
}

// Before the call.

Task<void> ToolBatch::prepare(Call& call) {
    call.state = State::preparing;
    if (core_.questions()) call.kill = std::stop_source();
    if (assistant_.stop_reason == stop_reason::length) {
        refuse(call, std::string(cut_off_text));
    } else if (core_.stopped()) {
        refuse(call, std::string(aborted_text));
    } else if (core_.parts().hooks->resolve_tool_call) {
        co_await prepare_resolved(call);
    } else if (check(call) && core_.parts().hooks->before_tool_call) {
        co_await ask_before(call);
    }
    // Its hook waited for the user when the run was suspended. What the hook made of that does not matter (D59).
    if (call.suspended && !core_.stopped()) call.state = State::waiting;
    if (call.state == State::preparing) call.state = State::ready;
}

/// Runs a hook that may wait for the user: suspending the run cancels it.
template <class T>
Task<T> ToolBatch::call_hook(Call& call, Task<T> hook) {
    Task<T> abortable = core_.call_hook(std::move(hook));
    if (!core_.questions()) return abortable;
    return cancel_on(call.kill.get_token(), std::move(abortable));
}

Task<void> ToolBatch::prepare_resolved(Call& call) {
    const bool is_runnable = co_await resolve(call);
    if (!is_runnable) co_return;
    call.tool = tools_.find(call.call().name);
    if (!check(call)) co_return;
    if (core_.parts().hooks->before_tool_call) co_await ask_before(call);
}

/// Returns true if the tool and the arguments of the call are valid.
bool ToolBatch::check(Call& call) {
    const ToolCall& asked = call.call();
    if (!call.tool) {
        refuse(call, "Tool " + asked.name.str() + " not found");
        return false;
    }
    if (!call.tool->execute) {
        refuse(call, "Tool " + asked.name.str() + " has no callback (AgentTool::execute)");
        return false;
    }
    if (!call.resolved && asked.extra.find("raw_arguments")) {
        SchemaIssue issue;
        issue.path = "<root>";
        issue.expected = "a JSON object";
        issue.message = "expected a JSON object, found text that is not valid JSON";
        refuse(call, format_issues(call.call().name, {issue}));
        return false;
    }
    return validate(call, asked.arguments);
}

Task<bool> ToolBatch::resolve(Call& call) {
    const ResolveToolCallHook& hook = core_.parts().hooks->resolve_tool_call;
    HookContext context = core_.hook_context();
    auto asked = call_hook(call, hook(*call.given, context));
    Outcome<std::optional<ToolCall>> answer = co_await outcome_of(std::move(asked));
    if (!answer.ok()) {
        refuse_after(call, answer.failure());
        co_return false;
    }
    std::optional<ToolCall> resolved = std::move(answer).value();
    if (resolved) {
        resolved->id = call.given->id;
        call.resolved = std::move(resolved);
    }
    co_return true;
}

bool ToolBatch::validate(Call& call, JsonObject args) {
    Json value(std::move(args));
    try {
        const std::vector<SchemaIssue> issues = call.tool->parameters.validate(value);
        if (issues.empty()) {
            call.args = std::move(value.as_object());
            return true;
        }
        refuse(call, format_issues(call.call().name, issues));
    } catch (const std::exception& error) {
        refuse(call, error.what());
    }
    return false;
}

Task<void> ToolBatch::ask_before(Call& call) {
    const HookContext context = core_.hook_context();
    BeforeToolCallContext asked{assistant_, call.call(), *call.tool, call.args, context};
    auto asking = call_hook(call, core_.parts().hooks->before_tool_call(asked));
    Outcome<std::optional<BeforeToolCallResult>> outcome = co_await outcome_of(std::move(asking));
    if (!outcome.ok()) co_return refuse_after(call, outcome.failure());
    std::optional<BeforeToolCallResult> answer = std::move(outcome).value();
    if (!answer) co_return;
    call.hitl_trace = std::move(answer->hitl_trace);
    sanitize(call.hitl_trace);
    if (answer->edited_args && !validate(call, std::move(*answer->edited_args))) {
        call.hitl_trace = nullptr;
        co_return;
    }
    if (answer->block) {
        std::string reason = answer->deny_reason.empty() ? answer->reason : answer->deny_reason;
        sanitize(reason);
        std::string text = answer->reason.empty() ? reason : std::move(answer->reason);
        if (text.empty()) text = "Tool execution was blocked";
        call.result = AgentToolResult::error(std::move(text));
        call.block_reason = std::move(reason);
        call.state = State::answered;
    } else if (answer->result) {
        call.result = std::move(*answer->result);
        call.state = State::answered;
    }
}

// During the call.

Task<void> ToolBatch::announce(Call& call) {
    if (core_.stopped()) refuse(call, std::string(aborted_text));
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

MaybeTask<AgentToolResult> ToolBatch::start(Call& call) {
    // A listener of the start may have aborted.
    if (core_.stopped() && call.state == State::ready) refuse(call, std::string(aborted_text));
    if (call.state != State::ready) return std::move(call.result);
    call.context.emplace(
        call.call().id, call.call().name, call.stop.get_token(), core_.parts().runtime,
        [this, &call](Json partial) { return update(call, std::move(partial)); },
        core_.parts().channel);
    core_.time_passes();
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
    core_.time_passes();
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
    core_.time_passes();
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

// After the call.

Task<void> ToolBatch::conclude(Call& call, AgentToolResult result) {
    const bool refused = call.state == State::refused;
    call.state = State::finished;
    call.result = std::move(result);
    sanitize(call.result);
    if (!refused && core_.parts().hooks->after_tool_call) co_await ask_after(call);
    const std::size_t limit = core_.parts().limits.tool_result_chars;
    if (limit != 0 && is_longer(call.result, limit)) {
        AgentToolResult whole = std::move(call.result);
        call.result =
            co_await cut_tool_output(core_.parts().runtime, core_.parts().spill, call.call().name,
                                     call.call().id, limit, std::move(whole));
    }
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
    sanitize(call.result);
}

Task<void> ToolBatch::commit(Call& call) {
    ToolResultMessage message;
    message.tool_call_id = call.call().id;
    message.tool_name = call.call().name;
    message.content = std::move(call.result.content);
    message.details = with_trace(std::move(call.result.details), call.hitl_trace);
    message.is_error = call.is_error();
    message.timestamp = core_.wall_seconds();
    message.run_id = core_.run_id();
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
