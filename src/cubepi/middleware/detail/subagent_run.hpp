#pragma once

#include <cstddef>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/middleware/subagents.hpp>

namespace cubepi::detail {

/// Names of the tools.
inline constexpr std::string_view subagent_tool_name = "subagent";
inline constexpr std::string_view subagent_tasks_tool_name = "subagent_tasks";

/// Returns the tools of a type, without those by which an agent starts others.
std::vector<AgentTool> tools_of(const SubagentOptions& options, const SubagentSpec& type);

/// Prepares a question of a sub-agent for the channel of its parent: names the agents that have passed it on, in
/// `extra.agent_path`, the outermost first, and changes the id of an approval to `question_id`, because the endpoint of the
/// sub-agent may choose the id of a call that the parent has too (D83).
HitlOptions forward_question(HitlRequest& request, std::string_view agent, std::string question_id);

/// A task in the background, and the handle that cancels it.
struct BackgroundTask : SubagentTask {
    std::stop_source stop = {};
    bool delivered = false;      ///< its result has been handed out as a message
    std::string thread_id = {};  ///< that it belongs to
    std::string run_id = {};     ///< of the run that got it; empty: the host
    std::uint32_t turn = 0;      ///< of that run
    bool charged = false;        ///< to a run that has received it
};

/// The sub-agents that count toward the same limits.
struct SubagentCounts {
    explicit SubagentCounts(const SubagentLimits& chosen = {}) : limits(chosen) {}

    const SubagentLimits limits;
    std::size_t running = 0;
    std::size_t started = 0;
    double reserved = 0;  ///< USD, by those that run
    Spending spent = {};
};

/// The state of all sub-agents of one middleware. Sub-agents that run share it; it does not own them.
struct SubagentShared : SubagentCounts {
    explicit SubagentShared(SubagentOptions chosen);

    const SubagentSpec* find(std::string_view type) const;
    std::string type_names() const;

    const SubagentOptions options;
    std::size_t running_in_background = 0;
    std::vector<std::shared_ptr<BackgroundTask>> tasks = {};
    bool closed = false;  ///< the owner is gone: callbacks of the host are not called
};

/// Owns the sub-agents in the background.
struct SubagentOwner {
    explicit SubagentOwner(SubagentOptions options);
    ~SubagentOwner();
    SubagentOwner(const SubagentOwner&) = delete;
    SubagentOwner& operator=(const SubagentOwner&) = delete;

    const std::shared_ptr<SubagentShared> shared;
    std::unique_ptr<BackgroundScope> scope = {};  ///< null until the first one starts
};

/// A place among the sub-agents, and its share of their money. Throws Error(limit) if a limit has been reached.
class SubagentPlace {
public:
    /// `own`: the limits of this sub-agent. The money of a nested one is part of its parent's, whose budget it shares (D120).
    SubagentPlace(std::shared_ptr<SubagentCounts> counts, const AgentLimits& own,
                  bool is_nested = false);
    ~SubagentPlace();
    SubagentPlace(const SubagentPlace&) = delete;
    SubagentPlace& operator=(const SubagentPlace&) = delete;

    /// Returns the limits of the sub-agent.
    const AgentLimits& limits() const noexcept { return limits_; }
    void spend(const SubagentResult& result);

private:
    std::shared_ptr<SubagentCounts> counts_;
    AgentLimits limits_;
    const bool is_nested_;
    double reserved_ = 0;
};

/// The origin and the limits of a sub-agent.
struct SubagentPlan {
    std::shared_ptr<SubagentShared> shared = {};
    SubagentRequest request = {};
    std::string type = {};
    std::size_t depth = 1;  ///< of the sub-agent
    bool background = false;
    std::stop_token stop = {};
};

/// Runs a sub-agent to its end. `caller` is used before the first suspension only in the background; in the foreground it must
/// outlive the task. Throws Error(limit); cancelling a foreground task suspends a stored sub-agent that waits for the user, and
/// aborts any other one.
Task<SubagentResult> run_subagent(SubagentPlan plan, ToolContext& caller);

/// Returns the tool `subagent` of an agent at this depth; 0 is the root. `owner` may start tasks in the background; null: none.
AgentTool subagent_tool(std::shared_ptr<SubagentShared> shared,
                        std::shared_ptr<SubagentOwner> owner, std::size_t depth);
AgentTool subagent_tasks_tool(std::shared_ptr<SubagentShared> shared);

/// Starts a sub-agent in the background. Returns the result of the call, which names the task.
AgentToolResult start_subagent_task(SubagentOwner& owner, Executor executor, SubagentPlan plan,
                                    ToolContext& caller);

/// Returns the result of a call.
AgentToolResult result_of(SubagentResult ended);

}  // namespace cubepi::detail
