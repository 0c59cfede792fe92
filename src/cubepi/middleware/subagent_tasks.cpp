#include <algorithm>
#include <utility>

#include <cubepi/core/outcome.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/middleware/detail/subagent_run.hpp>
#include <cubepi/provider/cost.hpp>
#include <cubepi/schema/json_text.hpp>

// Sub-agents in the background (D115): their start, their results as messages, and what of them survives the process.

namespace cubepi {

std::string_view to_string(SubagentTaskState state) noexcept {
    switch (state) {
        case SubagentTaskState::running: return "running";
        case SubagentTaskState::completed: return "completed";
        case SubagentTaskState::failed: return "failed";
        case SubagentTaskState::cancelled: return "cancelled";
        case SubagentTaskState::interrupted: return "interrupted";
    }
    return "";
}

namespace detail {

namespace {

/// The key of the thread's state with the tasks that run, or whose result is not in the history: name, type and thread by
/// id.
constexpr std::string_view record_key = "subagent_tasks";
constexpr std::string_view message_source = "subagent_task";
/// The record is data of a store, which may be damaged.
constexpr std::size_t most_recorded = 1000;
constexpr std::size_t longest_recorded = 200;
/// The tool returns so much of a result at most.
constexpr std::size_t longest_result = std::size_t{50} << 10U;

constexpr std::string_view interrupted_text =
    "The process ended before the task; what it has done is unknown, and it is not repeated.";

std::shared_ptr<BackgroundTask> find(const SubagentTasks& shared, std::string_view id) {
    const auto found = std::find_if(shared.tasks.begin(), shared.tasks.end(),
                                    [&](const auto& one) { return one->id == id; });
    return found == shared.tasks.end() ? nullptr : *found;
}

std::string title_of(const SubagentTask& task) {
    std::string text = task.id + " (" + task.type;
    if (!task.name.empty()) text += ", " + task.name;
    return text + ")";
}

std::string text_of(const SubagentTask& task) {
    std::string text = "Task " + title_of(task) + ": " + std::string(to_string(task.state));
    if (!task.result.text.empty()) text += "\n" + task.result.text;
    if (!task.result.error.empty()) text += "\n[error: " + task.result.error + "]";
    return text;
}

Message message_of(const SubagentTask& task) {
    const Message message = synthetic_user_message(text_of(task), message_source);
    UserMessage made = *message.user();
    made.metadata["subagent"] = work_json(task.result);
    return Message(std::move(made)).with_id(std::string(task_message_prefix) + task.id);
}

Task<> run_task(std::shared_ptr<SubagentTasks> shared, std::shared_ptr<BackgroundTask> task,
                Task<SubagentResult> running) {
    Outcome<SubagentResult> ended = co_await outcome_of(std::move(running));
    --shared->running_in_background;
    if (ended.ok()) {
        task->result = std::move(ended).value();
    } else {
        task->result.outcome = RunOutcome::failed;
        task->result.error = exception_text(ended.failure());
    }
    const RunOutcome outcome = task->result.outcome;
    task->state = outcome == RunOutcome::aborted ? SubagentTaskState::cancelled
                  : task->result.error.empty()   ? SubagentTaskState::completed
                                                 : SubagentTaskState::failed;
    shared->task_ended.pulse();
    if (shared->on_task_end && !shared->closed) shared->on_task_end(*task);
}

bool has_message(const MessageList& messages, std::string_view task_id) {
    const std::string id = std::string(task_message_prefix) + std::string(task_id);
    for (std::size_t i = messages.size(); i > 0; --i) {
        if (messages[i - 1].id() == id) return true;
    }
    return false;
}

/// Adds the tasks of an earlier process, which are over.
void read_record(SubagentTasks& shared, const JsonObject& extra, const MessageList& messages,
                 const std::string& thread_id) {
    for (SubagentTask& recorded : SubagentMiddleware::tasks_in(extra, thread_id)) {
        if (shared.tasks.size() >= most_recorded) return;
        const std::string& id = recorded.id;
        if (const auto known = find(shared, id)) {
            // Only a probe has seen it.
            if (known->thread_id.empty() && !thread_id.empty()) {
                known->thread_id = thread_id;
                known->delivered = false;
            }
            continue;
        }
        if (has_message(messages, id)) continue;
        auto task = std::make_shared<BackgroundTask>();
        static_cast<SubagentTask&>(*task) = std::move(recorded);
        task->thread_id = thread_id;
        shared.tasks.push_back(std::move(task));
    }
}

/// Notes the results that the history has, for example as the prompts of this run.
void note_delivered(SubagentTasks& shared, const MessageList& messages,
                    const std::string& thread_id) {
    for (const auto& task : shared.tasks) {
        if (task->thread_id == thread_id && !task->delivered &&
            task->state != SubagentTaskState::running)
            task->delivered = has_message(messages, task->id);
    }
}

/// Charges the tasks whose result a message has, forgets those whose message is in the history, and records the others.
void update_record(SubagentTasks& shared, const HookContext& ctx) {
    read_record(shared, ctx.extra, ctx.messages, ctx.thread_id);
    note_delivered(shared, ctx.messages, ctx.thread_id);
    for (const auto& task : shared.tasks) {
        if (task->thread_id == ctx.thread_id && task->delivered && task->account)
            task->account->charge_to(*ctx.account);
    }
    std::erase_if(shared.tasks, [&ctx](const std::shared_ptr<BackgroundTask>& task) {
        return task->thread_id == ctx.thread_id && task->delivered &&
               has_message(ctx.messages, task->id);
    });
    JsonObject record;
    for (const auto& task : shared.tasks) {
        if (task->thread_id == ctx.thread_id)
            record[task->id] =
                JsonObject{{"name", task->name}, {"type", task->type}, {"thread", task->thread_id}};
    }
    if (!record.empty()) {
        ctx.extra[record_key] = std::move(record);
    } else if (ctx.extra.contains(record_key)) {
        ctx.extra[record_key] = nullptr;
    }
}

/// Returns the results that were not handed out before; with a context, those of its thread.
MessageList deliver(SubagentTasks& shared, const HookContext* ctx = nullptr) {
    MessageList messages;
    for (const auto& task : shared.tasks) {
        if (ctx && task->thread_id != ctx->thread_id) continue;
        if (task->state == SubagentTaskState::running || std::exchange(task->delivered, true))
            continue;
        task->run_id = ctx ? ctx->run_id : std::string();
        task->turn = ctx ? ctx->turn : 0;
        messages.push_back(message_of(*task));
    }
    return messages;
}

/// Returns the results for this run. One that an earlier run or turn got, but that did not enter the history (it was aborted, or its
/// suspended run was closed), is handed out again.
MessageList receive(SubagentTasks& shared, const HookContext& ctx) {
    read_record(shared, ctx.extra, ctx.messages, ctx.thread_id);
    note_delivered(shared, ctx.messages, ctx.thread_id);
    for (const auto& task : shared.tasks) {
        const bool is_earlier =
            !task->run_id.empty() && (task->run_id != ctx.run_id || task->turn < ctx.turn);
        if (is_earlier && task->thread_id == ctx.thread_id && !has_message(ctx.messages, task->id))
            task->delivered = false;
    }
    MessageList results = deliver(shared, &ctx);
    update_record(shared, ctx);
    return results;
}

enum class TaskAction : std::uint8_t { list, read, cancel };

struct TaskArgs {
    TaskAction action = TaskAction::list;
    std::optional<std::string> task_id;

    static void describe_fields(FieldNotes& fields) {
        fields.describe("task_id", "The task to read or to cancel.");
    }
};

std::vector<SubagentTask> tasks_of(const SubagentTasks& shared) {
    std::vector<SubagentTask> tasks;
    for (const auto& one : shared.tasks) tasks.push_back(*one);
    return tasks;
}

AgentToolResult use_tasks(SubagentTasks& shared, const TaskArgs& args) {
    if (args.action == TaskAction::list) return task_list_text(tasks_of(shared));
    const std::shared_ptr<BackgroundTask> task = find(shared, args.task_id.value_or(""));
    if (!task) {
        return AgentToolResult::error("there is no task '" + args.task_id.value_or("") +
                                      "'; those whose result is in the conversation are over");
    }
    if (args.action == TaskAction::cancel) {
        if (task->state != SubagentTaskState::running)
            return AgentToolResult::error(text_of(*task).substr(0, longest_result));
        task->stop.request_stop();
        return "Task " + title_of(*task) + " is being cancelled.";
    }
    return text_of(*task).substr(0, longest_result);
}

}  // namespace

SubagentOwner::~SubagentOwner() { shared->closed = true; }

AgentToolResult start_subagent_task(SubagentOwner& owner, Executor executor,
                                    std::shared_ptr<BackgroundTask> task, const ToolContext& caller,
                                    const std::function<Task<SubagentResult>()>& make) {
    SubagentTasks& shared = *owner.shared;
    if (shared.running_in_background >= shared.limits.max_background) {
        return AgentToolResult::error(std::to_string(shared.limits.max_background) +
                                      " sub-agents run in the background already (max_background)");
    }
    task->id = caller.runtime().ids->next();
    task->thread_id = caller.run().thread_id.str();
    Task<SubagentResult> running = make();
    if (!owner.scope) {
        owner.executor = executor;
        owner.scope = std::make_unique<BackgroundScope>(std::move(executor));
    }
    shared.tasks.push_back(task);
    ++shared.running_in_background;
    AgentToolResult result("Started task " + title_of(*task) +
                           " in the background. Its result arrives as a message.");
    result.details = JsonObject{{"subagent_task_id", task->id},
                                {counted_call_key, started_call(caller.call_key(), task->most)}};
    owner.scope->spawn(run_task(owner.shared, std::move(task), std::move(running)));
    return result;
}

MessageList open_results(SubagentTasks& shared, const JsonObject& extra,
                         const MessageList& messages, const std::string& thread_id) {
    read_record(shared, extra, messages, thread_id);
    note_delivered(shared, messages, thread_id);
    MessageList open;
    for (const auto& task : shared.tasks) {
        const bool is_open = task->thread_id == thread_id && !task->delivered &&
                             task->state != SubagentTaskState::running;
        if (is_open) open.push_back(message_of(*task));
    }
    return open;
}

std::optional<Message> unanswered_result(const MessageList& messages) {
    for (std::size_t i = messages.size(); i > 0; --i) {
        const Message& message = messages[i - 1];
        const AssistantMessage* const answer = message.assistant();
        if (answer && !answer->has_tool_calls()) return std::nullopt;
        if (message.role() != Role::user) continue;
        if (!is_subagent_task_result(message)) return std::nullopt;
        return Message(message).with_run_id({});
    }
    return std::nullopt;
}

AgentTool subagent_tasks_tool(std::shared_ptr<SubagentTasks> shared) {
    return tool<TaskArgs>("subagent_tasks",
                          "Lists the sub-agents in the background, reads the state and result of "
                          "one, or cancels one.",
                          [shared](TaskArgs args) { return use_tasks(*shared, args); })
        .risk(ToolRisk::read_only);
}

}  // namespace detail

std::string task_list_text(const std::vector<SubagentTask>& tasks) {
    std::string text;
    for (const SubagentTask& task : tasks) {
        if (!text.empty()) text += "\n";
        text += detail::title_of(task) + ": " + std::string(to_string(task.state)) + ", " +
                std::to_string(task.result.turns) + (task.result.turns == 1 ? " turn" : " turns");
        if (task.result.cost && *task.result.cost > 0) text += ", " + money_text(*task.result.cost);
        if (!task.task.empty()) text += ", " + task.task;
    }
    return text.empty() ? "There are no sub-agents in the background." : text;
}

std::vector<SubagentTask> SubagentMiddleware::tasks() const {
    return detail::tasks_of(*owner_->shared);
}

bool is_subagent_task_result(const Message& message) {
    const Json* const source = message.metadata().find("synthetic_source");
    return source && source->is_string() && source->get_string() == detail::message_source;
}

/// A malformed record is ignored.
std::vector<SubagentTask> SubagentMiddleware::tasks_in(const JsonObject& extra,
                                                       std::string_view thread_id) {
    std::vector<SubagentTask> tasks;
    const Json* const record = extra.if_contains(detail::record_key);
    if (!record || !record->is_object()) return tasks;
    for (const auto& [id, value] : record->get_object()) {
        if (tasks.size() >= detail::most_recorded) break;
        if (!value.is_object() || id.size() > detail::longest_recorded) continue;
        const JsonObject& fields = value.get_object();
        // The copy of a thread has its record too, but not its tasks.
        const Json* const owner = fields.if_contains("thread");
        if (owner && !thread_id.empty() && *owner != Json(thread_id)) continue;
        SubagentTask task;
        task.id = id;
        task.name = detail::text_member(fields, "name").substr(0, detail::longest_recorded);
        task.type = detail::text_member(fields, "type").substr(0, detail::longest_recorded);
        task.state = SubagentTaskState::interrupted;
        task.result.error = detail::interrupted_text;
        task.result.cost.reset();
        tasks.push_back(std::move(task));
    }
    return tasks;
}

bool SubagentMiddleware::cancel_task(std::string_view id) {
    const auto task = detail::find(*owner_->shared, id);
    if (!task || task->state != SubagentTaskState::running) return false;
    task->stop.request_stop();
    return true;
}

MessageList SubagentMiddleware::take_results() { return detail::deliver(*owner_->shared); }

/// A task is recorded in the write that stores the result of its call.
std::optional<AfterToolCallResult> SubagentMiddleware::after_tool_call(AfterToolCallContext& call) {
    if (call.tool_call.name == detail::subagent_tool_name)
        detail::update_record(*owner_->shared, call.context);
    return std::nullopt;
}

/// The messages follow the results of the answer's calls. After an answer without calls they wait for on_run_end.
std::optional<TurnAction> SubagentMiddleware::after_model_response(AssistantMessage response,
                                                                   HookContext& ctx) {
    TurnAction action;
    if (response.has_tool_calls()) {
        action.inject_messages = detail::receive(*owner_->shared, ctx);
    } else {
        detail::update_record(*owner_->shared, ctx);
    }
    if (action.inject_messages.empty()) return std::nullopt;
    return action;
}

MessageList SubagentMiddleware::on_run_end(HookContext& ctx) {
    return detail::receive(*owner_->shared, ctx);
}

}  // namespace cubepi
