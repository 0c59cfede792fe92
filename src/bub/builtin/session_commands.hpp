#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include <cubepi/workspace/shell_sessions.hpp>

namespace bub {

/// The shell commands of sessions. Commands in the background outlive the turn that has started them, and end with end() or
/// with this object (D93). Any thread may call any member; the commands of one session are used on the executor of its turns.
class SessionCommands {
public:
    using Make = std::function<std::shared_ptr<cubepi::ShellSessions>()>;

    /// Returns the commands of a session; calls `make` if there are none.
    std::shared_ptr<cubepi::ShellSessions> open(const std::string& session_id, const Make& make);
    /// Returns null if no turn of the session is in progress and it has no background commands.
    std::shared_ptr<cubepi::ShellSessions> find(const std::string& session_id) const;
    /// Called at the end of a turn. Forgets a session without background commands.
    void release(const std::string& session_id);
    /// Ends the background commands of a session, also while a turn uses them. Returns the number of those that ran.
    std::size_t end(const std::string& session_id);

private:
    mutable std::mutex mutex_;
    std::map<std::string, std::shared_ptr<cubepi::ShellSessions>> sessions_;
};

}  // namespace bub
