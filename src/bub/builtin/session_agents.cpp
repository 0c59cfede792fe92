#include <bub/builtin/session_agents.hpp>

#include <algorithm>
#include <optional>
#include <utility>

#include <bub/builtin/tools/subagent_tool.hpp>
#include <cubepi/core/task_scope.hpp>

namespace bub {

namespace {

std::size_t live(const detail::AgentsOfSession& agents) {
    return agents.owner->scope ? agents.owner->scope->live() : 0;
}

void stop(detail::AgentsOfSession& agents) {
    agents.owner->shared->closed = true;
    for (const auto& task : agents.owner->shared->tasks) task->stop.request_stop();
}

Task<> end_agents(std::shared_ptr<detail::AgentsOfSession> agents) {
    stop(*agents);
    co_await agents->owner->scope->close();
}

}  // namespace

std::string tasks_text(std::vector<cubepi::SubagentTask> running, const cubepi::JsonObject& extra) {
    for (cubepi::SubagentTask& recorded : cubepi::SubagentMiddleware::tasks_in(extra)) {
        const bool is_known = std::any_of(running.begin(), running.end(),
                                          [&](const auto& one) { return one.id == recorded.id; });
        if (!is_known) running.push_back(std::move(recorded));
    }
    return cubepi::task_list_text(running);
}

SessionAgents::SessionAgents() = default;
SessionAgents::~SessionAgents() = default;

std::shared_ptr<detail::AgentsOfSession> SessionAgents::find(const std::string& session_id) const {
    const std::lock_guard lock(mutex_);
    const auto found = sessions_.find(session_id);
    return found == sessions_.end() ? nullptr : found->second;
}

std::vector<cubepi::SubagentTask> SessionAgents::list(const std::string& session_id) const {
    const std::shared_ptr<detail::AgentsOfSession> agents = find(session_id);
    std::vector<cubepi::SubagentTask> tasks;
    if (agents) tasks = agents->middleware.tasks();
    return tasks;
}

bool SessionAgents::cancel(const std::string& session_id, std::string_view task_id) {
    const std::shared_ptr<detail::AgentsOfSession> agents = find(session_id);
    return agents && agents->middleware.cancel_task(task_id);
}

std::size_t SessionAgents::end(const std::string& session_id) {
    const std::shared_ptr<detail::AgentsOfSession> agents = find(session_id);
    if (!agents) return 0;
    const std::size_t running = live(*agents);
    stop(*agents);
    for (const auto& [id, message] : agents->messages)
        if (message.held) message.held->drop();
    const std::lock_guard lock(mutex_);
    sessions_.erase(session_id);
    std::erase_if(ending_, [](const auto& one) { return one.expired(); });
    if (running > 0) ending_.push_back(agents);
    return running;
}

Task<> SessionAgents::close() {
    std::vector<std::shared_ptr<detail::AgentsOfSession>> all;
    {
        const std::lock_guard lock(mutex_);
        for (const auto& one : std::exchange(ending_, {}))
            if (std::shared_ptr<detail::AgentsOfSession> agents = one.lock())
                all.push_back(std::move(agents));
        for (auto& [id, agents] : std::exchange(sessions_, {})) all.push_back(agents);
    }
    for (const auto& agents : all) {
        const std::optional<cubepi::Executor>& executor = agents->owner->executor;
        if (!executor) continue;
        Task<> ending = cubepi::run_on(*executor, end_agents(agents));
        co_await std::move(ending);
    }
}

std::vector<cubepi::HitlRequest> SessionAgents::open_questions() const {
    const std::lock_guard lock(mutex_);
    std::vector<cubepi::HitlRequest> all;
    for (const auto& [id, open] : questions_) all.insert(all.end(), open.begin(), open.end());
    return all;
}

void SessionAgents::note_questions(const std::string& session_id,
                                   std::vector<cubepi::HitlRequest> open) {
    const std::lock_guard lock(mutex_);
    if (open.empty()) {
        questions_.erase(session_id);
    } else {
        questions_[session_id] = std::move(open);
    }
}

std::shared_ptr<detail::AgentsOfSession> SessionAgents::open(const std::string& session_id,
                                                             const Make& make) {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<detail::AgentsOfSession>& agents = sessions_[session_id];
    if (!agents) agents = make();
    return agents;
}

void SessionAgents::release(const std::string& session_id) {
    const std::lock_guard lock(mutex_);
    const auto found = sessions_.find(session_id);
    if (found != sessions_.end() && found->second->owner->shared->tasks.empty())
        sessions_.erase(found);
}

}  // namespace bub
