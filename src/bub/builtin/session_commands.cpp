#include <bub/builtin/session_commands.hpp>

#include <utility>

namespace bub {

std::shared_ptr<cubepi::ShellSessions> SessionCommands::open(const std::string& session_id,
                                                             const Make& make) {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<cubepi::ShellSessions>& commands = sessions_[session_id];
    if (!commands) commands = make();
    return commands;
}

std::shared_ptr<cubepi::ShellSessions> SessionCommands::find(const std::string& session_id) const {
    const std::lock_guard lock(mutex_);
    const auto found = sessions_.find(session_id);
    return found == sessions_.end() ? nullptr : found->second;
}

void SessionCommands::release(const std::string& session_id) {
    const std::lock_guard lock(mutex_);
    const auto found = sessions_.find(session_id);
    if (found != sessions_.end() && found->second->list().empty()) sessions_.erase(found);
}

std::size_t SessionCommands::end(const std::string& session_id) {
    std::shared_ptr<cubepi::ShellSessions> commands;
    {
        const std::lock_guard lock(mutex_);
        const auto found = sessions_.find(session_id);
        if (found == sessions_.end()) return 0;
        commands = std::move(found->second);
        sessions_.erase(found);
    }
    std::size_t running = 0;
    for (const auto& one : commands->list()) running += one.running ? 1 : 0;
    (void)commands->kill_all();  // the destructor reports what could not be ended
    return running;
}

}  // namespace bub
