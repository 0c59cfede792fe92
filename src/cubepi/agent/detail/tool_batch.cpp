#include <cubepi/agent/detail/tool_batch.hpp>

#include <boost/asio/post.hpp>

#include <algorithm>
#include <utility>

#include <cubepi/agent/detail/tool_output.hpp>
#include <cubepi/core/cancellation.hpp>

namespace cubepi::detail {

namespace {

constexpr std::string_view aborted_text = "The run was aborted before this call was made.";
constexpr std::string_view cut_off_text =
    "The answer was cut off at its token limit, so the arguments of this call may be incomplete. "
    "It was "
    "not executed. Make the call again, with shorter arguments.";

std::string text_of(const std::exception_ptr& failure) {
    try {
        std::rethrow_exception(failure);
    } catch (const std::exception& error) {
        return error.what();
    } catch (...) {
        return "unknown exception";
    }
}

/// Passes an abort on: to the tools' tokens at once, from whatever thread, and to the batch on its executor, if it still
/// exists then.
struct StopRelay {
    Executor executor;
    std::weak_ptr<std::function<void()>> reaction;
    std::vector<std::stop_source> tools;
    void operator()() {
        for (std::stop_source& tool : tools) tool.request_stop();
        boost::asio::post(executor, [reaction = reaction] {
            if (auto alive = reaction.lock()) (*alive)();
        });
    }
};

}  // namespace

ToolBatch::ToolBatch(RunCore& core, const Message& message, ToolList tools)
    : core_(core), message_(message), assistant_(*message_.assistant()), tools_(std::move(tools)) {
    for (const ToolCall* call : assistant_.tool_calls()) calls_.emplace_back(*call);
}

bool ToolBatch::terminates() const noexcept {
    return !calls_.empty() && std::all_of(calls_.begin(), calls_.end(), [](const Call& call) {
        return call.result.terminate.value_or(false);
    });
}

bool ToolBatch::is_sequential() const {
    if (core_.parts().tool_execution == ExecutionMode::sequential) return true;
    return std::any_of(calls_.begin(), calls_.end(), [](const Call& call) {
        return call.tool && call.tool->execution_mode == ExecutionMode::sequential;
    });
}

Task<void> ToolBatch::run() {
    executor_ = co_await this_executor;
    const auto reaction = std::make_shared<std::function<void()>>([this] { on_stop(); });
    StopRelay relay{executor_, reaction, {}};
    for (Call& call : calls_) relay.tools.push_back(call.stop);
    const std::stop_callback<StopRelay> on_abort(core_.stop_token(), relay);

    for (Call& call : calls_) call.tool = tools_.find(call.call.name);
    if (is_sequential()) {
        co_await run_sequential();
    } else {
        for (Call& call : calls_) co_await prepare(call);
        if (is_sequential()) {
            co_await run_sequential();
        } else {
            auto body = [this](TaskScope& scope) { return run_parallel(scope); };
            co_await with_task_scope(body);
            for (Call& call : calls_) co_await commit(call);
        }
    }
    if (listener_failure_) std::rethrow_exception(listener_failure_);
}

Task<void> ToolBatch::run_sequential() {
    for (Call& call : calls_) {
        if (!call.immediate) co_await prepare(call);
        if (core_.stopped()) refuse(call, std::string(aborted_text));
        auto body = [this, &call](TaskScope& scope) {
            scope.spawn(run_one(call));
            return scope.join();
        };
        co_await with_task_scope(body);
        co_await commit(call);
    }
}

Task<void> ToolBatch::run_one(Call& call) {
    std::optional<Task<void>> rest = co_await start(call);
    if (rest) co_await std::move(*rest);
}

Task<void> ToolBatch::run_parallel(TaskScope& scope) {
    const std::size_t cap = core_.parts().limits.parallel_tools;
    for (Call& call : calls_) {
        while (cap != 0 && running_ >= cap) {
            slot_.reset();
            co_await slot_.wait();
        }
        if (core_.stopped()) refuse(call, std::string(aborted_text));
        std::optional<Task<void>> rest = co_await start(call);
        if (rest) scope.spawn(std::move(*rest));
    }
    co_await scope.join();
}

void ToolBatch::refuse(Call& call, std::string text) {
    call.immediate = AgentToolResult::error(std::move(text));
    call.after_hook = false;
}

// Before the call.

Task<void> ToolBatch::prepare(Call& call) {
    if (assistant_.stop_reason == stop_reason::length) {
        refuse(call, std::string(cut_off_text));
        co_return;
    }
    if (core_.stopped()) {
        refuse(call, std::string(aborted_text));
        co_return;
    }
    const bool go_on = co_await resolve(call);
    if (!go_on) co_return;
    call.tool = tools_.find(call.call.name);
    if (!call.tool) {
        refuse(call, "Tool " + call.call.name.str() + " not found");
        co_return;
    }
    if (const Json* raw = call.call.extra.find("raw_arguments"); raw && !call.resolved) {
        SchemaIssue issue;
        issue.path = "<root>";
        issue.expected = "a JSON object";
        issue.message = "expected a JSON object, found text that is not valid JSON";
        refuse(call, format_issues(call.call.name, {issue}));
        co_return;
    }
    if (!validate(call, call.call.arguments)) co_return;
    if (core_.parts().hooks->before_tool_call) co_await ask_before(call);
}

Task<bool> ToolBatch::resolve(Call& call) {
    const ResolveToolCallHook& hook = core_.parts().hooks->resolve_tool_call;
    if (!hook) co_return true;
    HookContext context = core_.hook_context();
    std::exception_ptr failure;
    try {
        std::optional<ToolCall> resolved = co_await core_.call_hook(hook(call.call, context));
        if (resolved) {
            const std::string id = call.call.id;
            call.call = std::move(*resolved);
            call.call.id = id;
            call.resolved = true;
        }
    } catch (...) {
        failure = std::current_exception();
    }
    if (!failure) co_return true;
    refuse(call, core_.stopped() ? std::string(aborted_text) : text_of(failure));
    co_return false;
}

bool ToolBatch::validate(Call& call, JsonObject args) {
    Json value(std::move(args));
    try {
        const std::vector<SchemaIssue> issues = call.tool->parameters.validate(value);
        if (issues.empty()) {
            call.args = std::move(value.as_object());
            return true;
        }
        std::string text = format_issues(call.call.name, issues);
        if (call.resolved) {
            text += "\n\nThe parameters of '" + call.call.name.str() + "':\n" +
                    boost::json::serialize(call.tool->parameters.source());
        }
        refuse(call, std::move(text));
    } catch (const std::exception& error) {
        refuse(call, error.what());
    }
    return false;
}

Task<void> ToolBatch::ask_before(Call& call) {
    const HookContext context = core_.hook_context();
    BeforeToolCallContext asked{assistant_, call.call, *call.tool, call.args, context};
    std::optional<BeforeToolCallResult> answer;
    std::exception_ptr failure;
    try {
        answer = co_await core_.call_hook(core_.parts().hooks->before_tool_call(asked));
    } catch (...) {
        failure = std::current_exception();
    }
    if (failure) {
        refuse(call, core_.stopped() ? std::string(aborted_text) : text_of(failure));
        co_return;
    }
    if (!answer) co_return;
    call.hitl_trace = std::move(answer->hitl_trace);
    if (answer->edited_args && !validate(call, std::move(*answer->edited_args))) {
        call.hitl_trace = nullptr;
        co_return;
    }
    if (answer->block) {
        call.blocked = true;
        call.block_reason = answer->deny_reason.empty() ? answer->reason : answer->deny_reason;
        const std::string text =
            answer->reason.empty()
                ? (call.block_reason.empty() ? "Tool execution was blocked" : call.block_reason)
                : answer->reason;
        call.immediate = AgentToolResult::error(text);
    } else if (answer->result) {
        call.immediate = std::move(*answer->result);
    }
}

// The call itself.

Task<std::optional<Task<void>>> ToolBatch::start(Call& call) {
    std::optional<Task<void>> rest;
    ToolExecutionStartEvent event;
    event.tool_call_id = call.call.id;
    event.tool_name = call.call.name;
    event.args = call.call.arguments;
    try {
        if (auto pending = core_.emit(std::move(event))) co_await std::move(*pending);
    } catch (...) {
        if (!listener_failure_) listener_failure_ = std::current_exception();
    }
    // A listener of the start may have aborted.
    if (core_.stopped() && !call.immediate) refuse(call, std::string(aborted_text));
    if (call.immediate) {
        rest = conclude(call, std::move(*call.immediate));
    } else {
        call.context = std::make_unique<ToolContext>(
            call.call.id, call.call.name, call.stop.get_token(), core_.parts().runtime,
            [this, &call](Json partial) { return update(call, std::move(partial)); });
        std::exception_ptr failure;
        try {
            ToolOutcome outcome = call.tool->execute(call.args, *call.context);
            if (outcome.task) {
                call.running = true;
                ++running_;
                rest = await_outcome(call, std::move(*outcome.task));
            } else {
                rest = conclude(call, std::move(*outcome.result));
            }
        } catch (...) {
            failure = std::current_exception();
        }
        if (failure) rest = conclude(call, AgentToolResult::error(text_of(failure)));
    }
    if (rest && !call.running) {
        co_await std::move(*rest);
        rest.reset();
    }
    co_return rest;
}

std::unique_ptr<ClockTimer> ToolBatch::time_limit(Call& call) {
    const auto limit = call.tool->time_limit.value_or(core_.parts().limits.tool_timeout);
    if (limit.count() <= 0) return nullptr;
    auto timer = core_.runtime().clock->timer(executor_);
    ClockTimer* self = timer.get();
    timer->expires_after(limit, [this, &call, limit, self] {
        const double seconds = static_cast<double>(limit.count()) / 1000.0;
        Json shown(seconds);
        call.time_out = "The call was stopped after its time limit of " +
                        (limit.count() % 1000 == 0 ? std::to_string(limit.count() / 1000)
                                                   : boost::json::serialize(shown)) +
                        " s; whether it took effect is unknown.";
        call.stop.request_stop();
        self->expires_after(core_.parts().limits.abort_grace,
                            [&call] { call.kill.request_stop(); });
    });
    return timer;
}

Task<void> ToolBatch::await_outcome(Call& call, Task<AgentToolResult> task) {
    call.kill = std::stop_source();
    const std::unique_ptr<ClockTimer> limit = time_limit(call);
    std::exception_ptr failure;
    AgentToolResult result;
    try {
        result = co_await cancel_on(call.kill.get_token(), std::move(task));
    } catch (...) {
        failure = std::current_exception();
    }
    call.running = false;
    if (limit) limit->cancel();
    if (!call.time_out.empty()) {
        std::string text = call.time_out;
        if (!failure && !result.text().empty()) text += "\n" + result.text();
        result = AgentToolResult::error(std::move(text));
    } else if (failure && is_cancellation(failure)) {
        result = AgentToolResult::error(
            core_.stopped()
                ? "The call was interrupted by an abort; whether it took effect is unknown."
                : "The tool cancelled its own execution.");
    } else if (failure) {
        result = AgentToolResult::error(text_of(failure));
    }
    co_await conclude(call, std::move(result));
    --running_;
    slot_.set();
}

Task<void> ToolBatch::update(Call& call, Json partial_result) {
    if (call.finished || !call.context) co_return;
    ToolExecutionUpdateEvent event;
    event.tool_call_id = call.call.id;
    event.tool_name = call.call.name;
    event.args = call.call.arguments;
    event.partial_result = std::move(partial_result);
    try {
        if (auto pending = core_.emit(std::move(event))) co_await std::move(*pending);
    } catch (const ListenerFailed&) {
        // The run fails when the batch is over; the tool is not to blame.
        if (!listener_failure_) listener_failure_ = std::current_exception();
    }
}

// After the call.

Task<void> ToolBatch::conclude(Call& call, AgentToolResult result) {
    call.finished = true;
    call.result = std::move(result);
    call.is_error = call.result.is_error.value_or(false);
    if (call.after_hook && core_.parts().hooks->after_tool_call) co_await ask_after(call);
    co_await limit_size(call);
    ToolExecutionEndEvent event;
    event.tool_call_id = call.call.id;
    event.tool_name = call.call.name;
    event.result = call.result;
    event.is_error = call.is_error;
    event.terminate = call.result.terminate.value_or(false);
    event.blocked_by_hook = call.blocked;
    event.block_reason = call.block_reason;
    try {
        if (auto pending = core_.emit(std::move(event))) co_await std::move(*pending);
    } catch (...) {
        if (!listener_failure_) listener_failure_ = std::current_exception();
    }
}

Task<void> ToolBatch::ask_after(Call& call) {
    const HookContext context = core_.hook_context();
    AfterToolCallContext asked{assistant_,    call.call,    call.args, call.result,
                               call.is_error, call.blocked, context};
    std::optional<AfterToolCallResult> answer;
    std::exception_ptr failure;
    try {
        answer = co_await core_.call_hook(core_.parts().hooks->after_tool_call(asked));
    } catch (...) {
        failure = std::current_exception();
    }
    if (failure) {
        // An abort that cut the hook short takes nothing from the result.
        if (core_.stopped() && is_cancellation(failure)) co_return;
        call.result = AgentToolResult::error(text_of(failure));
        call.is_error = true;
        co_return;
    }
    if (!answer) co_return;
    if (answer->content) call.result.content = std::move(*answer->content);
    if (answer->details) call.result.details = std::move(*answer->details);
    if (answer->terminate) call.result.terminate = answer->terminate;
    if (answer->is_error) {
        call.result.is_error = answer->is_error;
        call.is_error = *answer->is_error;
    }
}

Task<void> ToolBatch::limit_size(Call& call) {
    const std::size_t limit = core_.parts().limits.tool_result_chars;
    if (limit == 0 || !is_longer(call.result, limit)) co_return;
    co_await cut_tool_output(core_.parts().runtime, core_.parts().spill, call.call.name,
                             call.call.id, limit, call.result);
}

Task<void> ToolBatch::commit(Call& call) {
    ToolResultMessage message;
    message.tool_call_id = call.call.id;
    message.tool_name = call.call.name;
    message.content = call.result.content;
    message.details = with_trace(call.result.details, call.hitl_trace);
    message.is_error = call.is_error;
    message.timestamp = core_.wall_seconds();
    message.run_id = core_.run_id();
    message.id = core_.runtime().ids->next();
    const Message result(std::move(message));
    results_.push_back(result);
    try {
        co_await core_.announce(result);
    } catch (const ListenerFailed&) {
        if (!listener_failure_) listener_failure_ = std::current_exception();
    }
}

void ToolBatch::on_stop() {
    const bool any =
        std::any_of(calls_.begin(), calls_.end(), [](const Call& c) { return c.running; });
    if (!any) return;
    if (core_.parts().limits.abort_grace.count() <= 0) return kill_running();
    grace_ = core_.runtime().clock->timer(executor_);
    grace_->expires_after(core_.parts().limits.abort_grace, [this] { kill_running(); });
}

void ToolBatch::kill_running() {
    for (Call& call : calls_) {
        if (call.running) call.kill.request_stop();
    }
}

}  // namespace cubepi::detail
