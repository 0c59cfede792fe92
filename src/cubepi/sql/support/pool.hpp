#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/sql/options.hpp>
#include <cubepi/sql/support/driver.hpp>

namespace cubepi::detail {

class SqlPool;

/// A connection of the pool, bound to the executor of a call. The destructor returns it, or closes it if it cannot be used
/// again: after a failure, in the middle of a transaction, or when a call was cancelled.
class SqlLease {
public:
    SqlLease(std::shared_ptr<SqlPool> pool, std::unique_ptr<SqlConnection> connection,
             const Executor& executor);
    ~SqlLease();
    SqlLease(const SqlLease&) = delete;
    SqlLease& operator=(const SqlLease&) = delete;

    SqlConnection* operator->() const noexcept { return connection_.get(); }

private:
    std::shared_ptr<SqlPool> pool_;
    std::unique_ptr<SqlConnection> connection_;
    std::optional<SqlUse> use_;
};

/// The connections of a store. Thread-safe.
class SqlPool : public std::enable_shared_from_this<SqlPool> {
public:
    SqlPool(SqlOptions options, std::shared_ptr<const SqlDriver> driver,
            std::shared_ptr<const SqlSchema> schema);
    ~SqlPool();
    SqlPool(const SqlPool&) = delete;
    SqlPool& operator=(const SqlPool&) = delete;

    /// Returns a connection that was open a moment ago, connecting if necessary. Throws SqlFailure, CheckpointerError.
    Task<std::unique_ptr<SqlLease>> acquire();
    /// Adds the settings of a transaction that has begun, if the connection has none of its own.
    void add_settings(SqlBatch& batch, const SqlLease& lease) const;
    /// Closes the idle connections.
    void close_idle();

    const SqlOptions& options() const noexcept { return options_; }
    const SqlDriver& driver() const noexcept { return *driver_; }
    const SqlSchema& schema() const noexcept { return *schema_; }
    Clock& clock() const noexcept { return *options_.runtime->clock; }
    const Logger& log() const noexcept { return options_.runtime->log; }

private:
    friend class SqlLease;
    using Connection = std::unique_ptr<SqlConnection>;

    /// A coroutine that waits for a connection, or for the permission to open one.
    struct Waiter {
        explicit Waiter(Executor where) : executor(std::move(where)) {}
        Executor executor;
        AsyncEvent event;  ///< used on the executor only
        Connection connection = {};
        bool granted = false;  ///< under the mutex
        bool late = false;
    };
    class Slot;

    void refuse_other_process() const;
    /// Returns an idle connection, or nothing and sets `permitted` if one may be opened.
    Connection take_idle(bool& permitted);
    Task<Connection> wait_for_turn();
    Task<Connection> open();
    /// The same, in the place of a connection of the pool that cannot be used any longer.
    Task<Connection> replace();
    Task<Connection> open_checked(SqlAddresses addresses, std::chrono::milliseconds limit);
    Task<SqlAddresses> resolve();
    /// Does the same, but not longer than connecting may take.
    Task<SqlAddresses> resolve_in_time();
    Task<bool> is_alive(SqlConnection& connection);
    void put_back(Connection connection) noexcept;
    void leave(const std::shared_ptr<Waiter>& waiter) noexcept;
    void cancel_on_server(const SqlConnection& connection) noexcept;

    const SqlOptions options_;
    const std::shared_ptr<const SqlDriver> driver_;
    const std::shared_ptr<const SqlSchema> schema_;
    const int process_;

    std::mutex mutex_;
    std::size_t open_ = 0;  ///< connections, those being opened included
    std::vector<Connection> idle_;
    std::deque<std::shared_ptr<Waiter>> waiters_;
};

/// Awaits the task and throws its SqlFailure as the CheckpointerError for callers. `id` names what the call is about.
template <class T>
Task<T> translated(std::shared_ptr<SqlPool> pool, Task<T> task, std::string id = {}) {
    Outcome<T> done = co_await outcome_of(std::move(task));
    if (const SqlFailure* failure = as_server_failure(done.failure()))
        throw_checkpointer_error(pool->driver(), pool->schema(), *failure, id);
    co_return std::move(done).value();
}

}  // namespace cubepi::detail
