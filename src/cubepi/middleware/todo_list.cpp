#include <cubepi/middleware/todo_list.hpp>

#include <algorithm>
#include <exception>
#include <set>
#include <utility>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/support/trimmed.hpp>
#include <cubepi/provider/answer_end.hpp>
#include <cubepi/schema/json_text.hpp>
#include <cubepi/schema/parse_json.hpp>

namespace cubepi {

const std::string_view write_todos_system_prompt =
    "## To-do list\n\n"
    "Plan work of three or more steps with the tool `write_todos`; the user follows the list. Do "
    "not use it for less.\n"
    "- Each call replaces the whole list. Call the tool once per answer, not in parallel.\n"
    "- While items are unfinished, exactly one of them is in_progress: the one that you work on.\n"
    "- Mark an item as completed as soon as it is done, and only if it is completely done.\n"
    "- Add items that you discover, and remove those that are no longer needed.";

const std::string_view write_todos_tool_description =
    "Writes the to-do list of the current work, in place of the previous one. Use it for work of "
    "three or more steps, for "
    "several tasks from the user, or when the user asks for a list; not for a single or simple "
    "task, or for a question.\n\n"
    "Each item has a `content` and a `status`: pending (not begun), in_progress (the one being "
    "worked on; exactly one while any "
    "item is unfinished) or completed (done completely: no failing test, no open error, nothing "
    "partial). Mark the first item as "
    "in_progress when you write the list, and update the list when an item is done or the plan "
    "changes. If an item is blocked, "
    "leave it in_progress and add one for what has to be resolved.";

namespace {

constexpr std::string_view tool_name = "write_todos";
constexpr std::int64_t reminder_interval = 5;
constexpr std::int64_t max_corrections = 3;
/// Notices to a model that answers an explanation request with tool calls; CubePi repeats them without end.
constexpr std::int64_t max_blocked_notices = 3;

// Keys of `extra`.
constexpr std::string_view todos_key = "todos";
constexpr std::string_view snapshot_key = "_todos_snapshot";
constexpr std::string_view retries_key = "todo_guard_retries";
constexpr std::string_view blocked_key = "todo_guard_blocked";
constexpr std::string_view suppressed_key = "todo_guard_suppressed";
constexpr std::string_view stale_key = "todo_stale_iterations";
constexpr std::string_view correction_key = "todo_finalization_correction";
constexpr std::string_view wait_key = "todo_task_wait";
constexpr std::string_view wait_outcome_key = "todo_task_wait_outcome";

constexpr std::string_view not_finished =
    "The to-do list has unfinished items. Update them with write_todos. The user has your answer "
    "already: afterwards close "
    "with one short sentence, and do not repeat the answer.";

/// Sets the state. A value that means the same as an absent one is not added, so that a thread without a list has no state.
void set(JsonObject& extra, std::string_view key, Json value) {
    const bool is_default = value.is_null() || (value.is_int64() && value.get_int64() == 0) ||
                            (value.is_object() && value.get_object().empty());
    if (!is_default || extra.contains(key)) extra[key] = std::move(value);
}

/// Reads a value of the state; nothing if it is absent or malformed.
template <class T>
std::optional<T> get(const JsonObject& extra, std::string_view key) {
    const Json* stored = extra.if_contains(key);
    T value{};
    // A value without a form of ours is dropped; no thread may fail because of it.
    if (!stored || !try_from_json(*stored, value).empty()) return std::nullopt;
    return value;
}

std::int64_t count(const JsonObject& extra, std::string_view key) {
    const Json* stored = extra.if_contains(key);
    constexpr std::int64_t most = 1'000'000;
    return stored && stored->is_int64() ? std::clamp<std::int64_t>(stored->get_int64(), 0, most)
                                        : 0;
}

std::int64_t retries(const JsonObject& extra) {
    const Json* stored = extra.if_contains(retries_key);
    const JsonObject* all = stored ? stored->if_object() : nullptr;
    return all ? count(*all, enum_name(TodoGuardType::finalization)) : 0;
}

void set_retries(JsonObject& extra, std::int64_t number) {
    extra[retries_key] = JsonObject{{enum_name(TodoGuardType::finalization), number}};
}

void clear_guard(JsonObject& extra) {
    set(extra, retries_key, JsonObject());
    set(extra, stale_key, 0);
    set(extra, correction_key, nullptr);
}

bool is_finished(const std::vector<Todo>& todos) {
    return std::all_of(todos.begin(), todos.end(),
                       [](const Todo& todo) { return todo.status == TodoStatus::completed; });
}

bool is_blank(const std::string& text) { return detail::trimmed(text).empty(); }

/// Returns why a list is rejected; empty if it is not.
std::string problem_of(const std::vector<Todo>& todos, const std::vector<Todo>& before) {
    if (todos.empty() && !is_finished(before))
        return "Error: an empty list cannot replace unfinished items; update these first.";
    const bool blank = std::any_of(todos.begin(), todos.end(),
                                   [](const Todo& todo) { return is_blank(todo.content); });
    if (blank) return "Error: the content of an item is blank.";
    const auto active = std::count_if(todos.begin(), todos.end(), [](const Todo& todo) {
        return todo.status == TodoStatus::in_progress;
    });
    if (active == 1 || (active == 0 && is_finished(todos))) return {};
    return "Error: exactly one item must be in_progress, unless all are completed.";
}

JsonObject payload_of(const std::vector<Todo>& todos) {
    JsonObject payload{{todos_key, to_json(todos)}};
    if (todos.size() >= 3 && is_finished(todos))
        payload["reminder"] = "All items are completed. Check the result once before you answer.";
    return payload;
}

struct Calls {
    std::vector<const ToolCall*> writes;
    bool others = false;
};

Calls calls_of(const AssistantMessage& answer) {
    Calls calls;
    for (const ToolCall* call : answer.tool_calls()) {
        if (call->name == tool_name) {
            calls.writes.push_back(call);
        } else {
            calls.others = true;
        }
    }
    return calls;
}

bool is_text_only(const AssistantMessage& answer) {
    return !answer.has_tool_calls() && !is_blank(answer.text());
}

TurnAction message_to_model(std::string text, std::string_view source,
                            std::optional<TurnDecision> decision = {}) {
    TurnAction action;
    action.inject_messages.push_back(synthetic_user_message(std::move(text), source));
    action.decision = decision;
    return action;
}

AfterToolCallResult rejected(std::string text) {
    AfterToolCallResult result;
    result.content.emplace();
    result.content->emplace_back(TextContent{std::move(text)});
    result.is_error = true;
    return result;
}

// The wait for tasks.

void clear_wait(JsonObject& extra) {
    set(extra, wait_key, nullptr);
    set(extra, wait_outcome_key, nullptr);
}

/// Identifies the last input of the user or the host: a message that is not synthetic, or an answer to a question.
std::string input_boundary(const MessageList& messages) {
    for (std::size_t i = messages.size(); i > 0; --i) {
        const Message& message = messages[i - 1];
        const ToolResultMessage* result = message.tool_result();
        const JsonObject* details = result ? result->details.if_object() : nullptr;
        const bool answers = details && details->contains("hitl");
        if (answers || (message.user() && !is_synthetic_message(message)))
            return std::to_string(i) + ":" + message.id();
    }
    return "0:";
}

std::optional<TaskWaitBinding> bound_wait(const HookContext& context) {
    std::optional<TaskWaitBinding> binding = get<TaskWaitBinding>(context.extra, wait_key);
    const bool holds = binding && !binding->task_ids.empty() && binding->run_id == context.run_id &&
                       binding->todos == TodoListMiddleware::todos_in(context.extra) &&
                       binding->input_boundary == input_boundary(context.messages);
    if (holds) return binding;
    clear_wait(context.extra);
    return std::nullopt;
}

Task<TaskWaitValidation> ask_host(TaskWaitValidator validator, std::vector<std::string> task_ids,
                                  const HookContext& context,
                                  std::optional<TaskWaitBinding> binding) {
    TaskWaitValidation validation;
    std::exception_ptr failure;
    try {
        auto asking = validator(std::move(task_ids), context, std::move(binding));
        validation = co_await std::move(asking);
    } catch (...) {
        failure = std::current_exception();
    }
    if (failure && is_cancellation(failure)) std::rethrow_exception(failure);
    if (failure) validation.reason = "The host could not validate it.";
    co_return validation;
}

struct DeclaredWait {
    TaskWaitBinding binding = {};
    std::string problem = {};  ///< why it is rejected; empty if it is not
};

Task<DeclaredWait> declare_wait(TaskWaitValidator validator, WriteTodosInput input,
                                const HookContext& context) {
    DeclaredWait wait;
    TaskWaitBinding& binding = wait.binding;
    binding.task_ids = std::move(*input.wait_for_tasks);
    binding.todos = std::move(input.todos);
    binding.run_id = context.run_id;
    binding.input_boundary = input_boundary(context.messages);
    const std::set<std::string> distinct(binding.task_ids.begin(), binding.task_ids.end());
    const bool named = distinct.size() == binding.task_ids.size() &&
                       std::none_of(distinct.begin(), distinct.end(), is_blank);
    if (!validator) {
        wait.problem = "Error: this host has no tasks to wait for.";
    } else if (!named) {
        wait.problem = "Error: wait_for_tasks must be distinct ids of tasks.";
    } else if (is_finished(binding.todos)) {
        wait.problem = "Error: a list without unfinished items cannot wait for tasks.";
    }
    if (!wait.problem.empty()) co_return wait;
    auto asking = ask_host(std::move(validator), binding.task_ids, context, std::nullopt);
    TaskWaitValidation validation = co_await std::move(asking);
    if (validation.status != TaskWaitStatus::valid) {
        wait.problem = "Error: the wait for tasks is not valid. " + validation.reason;
    } else if (binding.input_boundary != input_boundary(context.messages)) {
        wait.problem = "Error: a new input arrived while the wait for tasks was validated.";
    }
    binding.validation = std::move(validation.validation);
    co_return wait;
}

/// Returns true if the run may end because its unfinished items wait for tasks.
Task<bool> may_wait(TaskWaitValidator validator, HookContext& context) {
    const std::optional<TaskWaitBinding> binding = bound_wait(context);
    if (!binding) co_return false;
    auto asking = ask_host(std::move(validator), binding->task_ids, context, binding);
    const TaskWaitValidation validation = co_await std::move(asking);
    const bool agreed =
        validation.status == TaskWaitStatus::valid ||
        (validation.status == TaskWaitStatus::cancelled && !is_blank(validation.reason));
    if (!agreed || bound_wait(context) != binding) co_return false;
    context.extra[wait_outcome_key] =
        JsonObject{{"status", enum_name(validation.status)}, {"reason", validation.reason}};
    clear_guard(context.extra);
    co_return true;
}

// The states of the guard.

TurnAction correct(JsonObject& extra) {
    const std::int64_t number = retries(extra) + 1;
    set_retries(extra, number);
    if (number < max_corrections) {
        extra[correction_key] = true;
        return message_to_model(std::string(not_finished), "todo_guard",
                                TurnDecision::loop_to_model);
    }
    const TodoGuardBlocked blocked{TodoGuardType::finalization, std::string(not_finished)};
    const std::string text =
        "The to-do list could not be brought up to date. Do not call tools. Explain to the user in "
        "plain text why the run "
        "cannot continue safely: " +
        blocked.message;
    extra[blocked_key] = to_json(blocked);
    set(extra, correction_key, nullptr);
    return message_to_model(text, "todo_blocked", TurnDecision::loop_to_model);
}

TurnAction when_blocked(JsonObject& extra, const TodoGuardBlocked& blocked,
                        const AssistantMessage& answer) {
    const std::int64_t notices = retries(extra) - max_corrections;
    if (is_text_only(answer) || notices >= max_blocked_notices) {
        extra[blocked_key] = nullptr;
        extra[suppressed_key] = true;
        clear_guard(extra);
        TurnAction action;
        action.decision = TurnDecision::stop;
        return action;
    }
    set_retries(extra, std::max(retries(extra), max_corrections) + 1);
    set(extra, correction_key, nullptr);
    return message_to_model(
        "The run is about to end. Do not call tools. Explain to the user in plain text why it "
        "cannot continue safely: " +
            blocked.message,
        "todo_blocked", TurnDecision::loop_to_model);
}

/// The messages about calls of write_todos that their results reject as well; nothing if there are none.
std::optional<TurnAction> about_writes(JsonObject& extra, const Calls& calls) {
    if (calls.writes.size() > 1) {
        // For a CubePi process that continues this turn.
        const Json* before = extra.if_contains(todos_key);
        set(extra, snapshot_key, before ? *before : Json());
        TurnAction action;
        for (std::size_t i = 0; i < calls.writes.size(); ++i) {
            action.inject_messages.push_back(synthetic_user_message(
                "Error: an answer may call write_todos only once.", "todo_parallel_error"));
        }
        return action;
    }
    if (calls.writes.empty()) return std::nullopt;
    WriteTodosInput input;
    const bool valid = try_from_json(Json(calls.writes[0]->arguments), input).empty();
    std::string problem = valid ? problem_of(input.todos, TodoListMiddleware::todos_in(extra))
                                : "Error: the arguments of write_todos are invalid; it takes "
                                  "`todos`, a list of objects with `content` and "
                                  "`status` (pending, in_progress or completed).";
    if (problem.empty()) return std::nullopt;
    return message_to_model(std::move(problem), "todo_validation_error");
}

/// Counts turns without an update of the list. Returns the reminder that is due.
std::optional<TurnAction> count_stale(JsonObject& extra, const Calls& calls,
                                      const std::vector<Todo>& todos) {
    if (!calls.writes.empty() || !calls.others) {
        set(extra, stale_key, 0);
        return std::nullopt;
    }
    if (is_finished(todos)) return std::nullopt;
    const std::int64_t turns = count(extra, stale_key) + 1;
    extra[stale_key] = turns;
    if (turns % reminder_interval != 0) return std::nullopt;
    return message_to_model("The to-do list was not updated for " + std::to_string(turns) +
                                " turns. If an item is done or the work has changed, update it "
                                "with write_todos; otherwise ignore this reminder. "
                                "The list is: " +
                                json_text(to_json(todos)),
                            "todo_stale_reminder");
}

}  // namespace

std::optional<std::vector<Todo>> todos_set_by(const ToolExecutionEndEvent& event) {
    if (event.tool_name != tool_name || event.is_error) return std::nullopt;
    JsonTextError error;
    const Json result = parse_json(event.result.text(), error);
    const JsonObject* payload = result.if_object();
    return payload ? get<std::vector<Todo>>(*payload, todos_key) : std::nullopt;
}

std::string_view todo_mark(TodoStatus status) noexcept {
    switch (status) {
        case TodoStatus::completed: return "✓";
        case TodoStatus::in_progress: return "▸";
        case TodoStatus::pending: break;
    }
    return "○";
}

std::string todo_text(const std::vector<Todo>& todos) {
    std::string text;
    for (const Todo& todo : todos) {
        if (!text.empty()) text += '\n';
        text += std::string(todo_mark(todo.status)) + " " + todo.content;
    }
    return text.empty() ? "(no to-dos)" : text;
}

void WriteTodosInput::describe_fields(FieldNotes& fields) {
    fields.describe("wait_for_tasks",
                    "Ids of background tasks of the host that the unfinished items depend on. They "
                    "stay unfinished, and you may end your answer. Omit it otherwise.");
}

namespace {

const JsonSchema& schema_without_wait() {
    static const JsonSchema schema = [] {
        Json made = json_schema_of<WriteTodosInput>();
        made.get_object().at("properties").get_object().erase("wait_for_tasks");
        return JsonSchema(std::move(made));
    }();
    return schema;
}

}  // namespace

TodoListMiddleware::TodoListMiddleware(TodoListOptions options) : options_(std::move(options)) {
    // The list changes in after_tool_call, which has the state of the thread.
    AgentTool write = tool<WriteTodosInput>(
        std::string(tool_name), options_.tool_description,
        [](WriteTodosInput input) { return AgentToolResult(json_text(payload_of(input.todos))); });
    if (!options_.validate_task_wait) write.parameters = schema_without_wait();
    tools.push_back(std::move(write).risk(ToolRisk::read_only).replay(ReplayPolicy::idempotent));
}

std::vector<Todo> TodoListMiddleware::todos_in(const JsonObject& extra) {
    return get<std::vector<Todo>>(extra, todos_key).value_or(std::vector<Todo>());
}

std::string TodoListMiddleware::transform_system_prompt(std::string prompt) const {
    return prompt + "\n\n" + options_.system_prompt;
}

Task<std::optional<AfterToolCallResult>> TodoListMiddleware::after_tool_call(
    AfterToolCallContext& call) const {
    std::optional<AfterToolCallResult> change;
    if (call.tool_call.name != tool_name || call.blocked || call.is_error) co_return change;
    JsonObject& extra = call.context.extra;
    if (calls_of(call.assistant_message).writes.size() > 1) {
        change =
            rejected("Error: write_todos was called several times in one answer; call it once.");
        co_return change;
    }
    const WriteTodosInput input = from_json<WriteTodosInput>(Json(call.args));
    std::string problem = problem_of(input.todos, todos_in(extra));
    std::optional<DeclaredWait> wait;
    if (problem.empty() && input.wait_for_tasks && !input.wait_for_tasks->empty()) {
        auto declaring = declare_wait(options_.validate_task_wait, input, call.context);
        wait = co_await std::move(declaring);
        problem = wait->problem;
    }
    if (!problem.empty()) {
        change = rejected(std::move(problem));
        co_return change;
    }
    extra[todos_key] = to_json(input.todos);
    clear_wait(extra);
    if (!wait) co_return change;
    extra[wait_key] = to_json(wait->binding);
    JsonObject payload = payload_of(input.todos);
    payload["wait_for_tasks"] = to_json(wait->binding.task_ids);
    change.emplace();
    change->content.emplace();
    change->content->emplace_back(TextContent{json_text(payload)});
    co_return change;
}

Task<std::optional<TurnAction>> TodoListMiddleware::after_model_response(
    AssistantMessage response, HookContext& context) const {
    std::optional<TurnAction> action;
    if (is_paused(response) || response.is_refusal()) co_return action;
    JsonObject& extra = context.extra;
    if (options_.validate_task_wait) (void)bound_wait(context);
    const auto blocked = get<TodoGuardBlocked>(extra, blocked_key);
    if (options_.require_finished && blocked) {
        action = when_blocked(extra, *blocked, response);
        co_return action;
    }
    const Calls calls = calls_of(response);
    const Json* suppressed = extra.if_contains(suppressed_key);
    if (suppressed && *suppressed == Json(true) && calls.writes.empty()) {
        clear_guard(extra);
        co_return action;
    }
    action = about_writes(extra, calls);
    if (action) co_return action;
    const std::vector<Todo> todos = todos_in(extra);
    if (options_.require_finished && !is_finished(todos) && is_text_only(response)) {
        if (options_.validate_task_wait) {
            auto asking = may_wait(options_.validate_task_wait, context);
            const bool waits = co_await std::move(asking);
            if (waits) co_return action;
        }
        action = correct(extra);
        co_return action;
    }
    set(extra, retries_key, JsonObject());
    set(extra, suppressed_key, nullptr);
    if (is_finished(todos) || calls.writes.empty()) set(extra, correction_key, nullptr);
    action = count_stale(extra, calls, todos);
    co_return action;
}

}  // namespace cubepi
