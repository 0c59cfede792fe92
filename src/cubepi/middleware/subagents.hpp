#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/agent/agent.hpp>
#include <cubepi/core/task_scope.hpp>

namespace cubepi {

/// A type of sub-agent, which a model names in a call of `subagent`.
struct SubagentSpec {
    std::string name = {};
    std::string description = {};  ///< for the model that chooses among the types
    std::string system_prompt = {};
    BoundModel model = {};              ///< none: SubagentOptions::default_model
    std::vector<AgentTool> tools = {};  ///< in addition to SubagentOptions::shared_tools
    std::vector<Middleware> middleware = {};
    AgentLimits limits = {.max_turns = 50};  ///< of one sub-agent
};

/// The limits of all sub-agents of one middleware together. Zero disables a limit, except where stated.
struct SubagentLimits {
    /// 1: a sub-agent starts none itself; 2: its sub-agents start none.
    std::size_t max_depth = 1;
    std::size_t max_running = 16;
    /// In the lifetime of the middleware.
    std::size_t max_total = 1000;
    /// USD. A sub-agent reserves its own limit, or all that is left if its type has none, so that parallel ones do not exceed the
    /// sum.
    double max_spend = 0.0;
    /// Sub-agents in the background at once. Zero: the model is not offered `run_in_background`.
    std::size_t max_background = 0;
    /// Payloads of the event mapper in the details of one result, at most 64 KiB of them.
    std::size_t max_events = 200;
};

/// The arguments of the tool `subagent`. `prompt` and `subagent_type` are passed to the sub-agent; the others are for the user.
struct SubagentRequest {
    std::optional<std::string> name = {};
    std::optional<std::string> role = {};
    std::optional<std::string> task = {};
    std::string prompt = {};
    std::optional<std::string> subagent_type = {};  ///< absent: general-purpose
    std::optional<bool> run_in_background = {};
};

/// The work of a sub-agent: so far while it runs, then with its end.
struct SubagentResult {
    std::string agent_id = {};  ///< "subagent:" and the id of the tool call
    std::string run_id = {};
    std::string text = {};
    JsonArray events = {};   ///< payloads of the event mapper
    std::string error = {};  ///< empty: it completed its task
    std::size_t turns = 0;   ///< calls of its model
    Usage usage = {};
    std::optional<double> cost = 0.0;  ///< USD; absent: unknown
    RunOutcome outcome = RunOutcome::completed;
};

enum class SubagentTaskState : std::uint8_t {
    running,
    completed,
    failed,
    cancelled,
    interrupted,  ///< its process ended; it is not repeated
};
std::string_view to_string(SubagentTaskState state) noexcept;

/// A sub-agent in the background.
struct SubagentTask {
    std::string id = {};  ///< random
    std::string name = {};
    std::string type = {};
    std::string task = {};  ///< as the model describes it
    SubagentTaskState state = SubagentTaskState::running;
    SubagentResult result = {};  ///< while the state is `running`: only turns, usage and cost
};

struct SubagentOptions {
    /// A type `general-purpose` is added if there is none.
    std::vector<SubagentSpec> subagents = {};
    BoundModel default_model = {};  ///< of types without a model
    /// Tools of each sub-agent. Those of the parent are not inherited.
    std::vector<AgentTool> shared_tools = {};
    /// Middleware of each sub-agent. The parent's hooks before_tool_call decide about its calls without being listed here.
    std::vector<Middleware> inherited_middleware = {};
    SubagentLimits limits = {};

    /// Stores the conversations of sub-agents, each in a thread of its own below that of the parent, so that a call continues
    /// in another process. Null: a call that is interrupted has an error result. Not used in the background.
    std::shared_ptr<Checkpointer> checkpointer = {};
    /// Creates the channel of a stored sub-agent, a CheckpointedChannel. Without it, a sub-agent that waits for the user ends with
    /// the suspension of its parent.
    std::function<std::shared_ptr<HitlChannel>(std::shared_ptr<Checkpointer> store,
                                               std::string thread_id)>
        make_channel = {};
    /// Receives the questions of sub-agents in the background, for example an InMemoryChannel that the host watches. It must not be
    /// the channel of an agent. Null: these questions are refused.
    std::shared_ptr<HitlChannel> background_channel = {};

    /// Of a result in the background, which arrives as a message. A longer one is shortened like the result of a tool (D24): the
    /// model sees its beginning and how to read the rest, which `spill` stores.
    std::size_t max_result_chars = 50'000;  ///< Unicode code points; 0: no limit
    std::shared_ptr<SpillSink> spill = {};  ///< null: the rest is lost

    /// Converts an event of a sub-agent to payloads, which are stored in `details.subagent_events` of the result and reported as
    /// progress of the call.
    std::function<std::vector<Json>(const AgentEvent&)> event_mapper = {};
    /// Receives the events of all sub-agents. `AgentEvent::run->origin` names the run and the call of the parent.
    std::function<void(const AgentEvent&)> on_event = {};
    /// Called for each sub-agent before it starts, for example to attach a tracer. The result is released when it has ended.
    std::function<std::shared_ptr<void>(Agent&)> on_agent = {};
    /// Called when a sub-agent in the background has ended. If the parent is idle, the host may prompt it with take_results().
    std::function<void(const SubagentTask&)> on_task_end = {};
};

/// Returns a line for each task, for users and models: its id, type, name, state, turns, cost and description.
std::string task_list_text(const std::vector<SubagentTask>& tasks);

/// Returns true for the message with the result of a sub-agent in the background. Its metadata has the member `subagent`: {"turns",
/// "input_tokens", "output_tokens", "cost"}, without those that are unknown; so have the details of a result of the pipeline's tool.
bool is_subagent_task_result(const Message& message);

namespace detail {
struct SubagentOwner;
}  // namespace detail

/// Middleware that adds the tool `subagent`, by which a model has another agent do a task: with a context of its own, a model and
/// tools of its type, within limits, and charged to the run that calls it (D67). What the parent must not do its sub-agents must
/// not do either, and their questions are asked on the parent's channel (D114). An abort of the parent aborts them.
///
/// With SubagentLimits::max_background, the model may start one in the background (D115): the call returns a task id at once; the
/// result arrives as a message before the next model call of a run, or when a run would end; the tool `subagent_tasks` lists,
/// reads and cancels. These sub-agents survive the run, not the middleware: destroying its last copy, and the agents that have it,
/// cancels them. They run on the executor of the agent, which must be run for them to proceed.
///
/// Copies share their state. One agent at a time; used on its executor.
class SubagentMiddleware {
public:
    /// Throws Error(invalid_argument) for a type without a name or a model, and for two types, or two tools of a type, of one name.
    explicit SubagentMiddleware(SubagentOptions options);
    /// For hosts with a tool `subagent` of their own: without tools, and with the sub-agents of this owner.
    explicit SubagentMiddleware(std::shared_ptr<detail::SubagentOwner> owner);

    std::vector<AgentTool> tools = {};

    /// Returns the sub-agents in the background, oldest first: those that run, and those whose result is not in the history yet.
    std::vector<SubagentTask> tasks() const;
    /// Returns the tasks that a thread's state has recorded, as interrupted: they are, unless a process runs them. With `thread_id`,
    /// those of other threads are left out, which the state of a fork has, too.
    static std::vector<SubagentTask> tasks_in(const JsonObject& extra,
                                              std::string_view thread_id = {});
    /// Cancels a sub-agent in the background. Returns false if none with this id runs.
    bool cancel_task(std::string_view id);
    /// Returns the results that no run has received, as messages for a prompt; they are not delivered again.
    MessageList take_results();
    /// Returns what all sub-agents together have spent.
    Spending spending() const;

    // Hooks.
    std::optional<ToolCall> resolve_tool_call(ToolCall call, HookContext& ctx);
    std::optional<AfterToolCallResult> after_tool_call(AfterToolCallContext& call);
    std::optional<TurnAction> after_model_response(AssistantMessage response, HookContext& ctx);
    MessageList on_run_end(HookContext& ctx);

private:
    std::shared_ptr<detail::SubagentOwner> owner_;
};

}  // namespace cubepi
