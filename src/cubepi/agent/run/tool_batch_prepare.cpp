#include <cubepi/agent/run/tool_batch.hpp>

#include <algorithm>
#include <utility>

#include <cubepi/agent/run/tool_output.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/error.hpp>

// The preparation of calls: they are resolved, validated and approved before their tools run.

namespace cubepi::detail {

namespace {

constexpr std::string_view cut_off_text =
    "The answer was cut off at its token limit, so the arguments of this call may be incomplete. "
    "It was not executed. Make the call again, with shorter arguments.";

}  // namespace

Task<void> ToolBatch::prepare_calls(std::size_t first, std::size_t end) {
    auto body = [this, first, end](TaskScope& scope) {
        return prepare_with_questions(scope, first, end);
    };
    co_await with_task_scope(body);
}

/// Prepares calls when their hooks may wait for the user: the hooks of a call start when those of the call before have
/// finished or wait (D18).
Task<void> ToolBatch::prepare_with_questions(TaskScope& scope, std::size_t first, std::size_t end) {
    RunQuestions& questions = *core_.questions();
    const auto is_preparing = [](const Call& call) { return call.state == State::preparing; };
    for (std::size_t i = first; i < end; ++i) {
        Call& call = calls_[i];
        if (call.state != State::received) continue;
        questions.set_asking_call(call.given->id.str());
        call.state = State::preparing;
        scope.spawn(prepare_and_tell(call));
        while (is_preparing(call) && !questions.waits(call.given->id.str()))
            co_await questions.change();
    }
    questions.set_asking_call({});
    while (std::any_of(calls_.begin(), calls_.end(), is_preparing)) {
        suspend_waiting();
        co_await questions.change();
    }
    co_await scope.join();
}

Task<void> ToolBatch::prepare_and_tell(Call& call) {
    co_await prepare(call);
    core_.questions()->note_change();
}

Task<void> ToolBatch::prepare(Call& call) {
    call.state = State::preparing;
    if (core_.questions()) call.kill = std::stop_source();
    if (assistant_.stop_reason == stop_reason::length) {
        refuse(call, std::string(cut_off_text));
    } else if (core_.stopped()) {
        refuse_aborted(call);
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

}  // namespace cubepi::detail
