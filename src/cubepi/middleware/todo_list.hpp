#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/agent/middleware.hpp>
#include <cubepi/core/agent_event.hpp>

namespace cubepi {

enum class TodoStatus : std::uint8_t { pending, in_progress, completed };

/// An item of a to-do list.
struct Todo {
    std::string content;
    TodoStatus status;
    friend bool operator==(const Todo&, const Todo&) = default;
};

/// The arguments of the tool `write_todos`.
struct WriteTodosInput {
    std::vector<Todo> todos;
    /// Ids of tasks of the host that the unfinished items depend on. In the tool's schema only if there is a TaskWaitValidator.
    std::optional<std::vector<std::string>> wait_for_tasks = {};

    static void describe_fields(FieldNotes& fields);
};

/// The reason for which a guard has stopped the continuation of a run.
enum class TodoGuardType : std::uint8_t { finalization };

/// The state of a guard whose corrections had no effect.
struct TodoGuardBlocked {
    TodoGuardType guard_type;
    std::string message;
};

/// A wait that the host has validated, for the list, the run and the last input that it was validated for.
struct TaskWaitBinding {
    std::vector<std::string> task_ids;
    std::vector<Todo> todos;
    std::optional<std::string> run_id;
    std::string input_boundary;  ///< identifies the last input of the user or the host
    JsonObject validation = {};
    friend bool operator==(const TaskWaitBinding&, const TaskWaitBinding&) = default;
};

enum class TaskWaitStatus : std::uint8_t {
    valid,      ///< the tasks exist and will send a message to this conversation when they end
    cancelled,  ///< the tasks of a binding were cancelled; needs a reason
    invalid
};

/// The answer of the host about a wait.
struct TaskWaitValidation {
    TaskWaitStatus status = TaskWaitStatus::invalid;
    std::string reason = {};     ///< for the model
    JsonObject validation = {};  ///< stored with the binding
};

/// Validates a wait for background tasks, such as sub-agents: when the model declares it (no binding), and again when the model
/// ends the run (the binding). An exception means `invalid`.
using TaskWaitValidator = std::function<Task<TaskWaitValidation>(
    std::vector<std::string> task_ids, const HookContext& context,
    std::optional<TaskWaitBinding> binding)>;

/// The default of TodoListOptions::system_prompt.
extern const std::string_view write_todos_system_prompt;
/// The default of TodoListOptions::tool_description.
extern const std::string_view write_todos_tool_description;

struct TodoListOptions {
    std::string system_prompt = std::string(write_todos_system_prompt);
    std::string tool_description = std::string(write_todos_tool_description);
    /// Sends an answer without calls back to the model while items are unfinished. A conversation in which the model may ask the
    /// user in plain text should turn it off.
    bool require_finished = true;
    /// Allows the model to end a run with unfinished items that wait for tasks of the host. Null: it may not.
    TaskWaitValidator validate_task_wait = {};
};

/// Middleware that offers the tool `write_todos`, with which the model plans its work in a list that the user sees.
///
/// A list is rejected, and the previous one remains, if an item is blank, if not exactly one item is in progress (unless all are
/// completed), if an empty list replaces unfinished items, or if one answer has several calls. After 5 turns with calls of other
/// tools, and every 5 turns from then on, a reminder with the list is added to the history. An answer without calls while items
/// are unfinished is sent back to the model with a correction. After two corrections in a row the model is asked to explain, and the
/// run ends; an answer with calls begins the count again (TodoListOptions::require_finished).
///
/// The list is in `extra["todos"]`; the other keys begin with `todo_` and `_todos_`, as in CubePi. The middleware changes no
/// request: the list is in the results of the tool and in the reminders, which are part of the history (D117). It has no state of
/// its own, so that several agents may have copies; each thread has its own list.
class TodoListMiddleware {
public:
    explicit TodoListMiddleware(TodoListOptions options = {});

    std::string transform_system_prompt(std::string prompt) const;
    Task<std::optional<AfterToolCallResult>> after_tool_call(AfterToolCallContext& call) const;
    Task<std::optional<TurnAction>> after_model_response(AssistantMessage response,
                                                         HookContext& context) const;

    std::vector<AgentTool> tools;

    /// Returns the list of a thread. Malformed state is an empty list.
    static std::vector<Todo> todos_in(const JsonObject& extra);

private:
    TodoListOptions options_;
};

/// Returns the list that a call of `write_todos` has set; nothing for a failed call, and for calls of other tools.
std::optional<std::vector<Todo>> todos_set_by(const ToolExecutionEndEvent& event);

/// Returns the mark of an item for users: "✓" completed, "▸" in progress, "○" pending.
std::string_view todo_mark(TodoStatus status) noexcept;
/// Returns the list for users, one line for each item, with its mark; "(no to-dos)" if it is empty.
std::string todo_text(const std::vector<Todo>& todos);

}  // namespace cubepi
