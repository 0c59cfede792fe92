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

/// Names of the tools.
inline constexpr std::string_view subagent_tool_name = "subagent";
inline constexpr std::string_view subagent_tasks_tool_name = "subagent_tasks";
/// The task of a call in the background outlives the call, so its call must not be made again (D115). All others continue
/// the run of their sub-agent.
ReplayPolicy subagent_replay_policy(const JsonObject& arguments);
/// The end of the id of the note that a run has of its sub-agents (load_counts()).
inline constexpr std::string_view subagent_note_end = ".subagents";
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
};

/// Returns the origin of the run of a sub-agent, which shares the budget of the calling run. `task`: in the background, where the run
/// is charged to the task; null in the foreground, where it is charged to the calling run.
PromptOptions origin_of(const ToolContext& caller, BackgroundTask* task);

/// The sub-agents that count toward the same limits.
struct SubagentCounts {
    explicit SubagentCounts(const SubagentLimits& chosen = {}) : limits(chosen) {}

    /// The part of the counts that is of one run, which may continue in another process (D134).
    struct OfRun {
        std::string run_id = {};
        std::size_t ended = 0;
        std::optional<double> cost = 0.0;  ///< USD, of those that have ended; absent: unknown
    };

    const SubagentLimits limits;
    std::size_t running = 0;
    std::size_t started = 0;
    double reserved = 0;  ///< USD, by those that run
    Spending spent = {};
    OfRun run = {};
    /// The cost of those whose calls were left without a result, by the key of the call: they continue when it is repeated.
    std::map<std::string, std::optional<double>> left = {};
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
    std::unique_ptr<BackgroundScope> scope = {};  ///< null until the first one starts
    std::optional<Executor> executor = {};        ///< of the scope
};

// subagent_limits.cpp:

/// A place among the sub-agents, and its share of their money. Throws Error(limit) if a limit has been reached.
class SubagentPlace {
public:
    /// `own`: the limits of this sub-agent. `call_key`: of its call; one that was left without a result is not counted again. The
    /// money of a nested one is part of its parent's, whose budget it shares (D120).
    SubagentPlace(std::shared_ptr<SubagentCounts> counts, const AgentLimits& own,
                  std::string call_key = {}, bool is_nested = false);
    ~SubagentPlace();
    SubagentPlace(const SubagentPlace&) = delete;
    SubagentPlace& operator=(const SubagentPlace&) = delete;

    /// Returns the limits of the sub-agent.
    const AgentLimits& limits() const noexcept { return limits_; }
    /// Counts the cost of the sub-agent. `earlier`: in USD, of the attempts before this one, as stored with its run; absent: unknown.
    /// `is_left`: its call has no result, and may be repeated.
    void spend(const SubagentResult& result, std::optional<double> earlier, bool is_left);

private:
    std::shared_ptr<SubagentCounts> counts_;
    AgentLimits limits_;
    const std::string call_key_;
    const bool is_nested_;
    bool continues_ = false;
    std::optional<double> counted_ = 0.0;  ///< of earlier attempts, in the counts
    double reserved_ = 0;
};

/// Adds to the counts what other processes have stored of the run of the caller, so that the limits hold across suspensions (D134).
/// Called before each sub-agent of a run. Does nothing if the channel of the run stores no notes.
Task<> load_counts(std::shared_ptr<SubagentCounts> counts, const ToolContext& caller);
/// Stores what the run of the caller has used, after each of its sub-agents. `caller` must outlive the task.
Task<> save_counts(std::shared_ptr<SubagentCounts> counts, const ToolContext& caller);

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
    std::size_t depth = 1;                      ///< of the sub-agent
    std::shared_ptr<BackgroundTask> task = {};  ///< in the background; else null
};

/// Runs a sub-agent to its end. `caller` is used before the first suspension only in the background; in the foreground it must
/// outlive the task. Throws Error(limit); cancelling a foreground task suspends a stored sub-agent that waits for the user, and
/// aborts any other one.
Task<SubagentResult> run_subagent(SubagentPlan plan, ToolContext& caller);

/// Returns the tool `subagent` of an agent at this depth; 0 is the root. `owner` may start tasks in the background; null: none.
AgentTool subagent_tool(std::shared_ptr<SubagentShared> shared,
                        std::shared_ptr<SubagentOwner> owner, std::size_t depth);
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

/// Returns the result of a call.
AgentToolResult result_of(SubagentResult ended);

}  // namespace cubepi::detail
