#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cubepi/core/clock.hpp>

#include "gateway_api.hpp"

namespace cubepi::app {

/// A browser that is logged in to the web console.
struct ConsoleSession {
    std::string id = {};  ///< names the login, and is not secret
    GatewayRole role = GatewayRole::viewer;
    std::string name = {};        ///< of the user, in the log
    std::string csrf_token = {};  ///< which requests that change something must have as well
};

/// The one-time links and the sessions of the web console (D199). They are in memory: a reload keeps them, and they end with the process.
/// Only digests of their secrets are stored. Used on one executor.
class ConsoleSessions {
public:
    static constexpr std::chrono::hours link_lifetime{1};
    static constexpr std::chrono::hours idle_lifetime{12};
    static constexpr std::chrono::hours longest_lifetime{24 * 7};
    /// Further ones replace those that end first.
    static constexpr std::size_t max_links = 64;
    static constexpr std::size_t max_sessions = 256;

    explicit ConsoleSessions(std::shared_ptr<Clock> clock) : clock_(std::move(clock)) {}

    /// Returns the secret of a link that logs in once, within `link_lifetime`.
    std::string make_link(GatewayRole role, std::string name);
    /// Ends a link and returns the secret of a new session; nothing if the link is unknown, used or expired.
    std::optional<std::string> log_in(std::string_view link);
    /// Returns the session of a secret; nothing if it is unknown or has ended. A session ends when it was not used for `idle_lifetime`.
    std::optional<ConsoleSession> find(std::string_view secret);
    void log_out(std::string_view secret);
    /// Returns the links that can be used and the sessions, oldest first.
    std::vector<ConsoleLogin> logins() const;
    /// Ends a link or a session (D219). Returns false if there is none with this id.
    bool end(std::string_view id);
    /// Ends all links and sessions.
    void end_all();

private:
    struct Entry {
        ConsoleSession session;
        Clock::time_point idle_end;
        Clock::time_point end;
        double since = 0;  // Unix seconds
        double used = 0;   // 0: a link
        Clock::time_point ends() const { return std::min(idle_end, end); }
    };
    /// By the digest of the secret: the time of a search does not tell how much of a guess is right.
    using Entries = std::map<std::string, Entry>;

    std::string insert(Entries& entries, std::size_t most, Entry entry) const;
    void erase_ended(Entries& entries) const;
    double unix_now() const;

    const std::shared_ptr<Clock> clock_;
    Entries links_;
    Entries sessions_;
};

}  // namespace cubepi::app
