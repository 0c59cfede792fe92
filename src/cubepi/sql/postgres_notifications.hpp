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

    /// Connects in the background, and again after a failure, which is logged once until it works again. `channel` and payloads: letters, digits and '_'. Throws
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

private:
    struct State;
    const std::unique_ptr<State> state_;
};

}  // namespace cubepi
