#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>

#include <bub/builtin/plugin/core.hpp>
#include <bub/envelope.hpp>
#include <bub/turn_state.hpp>
#include <cubepi/middleware/detail/subagent_run.hpp>

namespace bub::detail {

/// Returns a message of the same sender and chat whose turn receives the results of sub-agents. It is never a command (B11).
Envelope results_message(const Envelope& message, const std::string& session_id);
/// Returns true for such a message, unless it was merged with a text of a user.
bool is_results_message(const Envelope& message);

/// The sub-agents of a session, which share their limits.
struct AgentsOfSession {
    explicit AgentsOfSession(std::shared_ptr<cubepi::detail::SubagentTasks> tasks)
        : owner(std::make_shared<cubepi::detail::SubagentOwner>(std::move(tasks))),
          middleware(owner) {}

    const std::shared_ptr<cubepi::detail::SubagentOwner> owner;
    cubepi::SubagentMiddleware middleware;
    std::set<std::string> conversations = {};       ///< the sessions of those that run
    std::map<std::string, Envelope> messages = {};  ///< results_message() by the id of a task
};

/// Returns the tool `subagent`. `state` must outlive it.
cubepi::AgentTool subagent_tool(std::shared_ptr<BuiltinCore> core, std::string session_id,
                                TurnState& state);

}  // namespace bub::detail
