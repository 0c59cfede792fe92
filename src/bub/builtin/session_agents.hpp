#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/core/task.hpp>
#include <cubepi/middleware/subagents.hpp>

namespace bub {

using cubepi::Task;

namespace detail {
struct AgentsOfSession;
}  // namespace detail

/// The sub-agents of sessions. Those in the background outlive the turn that has started them, and end with end() or close(), or with
/// this object (D126). Used on the executor of the turns; different sessions may be on different ones.
class SessionAgents {
public:
    using Make = std::function<std::shared_ptr<detail::AgentsOfSession>()>;

    SessionAgents();
    ~SessionAgents();
    SessionAgents(const SessionAgents&) = delete;
    SessionAgents& operator=(const SessionAgents&) = delete;

    /// Returns the sub-agents in the background, oldest first: those that run, and those whose result is not in the conversation.
    std::vector<cubepi::SubagentTask> list(const std::string& session_id) const;
    /// Cancels a sub-agent in the background, whose result is then that it was cancelled. Returns false if none with this id runs.
    bool cancel(const std::string& session_id, std::string_view task_id);
    /// Ends the sub-agents in the background of a session; their results are dropped. Returns the number of those that ran.
    std::size_t end(const std::string& session_id);
    /// Ends all of them, and waits until they have ended. Called before the end of the framework whose turns have started them.
    Task<> close();

    // For turns.

    /// Returns the sub-agents of a session; calls `make` if there are none.
    std::shared_ptr<detail::AgentsOfSession> open(const std::string& session_id, const Make& make);
    /// Called at the end of a turn. Forgets a session without sub-agents in the background.
    void release(const std::string& session_id);

private:
    std::shared_ptr<detail::AgentsOfSession> find(const std::string& session_id) const;

    mutable std::mutex mutex_;
    std::map<std::string, std::shared_ptr<detail::AgentsOfSession>> sessions_;
    std::vector<std::shared_ptr<detail::AgentsOfSession>> ending_;
};

/// Returns a line for each task: those of `running`, as SessionAgents::list() returns them, and those that the state of the
/// conversation has recorded besides, which an earlier process has left.
std::string tasks_text(std::vector<cubepi::SubagentTask> running, const cubepi::JsonObject& extra);

}  // namespace bub
