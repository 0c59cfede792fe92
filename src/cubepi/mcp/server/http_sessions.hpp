#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include <cubepi/core/runtime.hpp>
#include <cubepi/mcp/server/session.hpp>

namespace cubepi::detail {

/// The sessions of clients over HTTP, by their secret ids. Their number is limited: a session without a request in progress ends after
/// a time without use, or when another one needs its place.
class McpHttpSessions {
public:
    McpHttpSessions(std::size_t max_sessions, std::chrono::nanoseconds idle_time,
                    std::shared_ptr<const Runtime> runtime);
    ~McpHttpSessions();

    /// Stores a session and returns its id; empty if there are too many sessions in use.
    std::string add(std::shared_ptr<McpSession> session);
    /// Returns null if there is no such session (any more).
    std::shared_ptr<McpSession> find(std::string_view id);
    /// Closes the session. Returns false if there is none.
    bool remove(std::string_view id);

private:
    struct Entry {
        std::shared_ptr<McpSession> session;
        Clock::time_point used;
    };
    using Entries = std::map<std::string, Entry, std::less<>>;

    static bool is_idle(const Entry& entry);
    Entries::iterator end_session(Entries::iterator entry);

    std::size_t max_sessions_;
    std::chrono::nanoseconds idle_time_;
    std::shared_ptr<const Runtime> runtime_;
    Entries entries_;
};

}  // namespace cubepi::detail
