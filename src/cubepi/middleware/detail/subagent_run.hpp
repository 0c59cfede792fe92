#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cubepi/core/event_signal.hpp>
#include <cubepi/middleware/subagents.hpp>

namespace cubepi::detail {

/// The beginning of the id of the message with the result of a task; the id of the task follows.
inline constexpr std::string_view task_message_prefix = "subagent-task/";
/// Names of the tools.
inline constexpr std::string_view subagent_tool_name = "subagent";
inline constexpr std::string_view subagent_tasks_tool_name = "subagent_tasks";
/// The task of a call in the background outlives the call, so its call must not be made again (D115). All others continue
/// the run of their sub-agent.
ReplayPolicy subagent_replay_policy(const JsonObject& arguments);
/// Describes the argument `run_in_background`.
inline constexpr std::string_view background_text =
    "Return at once. The result arrives as a message; subagent_tasks lists, reads and cancels.";

/// Returns the tools of a type, without those by which an agent starts others.
std::vector<AgentTool> tools_of(const SubagentOptions& options, const SubagentSpec& type);

/// Prepares a question of a sub-agent for the channel of its parent: names the agents that have passed it on, in
/// `extra.agent_path`, the outermost first, and changes the id of an approval to `question_id`, because the endpoint of the
/// sub-agent may choose the id of a call that the parent has too (D83).
HitlOptions forward_question(HitlRequest& request, std::string_view agent, std::string question_id);

/// A sub-agent that asks.
struct AskingAgent {
    std::shared_ptr<HitlChannel> parent = {};  ///< the channel of its parent; null: none
    std::string name = {};
    std::string key = {};  ///< makes the ids of its questions unique on other channels
    std::shared_ptr<const Runtime> runtime = {};
};

/// Returns the channel of a sub-agent whose questions are not stored: asks on `to`, which is that of its parent as a rule, with the
/// path of the agents, or refuses if that is null.
std::shared_ptr<HitlChannel> forwarding_channel(std::shared_ptr<HitlChannel> to, AskingAgent agent);

/// A task in the background, and the handle that cancels it.
struct BackgroundTask : SubagentTask {
    std::stop_source stop = {};
    bool delivered = false;      ///< its result has been handed out as a message
    std::string thread_id = {};  ///< that it belongs to
    std::string run_id = {};     ///< of the run that got it; empty: the host
    std::uint32_t turn = 0;      ///< of that run
    /// Charged to the run that receives the result, because the one that started it may be over. Null: nothing is charged.
    std::shared_ptr<RunAccount> account = {};
    double most = 0;  ///< USD that it may spend of the money of all; zero: no limit
};

/// Returns the origin of the run of a sub-agent, which shares the budget of the calling run. `task`: in the background, where the run
/// is charged to the task; null in the foreground, where it is charged to the calling run.
PromptOptions origin_of(const ToolContext& caller, BackgroundTask* task);

/// The sub-agents that count toward the same limits.
struct SubagentCounts {
    explicit SubagentCounts(const SubagentLimits& chosen = {}) : limits(chosen) {}

    enum class State : std::uint8_t {
        running,
        left,  ///< its call has no result: it continues when the call is repeated
        ended,
    };
    /// The call of a sub-agent.
    struct Call {
        State state = State::running;
        std::optional<double> cost = 0.0;  ///< USD, as counted; absent: unknown
        std::size_t nested = 0;            ///< those below it that have ended
    };

    const SubagentLimits limits;
    std::size_t running = 0;
    std::size_t started = 0;
    double reserved = 0;  ///< USD, by those that run
    Spending spent = {};
    // Of the history (count_history()):
    std::map<std::string, Call> calls = {};  ///< those that were counted, by their keys
    std::string run_id = {};                 ///< whose history was read
    std::size_t read_until = 0;              ///< so many messages of it
};

/// The state of all sub-agents of one middleware, or of one session of the pipeline. Sub-agents that run share it; it does not own
/// them.
struct SubagentTasks : SubagentCounts {
    explicit SubagentTasks(const SubagentLimits& chosen,
                           std::function<void(const SubagentTask&)> on_end)
        : SubagentCounts(chosen), on_task_end(std::move(on_end)) {}

    const std::function<void(const SubagentTask&)> on_task_end;
    std::size_t running_in_background = 0;
    std::vector<std::shared_ptr<BackgroundTask>> tasks = {};
    AsyncEvent task_ended;  ///< pulsed when one in the background has ended
    bool closed = false;    ///< the owner is gone: callbacks of the host are not called
};

/// With the types of a middleware.
struct SubagentShared : SubagentTasks {
    explicit SubagentShared(SubagentOptions chosen);

    const SubagentSpec* find(std::string_view type) const;
    std::string type_names() const;

    const SubagentOptions options;
};

/// Owns the sub-agents in the background.
struct SubagentOwner {
    explicit SubagentOwner(std::shared_ptr<SubagentTasks> tasks) : shared(std::move(tasks)) {}
    ~SubagentOwner();
    SubagentOwner(const SubagentOwner&) = delete;
    SubagentOwner& operator=(const SubagentOwner&) = delete;

    const std::shared_ptr<SubagentTasks> shared;
    std::shared_ptr<SubagentCounts> counts = shared;  ///< to which the history of a run adds
    std::unique_ptr<BackgroundScope> scope = {};      ///< null until the first one starts
    std::optional<Executor> executor = {};            ///< of the scope
};

// subagent_limits.cpp:

/// A place among the sub-agents, and its share of their money. Throws Error(limit) if a limit has been reached.
class SubagentSlot {
public:
    /// `own`: the limits of this sub-agent. `call_key`: of its call; one that was left without a result is not counted again; empty:
    /// it is not in a history. `parent_key`: of the call of the sub-agent that has started a nested one, whose money is part of its
    /// parent's, whose budget it shares (D120).
    SubagentSlot(std::shared_ptr<SubagentCounts> counts, const AgentLimits& own,
                 std::string call_key = {}, std::string parent_key = {});
    ~SubagentSlot();
    SubagentSlot(const SubagentSlot&) = delete;
    SubagentSlot& operator=(const SubagentSlot&) = delete;

    /// Returns the limits of the sub-agent.
    const AgentLimits& limits() const noexcept { return limits_; }
    /// Returns the USD that it may spend of the money of all; zero: that has no limit.
    double reserved() const noexcept { return reserved_; }
    /// Counts the cost of the sub-agent. `earlier`: in USD, of the attempts before this one, as stored with its run; absent: unknown.
    /// `is_left`: its call has no result, and may be repeated.
    void spend(const SubagentResult& result, std::optional<double> earlier, bool is_left);

private:
    std::shared_ptr<SubagentCounts> counts_;
    AgentLimits limits_;
    const std::string call_key_;
    const std::string parent_key_;
    std::optional<double> counted_ = 0.0;  ///< of earlier attempts, in the counts
    double reserved_ = 0;
};

/// Adds to the counts what the history has of sub-agents since the last prompt of the user, and they do not have: those of processes
/// that were killed, or that have suspended the run (D204). Reads what was added to the history of this run since the last call.
void count_history(SubagentCounts& counts, const MessageList& history, const std::string& run_id);
/// Adds those that a sub-agent has started in earlier attempts. `key`: of its call.
void count_nested(SubagentCounts& counts, const MessageList& history, const std::string& key);
/// The member of the details of a result from which count_history() counts the sub-agent.
inline constexpr std::string_view counted_call_key = "subagent_call";
/// Returns that member, for a call that has ended. `key`: of the call.
JsonObject counted_call(const SubagentCounts& counts, const std::string& key);
/// Returns it for a call that has started a task, which may spend `most` USD.
JsonObject started_call(const std::string& key, double most);

/// Counts the work of a sub-agent from its events.
class SubagentMeter {
public:
    /// `result`, and `task` if there is one, receive the counts.
    SubagentMeter(SubagentResult& result, std::shared_ptr<BackgroundTask> task)
        : result_(result), task_(std::move(task)) {}

    /// `model`: of the agent, for prices. Returns true if the counts have changed.
    bool note(const AgentEvent& event, const Model& model);

private:
    void add(Spending& sum, const Usage& usage, std::optional<double> cost);

    SubagentResult& result_;
    std::shared_ptr<BackgroundTask> task_;
    Spending ended_;    // by runs that have ended
    Spending running_;  // by the answers of the current one
};

/// The origin and the limits of a sub-agent.
struct SubagentPlan {
    std::shared_ptr<SubagentShared> shared = {};
    SubagentRequest request = {};
    std::string type = {};
    std::size_t depth = 1;        ///< of the sub-agent
    std::string parent_key = {};  ///< of the call of a parent that is a sub-agent, too
    std::shared_ptr<BackgroundTask> task = {};  ///< in the background; else null
};

/// Runs a sub-agent to its end. `caller` is used before the first suspension only in the background; in the foreground it must
/// outlive the task. Throws Error(limit); cancelling a foreground task suspends a stored sub-agent that waits for the user, and
/// aborts any other one.
Task<SubagentResult> run_subagent(SubagentPlan plan, ToolContext& caller);

/// Returns the tool `subagent` of an agent at this depth; 0 is the root. `owner` may start tasks in the background; null: none.
/// `call_key`: of the call of that agent; empty: it is the root.
AgentTool subagent_tool(std::shared_ptr<SubagentShared> shared,
                        std::shared_ptr<SubagentOwner> owner, std::size_t depth,
                        std::string call_key = {});
AgentTool subagent_tasks_tool(std::shared_ptr<SubagentTasks> shared);

/// Starts a sub-agent in the background. `task` has its name, type and description; `make` returns its run. Returns the result of the
/// call, which names the task. Throws what `make` throws.
AgentToolResult start_subagent_task(SubagentOwner& owner, Executor executor,
                                    std::shared_ptr<BackgroundTask> task, const ToolContext& caller,
                                    const std::function<Task<SubagentResult>()>& make);

/// Returns the results that the history of a thread does not have, as prompts of its next run; they count as delivered when a run has
/// them in its history. `extra`: the state of the thread, whose record names the tasks of an earlier process.
MessageList open_results(SubagentTasks& shared, const JsonObject& extra,
                         const MessageList& messages, const std::string& thread_id);
/// Returns the last result of the history, with which a run can be continued (D42), if it is the prompt of a run that was interrupted.
std::optional<Message> unanswered_result(const MessageList& messages);

/// Returns the text of a result in the background, shortened like that of a tool (D24): no call has it as its result. `limit`: Unicode
/// code points; 0: none. `key`: of the call.
Task<std::string> limited_result(std::shared_ptr<const Runtime> runtime,
                                 std::shared_ptr<SpillSink> spill, std::string key,
                                 std::size_t limit, std::string text);

/// Returns how much a sub-agent has done, for those who show it; see is_subagent_task_result().
JsonObject work_json(const SubagentResult& result);

/// Returns the result of a call, with counted_call().
AgentToolResult result_of(SubagentResult ended, JsonObject counted);

}  // namespace cubepi::detail
