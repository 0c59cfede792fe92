#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/core/hitl_request.hpp>
#include <cubepi/core/task.hpp>
#include <cubepi/middleware/subagents.hpp>

namespace bub {

using cubepi::Task;

namespace detail {
struct AgentsOfSession;
}  // namespace detail

/// The sub-agents of sessions. Those in the background outlive the turn that has started them, and end with end() or close(), which
/// must be called before this object and the framework are destroyed (D126). What concerns a session is called on the executor of
/// its turns; different sessions may be on different ones.
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
    /// Ends all of them, and waits until they have ended. Called after the last turn, while the executors of all turns run.
    Task<> close();

    /// Returns the questions of sub-agents in the background that turns have shown and that wait for an answer (D128), of all sessions.
    /// May be called from any thread.
    std::vector<cubepi::HitlRequest> open_questions() const;

    // For turns.

    /// Sets the open questions of a session.
    void note_questions(const std::string& session_id, std::vector<cubepi::HitlRequest> open);

    /// Returns the sub-agents of a session; null if there are none.
    std::shared_ptr<detail::AgentsOfSession> find(const std::string& session_id) const;
    /// Returns the sub-agents of a session; calls `make` if there are none.
    std::shared_ptr<detail::AgentsOfSession> open(const std::string& session_id, const Make& make);
    /// Called at the end of a turn. Forgets a session without sub-agents in the background.
    void release(const std::string& session_id);

private:
    mutable std::mutex mutex_;
    std::map<std::string, std::vector<cubepi::HitlRequest>> questions_;
    std::map<std::string, std::shared_ptr<detail::AgentsOfSession>> sessions_;
    /// Of sessions that have ended. Their sub-agents own them while they run.
    std::vector<std::weak_ptr<detail::AgentsOfSession>> ending_;
};

/// Returns a line for each task: those of `running`, as SessionAgents::list() returns them, and those that the state of the
/// conversation has recorded besides, which an earlier process has left.
std::string tasks_text(std::vector<cubepi::SubagentTask> running, const cubepi::JsonObject& extra);

}  // namespace bub
