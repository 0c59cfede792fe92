#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include <cubepi/sql/postgres_options.hpp>

namespace cubepi {

/// Notifications between processes that use a PostgreSQL database (LISTEN and NOTIFY), on a connection and a thread of their own. They are
/// hints: they are lost while the database is away, and behind a pooler that assigns a session to each transaction. Thread-safe.
class PostgresNotifications {
public:
    /// Called on the thread for each notification, also for those of this object; must not throw.
    using Receive = std::function<void(const std::string& payload)>;

    /// Connects in the background, and again after a failure. A problem() is logged once until there is none again. `channel` and payloads: letters, digits and '_'. Throws
    /// CheckpointerError(invalid_argument) for an invalid connection string.
    PostgresNotifications(PostgresOptions options, std::string channel, Receive receive);
    ~PostgresNotifications();
    PostgresNotifications(const PostgresNotifications&) = delete;
    PostgresNotifications& operator=(const PostgresNotifications&) = delete;

    /// Sends a notification soon: those that wait meanwhile are sent together, equal ones once. While 1,000 wait, e.g. because the database
    /// is away, further ones are dropped.
    void notify(std::string payload);
    /// Returns how many notifications wait.
    std::size_t pending() const;

    /// Returns why notifications do not arrive; empty: they do, or that is not known yet.
    std::string problem() const;
    /// Checks whether what another connection notifies arrives here. Returns a payload that the caller has the database send on the channel
    /// now, from a connection of its own (pg_notify); empty: not now. Called in intervals that are longer than a notification takes, such as
    /// one second: when several payloads did not arrive, that is the problem().
    std::string echo();

private:
    struct State;
    const std::unique_ptr<State> state_;
};

}  // namespace cubepi
