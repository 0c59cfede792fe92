#include <cubepi/agent/run/tool_batch.hpp>

#include <boost/asio/post.hpp>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include <cubepi/agent/run/run_core.hpp>
#include <cubepi/agent/run/tool_output.hpp>
#include <cubepi/agent/transcript.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/number_text.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/provider/answer_end.hpp>
#include <cubepi/schema/issue.hpp>
#include <cubepi/schema/json_text.hpp>
#include <cubepi/schema/partial_json.hpp>

namespace cubepi::detail {

namespace {

constexpr std::string_view cut_off_text =
    "The answer was cut off at its token limit, so the arguments of this call may be incomplete. "
    "It was not executed. Make the call again, with shorter arguments.";

/// The issue of arguments that are not one JSON object, from their text (D84).
SchemaIssue issue_of(const Json& raw) {
    const ParsedArguments parsed = parse_arguments(raw.is_string() ? raw.get_string() : "");
    SchemaIssue issue;
    issue.path = "<root>";
    issue.expected = "a JSON object";
    issue.message = parsed.state == ArgumentsState::closed
                        ? "the arguments arrived cut off, and the call was not executed"
                        : "the arguments are not valid JSON for one object";
    if (!parsed.problem.empty()) issue.message += " (" + parsed.problem + ")";
    return issue;
}

constexpr std::size_t most_named_arguments = 20;
constexpr std::size_t longest_argument_name = 60;

/// Appends a name from outside to a list: quoted, cut, and only as long as the list is short.
void add_name(std::string& list, std::size_t number, std::string_view name) {
    if (number > most_named_arguments) return;
    if (!list.empty()) list += ", ";
    list += number == most_named_arguments
                ? "..."
                : json_text(Json(abbreviated(name, longest_argument_name)));
}

/// Returns a note for the model about arguments that the schema does not declare, which most tools ignore. Empty if there are none,
/// or if the schema decides about them.
std::string undeclared_note(const Json& schema, const JsonObject& args) {
    const JsonObject* const keywords = schema.if_object();
    const JsonObject* const declared = keywords ? object_member(*keywords, "properties") : nullptr;
    if (!declared || declared->empty()) return {};
    // Others, such as patternProperties, allOf or $ref, may declare more.
    constexpr std::array<std::string_view, 7> plain{
        "type", "properties", "required", "title", "description", "$defs", "$schema"};
    for (const auto& member : *keywords) {
        const std::string_view keyword = member.key();
        if (std::find(plain.begin(), plain.end(), keyword) == plain.end()) return {};
    }
    std::string unknown;
    std::size_t count = 0;
    for (const auto& argument : args)
        if (!declared->contains(argument.key())) add_name(unknown, count++, argument.key());
    if (count == 0) return {};
    std::string known;
    std::size_t number = 0;
    for (const auto& property : *declared) add_name(known, number++, property.key());
    std::string note = "Note: the tool does not declare " + unknown +
                       ", which it may have ignored. Its arguments: " + known + ".\n";
    sanitize(note);
    return note;
}

}  // namespace

bool is_repeatable(const AgentTool* tool, const JsonObject& arguments) noexcept {
    if (!tool) return false;
    if (!tool->replay_policy_for) return tool->replay_policy == ReplayPolicy::idempotent;
    try {
        return tool->replay_policy_for(arguments) == ReplayPolicy::idempotent;
    } catch (...) {
        return false;
    }
}

ToolBatch::ToolBatch(RunCore& core, const Message& message, ToolList tools,
                     std::optional<OpenCalls> open)
    : core_(core),
      message_(message),
      assistant_(*message_.assistant()),
      tools_(std::move(tools)),
      open_(std::move(open)) {
    const std::vector<const ToolCall*> calls = assistant_.tool_calls();
    calls_.reserve(calls.size());
    if (open_) {
        add_open_calls(calls);
    } else {
        for (const ToolCall* call : calls) calls_.emplace_back(*call);
    }
}

void ToolBatch::add_open_calls(const std::vector<const ToolCall*>& calls) {
    // The ids of one message may repeat: a list is compared, not a set.
    std::vector<std::string> ids = open_->ids;
    const std::vector<std::string>& started = open_->interrupted;
    for (const ToolCall* call : calls) {
        const auto found = std::find(ids.begin(), ids.end(), call->id.str());
        if (found == ids.end()) continue;
        ids.erase(found);
        Call& added = calls_.emplace_back(*call);
        if (std::find(started.begin(), started.end(), call->id.str()) != started.end())
            refuse(added, std::string(interrupted_call_text));
    }
}

ToolBatch::~ToolBatch() {
    RunQuestions* questions = core_.questions();
    if (!questions) return;
    questions->on_change = {};
    questions->body_may_repeat = {};
    questions->before_wait = {};
    questions->set_asking_call({});
}

bool ToolBatch::suspended() const noexcept {
    return std::any_of(calls_.begin(), calls_.end(),
                       [](const Call& call) { return call.state == State::waiting; });
}

bool ToolBatch::terminates() const noexcept {
    return !calls_.empty() && std::all_of(calls_.begin(), calls_.end(), [](const Call& call) {
        return call.result.terminate.value_or(false);
    });
}

void ToolBatch::find_tool(Call& call) const {
    call.tool = tools_.find(call.call().name);
    if (call.tool) return;
    call.added = core_.added_tools();
    call.tool = call.added.find(call.call().name);
}

bool ToolBatch::is_sequential() const {
    if (core_.parts().tool_execution == ExecutionMode::sequential) return true;
    return std::any_of(calls_.begin(), calls_.end(), [](const Call& call) {
        return call.tool && call.tool->execution_mode == ExecutionMode::sequential;
    });
}

Task<void> ToolBatch::run() {
    executor_ = co_await this_executor;
    const std::stop_callback<AbortWatch> on_abort(core_.stop_token(), AbortWatch{this});
    if (core_.questions()) core_.questions()->on_change = [this] { on_question_change(); };
    for (Call& call : calls_) find_tool(call);
    if (!is_sequential() && core_.questions()) {
        co_await prepare_calls(0, calls_.size());
    } else if (!is_sequential()) {
        for (Call& call : calls_) {
            if (call.state == State::received) co_await prepare(call);
        }
    }
    if (!suspended()) {
        // A hook may have replaced a call with a sequential one.
        if (is_sequential()) {
            co_await run_sequential();
        } else {
            co_await run_parallel();
        }
    }
    if (RunQuestions* questions = core_.questions()) {
        if (!suspended()) questions->continue_run();
        if (!listener_failure_) listener_failure_ = questions->take_listener_failure();
    }
    if (listener_failure_) std::rethrow_exception(listener_failure_);
}

/// Ends the waits for the user, if the run is to be suspended and nothing else runs.
void ToolBatch::suspend_waiting() {
    const RunQuestions& questions = *core_.questions();
    if (!questions.is_suspending()) return;
    for (const Call& call : calls_) {
        const bool busy = call.state == State::preparing || call.state == State::running;
        if (busy && !questions.waits(call.given->id.str())) return;
        // It starts when another one of the batch ends.
        if (call.state == State::ready && bodies_begun_ && !is_sequential()) return;
    }
    for (Call& call : calls_) {
        if (call.state != State::preparing && call.state != State::running) continue;
        call.suspended = true;
        call.kill.request_stop();
    }
}

/// A request of a tool that runs has begun to wait, or has ended.
void ToolBatch::on_question_change() {
    const RunQuestions& questions = *core_.questions();
    for (Call& call : calls_) {
        if (call.state != State::running || !call.limit) continue;
        if (questions.asks(call.call().id.str())) {
            call.limit->pause();
        } else {
            call.limit->resume();
        }
    }
    const bool runs = std::any_of(calls_.begin(), calls_.end(),
                                  [](const Call& call) { return call.state == State::running; });
    if (runs) suspend_waiting();
}

bool ToolBatch::may_repeat(std::string_view tool_call_id) const {
    return std::all_of(calls_.begin(), calls_.end(), [&](const Call& call) {
        if (!tool_call_id.empty() && call.call().id.str() != tool_call_id) return true;
        return !call.tool || call.state != State::running || call.is_repeatable;
    });
}

Task<void> ToolBatch::mark_started(std::size_t first, std::size_t end) {
    RunQuestions* questions = core_.questions();
    bodies_begun_ = true;
    questions->body_may_repeat = [this](std::string_view id) { return may_repeat(id); };
    if (!questions->is_durable() || !core_.parts().log->questions()) co_return;
    BatchStart start;
    bool may_be_suspended = false;
    for (std::size_t i = first; i < end; ++i) {
        const Call& call = calls_[i];
        if (call.state != State::ready) continue;
        const std::string& id = call.call().id.str();
        std::vector<std::string> answered = questions->answered_for(id);
        // A body that may begin again may ask the user itself, while the other calls are executed.
        may_be_suspended = may_be_suspended || !answered.empty() || call.is_repeatable;
        // The body may begin again: the approval of the call is used until its result is stored.
        if (call.is_repeatable) continue;
        for (std::string& question : answered) start.question_ids.push_back(std::move(question));
        start.tool_call_ids.push_back(id);
    }
    // Without any question the store has nothing with which the run could be continued as a suspended one.
    if (!may_be_suspended || start.tool_call_ids.empty()) co_return;
    start.run_id = core_.run_id().str();
    start.batch_id = message_.id();
    co_await core_.parts().log->mark_batch_started(std::move(start));
}

Task<void> ToolBatch::run_sequential() {
    for (std::size_t i = 0; i < calls_.size(); ++i) {
        Call& call = calls_[i];
        if (core_.questions()) {
            co_await prepare_calls(i, i + 1);
            if (call.state == State::waiting) co_return;
            co_await mark_started(i, i + 1);
        } else if (call.state == State::received) {
            co_await prepare(call);
        }
        co_await announce(call);
        // The run has failed: what has not begun does not begin (D6).
        if (listener_failure_) refuse_unannounced(call);
        MaybeTask<AgentToolResult> result = start(call);
        if (result.is_pending()) {
            co_await await_result(call, std::move(result).task());
        } else {
            co_await conclude(call, std::move(result).value());
        }
        if (call.state == State::waiting) co_return;
        co_await commit(call);
    }
}

/// A scope for children is created only if calls run concurrently.
Task<void> ToolBatch::run_parallel() {
    if (core_.questions()) co_await mark_started(0, calls_.size());
    for (std::size_t i = 0; i < calls_.size(); ++i) {
        Call& call = calls_[i];
        co_await announce_in_batch(call);
        MaybeTask<AgentToolResult> result = start(call);
        if (!result.is_pending()) {
            co_await conclude(call, std::move(result).value());
            continue;
        }
        Task<void> running = await_result(call, std::move(result).task());
        if (i + 1 == calls_.size()) {
            co_await std::move(running);
            break;
        }
        auto body = [this, i, &running](TaskScope& scope) {
            return run_others(scope, i, std::move(running));
        };
        co_await with_task_scope(body);
        break;
    }
    for (Call& call : calls_) {
        if (call.state != State::waiting) co_await commit(call);
    }
}

/// The calls from `first` on, of which that one runs already.
Task<void> ToolBatch::run_others(TaskScope& scope, std::size_t first, Task<void> first_call) {
    const std::size_t cap = core_.parts().limits.parallel_tools;
    scope.spawn(std::move(first_call));
    for (std::size_t i = first + 1; i < calls_.size(); ++i) {
        Call& call = calls_[i];
        while (cap != 0 && running_ >= cap) {
            slot_.reset();
            co_await slot_.wait();
            core_.invalidate_timestamp();
        }
        co_await announce_in_batch(call);
        MaybeTask<AgentToolResult> result = start(call);
        if (result.is_pending()) {
            scope.spawn(await_result(call, std::move(result).task()));
        } else {
            co_await conclude(call, std::move(result).value());
        }
    }
    co_await scope.join();
}

void ToolBatch::pass_abort_on() {
    for (Call& call : calls_) call.stop.request_stop();
    self_ = std::make_shared<ToolBatch*>(this);
    boost::asio::post(executor_, [self = std::weak_ptr<ToolBatch*>(self_)] {
        if (const std::shared_ptr<ToolBatch*> alive = self.lock()) (*alive)->on_stop();
    });
}

void ToolBatch::on_stop() {
    bool any_sees_stop = false;
    for (Call& call : calls_) {
        if (call.state != State::running) continue;
        if (call.sees_stop()) {
            any_sees_stop = true;
        } else {
            call.kill.request_stop();
        }
    }
    if (!any_sees_stop) return;
    if (core_.parts().limits.abort_grace.count() <= 0) return kill_running();
    grace_ = core_.runtime().clock->timer(executor_);
    grace_->expires_after(core_.parts().limits.abort_grace, [this] { kill_running(); });
}

void ToolBatch::kill_running() {
    for (Call& call : calls_) {
        if (call.state == State::running) call.kill.request_stop();
    }
}

// The preparation of calls: they are resolved, validated and approved before their tools run.

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
        scope.spawn(prepare_and_note_change(call));
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

Task<void> ToolBatch::prepare_and_note_change(Call& call) {
    co_await prepare(call);
    core_.questions()->note_change();
}

Task<void> ToolBatch::prepare(Call& call) {
    call.state = State::preparing;
    if (core_.questions()) call.kill = std::stop_source();
    if (answer_end(assistant_) != AnswerEnd::complete) {
        refuse_incomplete(call);
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
    find_tool(call);
    if (!check(call)) co_return;
    if (core_.parts().hooks->before_tool_call) co_await ask_before(call);
}

/// Returns the text of the arguments that the model sent, if a tool must not run with it and no hook has replaced it (D84).
const Json* ToolBatch::unread_arguments(const Call& call) {
    const Json* const raw = call.given->extra.find("raw_arguments");
    return raw && call.call().arguments.empty() ? raw : nullptr;
}

/// Returns true if an earlier process may have started the call, and it must not run again. The tool decides that was resolved.
bool ToolBatch::was_interrupted(const Call& call, const JsonObject& arguments) const noexcept {
    return open_ && (is_repeatable(call.tool, arguments) ? open_->exhausted : open_->killed);
}

/// Returns true if the tool and the arguments of the call are valid.
bool ToolBatch::check(Call& call) {
    const ToolCall& asked = call.call();
    if (was_interrupted(call, asked.arguments)) {
        refuse(call, std::string(interrupted_call_text));
        return false;
    }
    if (!call.tool) {
        refuse(call, "Tool " + asked.name.str() + " not found");
        return false;
    }
    if (!call.tool->execute) {
        refuse(call, "Tool " + asked.name.str() + " has no callback (AgentTool::execute)");
        return false;
    }
    if (const Json* raw = unread_arguments(call)) {
        refuse(call, format_issues(asked.name, {issue_of(*raw)}));
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
            call.undeclared = undeclared_note(call.tool->parameters.source(), call.args);
            call.is_repeatable = is_repeatable(call.tool, call.args);
            // A hook may have edited the arguments to ones that must not run again.
            if (!was_interrupted(call, call.args)) return true;
            refuse(call, std::string(interrupted_call_text));
            return false;
        }
        refuse(call, format_issues(call.call().name, issues));
    } catch (const std::exception& error) {
        refuse(call, error.what());
    }
    return false;
}

Task<void> ToolBatch::ask_before(Call& call) {
    const HookContext context = core_.hook_context();
    BeforeToolCallContext asked{assistant_, call.call(), *call.tool,
                                call.args,  context,     &call.judged_file};
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

// One call from its start event to its stored result.

namespace {

constexpr std::string_view call_aborted_text = "The run was aborted before this call was made.";
constexpr std::string_view unannounced_text =
    "The run failed before this call was made: a listener of its events threw an exception.";

}  // namespace

void ToolBatch::refuse(Call& call, std::string text) {
    call.result = AgentToolResult::error(std::move(text));
    call.state = State::refused;
}

/// Refuses a call of an answer that is not known to be complete (D3). Its run ends if the model or a filter has refused.
void ToolBatch::refuse_incomplete(Call& call) {
    const AnswerEnd end = answer_end(assistant_);
    if (end == AnswerEnd::cut_off) return refuse(call, std::string(cut_off_text));
    std::string text = answer_end_text(assistant_) + ". The call was not executed.";
    text.front() = 'T';
    const bool ends_run = end == AnswerEnd::refused || ended_so_before();
    if (!ends_run) text += " Make it again.";
    refuse(call, std::move(text));
    if (ends_run) call.result.terminate = true;
}

/// Returns whether the answer before this one has ended with the same word: the server would end each answer so, and each costs.
bool ToolBatch::ended_so_before() const {
    std::size_t answers = 0;
    const MessageList& messages = core_.new_messages();
    for (std::size_t i = messages.size(); i > 0 && answers < 2; --i) {
        const AssistantMessage* const answer = messages[i - 1].assistant();
        if (!answer) continue;
        if (answer->stop_reason != assistant_.stop_reason) return false;
        ++answers;
    }
    return answers == 2;
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
    return emit(std::move(event));
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
    std::optional<JudgedFile> judged = std::move(call.judged_file);
    call.context.emplace(
        call.call().id, call.call().name, call.stop.get_token(), core_.parts().runtime,
        [this, &call](Json partial) { return update(call, std::move(partial)); },
        core_.parts().channel, core_.account(), key_of(call), open_ && call.is_repeatable,
        std::move(judged));
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
    Task<void> emitting = emit(std::move(event));
    std::function<void()> nothing = [] {};
    co_await abort_when_cancelled(std::move(emitting), std::move(nothing));
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
    // Before the result, whose last line states how it ended.
    if (call.context && !call.undeclared.empty()) {
        ContentList<Content>& content = call.result.content;
        content.emplace_back(TextContent{std::move(call.undeclared)});
        std::rotate(content.begin(), content.end() - 1, content.end());
    }
    ToolExecutionEndEvent event;
    event.tool_call_id = call.call().id;
    event.tool_name = call.call().name;
    event.result = call.result;
    event.is_error = call.is_error();
    event.terminate = call.result.terminate.value_or(false);
    event.blocked_by_hook = call.block_reason.has_value();
    event.block_reason = call.block_reason.value_or(std::string());
    co_await emit(std::move(event));
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
