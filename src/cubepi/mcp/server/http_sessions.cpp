#include <cubepi/mcp/server/http_sessions.hpp>

#include <utility>

#include <cubepi/mcp/server/request_state.hpp>

namespace cubepi::detail {

McpHttpSessions::McpHttpSessions(std::size_t max_sessions, std::chrono::nanoseconds idle_time,
                                 std::shared_ptr<const Runtime> runtime)
    : max_sessions_(max_sessions), idle_time_(idle_time), runtime_(std::move(runtime)) {}

McpHttpSessions::~McpHttpSessions() {
    for (const auto& [id, entry] : entries_) entry.session->close();
}

/// A request in progress and a stream share the session.
bool McpHttpSessions::is_idle(const Entry& entry) { return entry.session.use_count() == 1; }

McpHttpSessions::Entries::iterator McpHttpSessions::end_session(Entries::iterator entry) {
    const std::shared_ptr<McpSession> session = entry->second.session;
    const Entries::iterator next = entries_.erase(entry);
    session->close();
    session->abort_requests();
    return next;
}

std::string McpHttpSessions::add(std::shared_ptr<McpSession> session) {
    const Clock::time_point now = runtime_->clock->now();
    auto oldest = entries_.end();
    for (auto entry = entries_.begin(); entry != entries_.end();) {
        if (!is_idle(entry->second)) {
            ++entry;
        } else if (deadline_after(entry->second.used, idle_time_) <= now) {
            entry = end_session(entry);
        } else {
            if (oldest == entries_.end() || entry->second.used < oldest->second.used)
                oldest = entry;
            ++entry;
        }
    }
    if (entries_.size() >= max_sessions_) {
        if (oldest == entries_.end()) return {};
        end_session(oldest);
    }
    std::string id = random_secret(16);
    Entry entry;
    entry.session = std::move(session);
    entry.used = now;
    entries_.emplace(id, std::move(entry));
    return id;
}

std::shared_ptr<McpSession> McpHttpSessions::find(std::string_view id) {
    const auto entry = entries_.find(id);
    if (entry == entries_.end()) return nullptr;
    const Clock::time_point now = runtime_->clock->now();
    if (is_idle(entry->second) && deadline_after(entry->second.used, idle_time_) <= now) {
        end_session(entry);
        return nullptr;
    }
    entry->second.used = now;
    return entry->second.session;
}

bool McpHttpSessions::remove(std::string_view id) {
    const auto entry = entries_.find(id);
    if (entry == entries_.end()) return false;
    end_session(entry);
    return true;
}

}  // namespace cubepi::detail
