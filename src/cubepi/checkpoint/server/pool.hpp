#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <cubepi/checkpoint/server/driver.hpp>
#include <cubepi/checkpoint/server_options.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/outcome.hpp>

namespace cubepi::detail {

class ServerPool;

/// A connection of the pool, bound to the executor of a call. The destructor returns it, or closes it if it cannot be used
/// again: after a failure, in the middle of a transaction, or when a call was cancelled.
class ServerLease {
public:
    ServerLease(std::shared_ptr<ServerPool> pool, std::unique_ptr<ServerConnection> connection,
                const Executor& executor);
    ~ServerLease();
    ServerLease(const ServerLease&) = delete;
    ServerLease& operator=(const ServerLease&) = delete;

    ServerConnection* operator->() const noexcept { return connection_.get(); }

private:
    std::shared_ptr<ServerPool> pool_;
    std::unique_ptr<ServerConnection> connection_;
    std::optional<ServerUse> use_;
};

/// The connections of a store. Thread-safe.
class ServerPool : public std::enable_shared_from_this<ServerPool> {
public:
    ServerPool(ServerOptions options, std::shared_ptr<const ServerDriver> driver);
    ~ServerPool();
    ServerPool(const ServerPool&) = delete;
    ServerPool& operator=(const ServerPool&) = delete;

    /// Returns a connection that was open a moment ago, connecting if necessary. Throws ServerFailure, CheckpointerError.
    Task<std::unique_ptr<ServerLease>> acquire();
    /// Closes the idle connections.
    void close_idle();

    const ServerOptions& options() const noexcept { return options_; }
    const ServerDriver& driver() const noexcept { return *driver_; }
    Clock& clock() const noexcept { return *options_.runtime->clock; }
    const Logger& log() const noexcept { return options_.runtime->log; }

private:
    friend class ServerLease;
    using Connection = std::unique_ptr<ServerConnection>;

    /// A coroutine that waits for a connection, or for the permission to open one.
    struct Waiter {
        explicit Waiter(Executor where) : executor(std::move(where)) {}
        Executor executor;
        AsyncEvent event;  ///< used on the executor only
        Connection connection = {};
        bool granted = false;  ///< under the mutex
        bool late = false;
    };
    class Place;

    void refuse_other_process() const;
    /// Returns an idle connection, or nothing and sets `permitted` if one may be opened.
    Connection take_idle(bool& permitted);
    Task<Connection> wait_for_turn();
    Task<Connection> open();
    /// The same, in the place of a connection of the pool that cannot be used any longer.
    Task<Connection> replace();
    Task<Connection> open_checked(ServerAddresses addresses, std::chrono::milliseconds limit);
    Task<ServerAddresses> resolve();
    /// Does the same, but not longer than connecting may take.
    Task<ServerAddresses> resolve_in_time();
    Task<bool> is_alive(ServerConnection& connection);
    void put_back(Connection connection) noexcept;
    void leave(const std::shared_ptr<Waiter>& waiter) noexcept;
    void cancel_on_server(const ServerConnection& connection) noexcept;

    const ServerOptions options_;
    const std::shared_ptr<const ServerDriver> driver_;
    const int process_;

    std::mutex mutex_;
    std::size_t open_ = 0;  ///< connections, those being opened included
    std::vector<Connection> idle_;
    std::deque<std::shared_ptr<Waiter>> waiters_;
};

/// Awaits the task and throws its ServerFailure as the CheckpointerError for callers.
template <class T>
Task<T> translated(std::shared_ptr<ServerPool> pool, Task<T> task) {
    Outcome<T> done = co_await outcome_of(std::move(task));
    if (const ServerFailure* failure = as_server_failure(done.failure()))
        throw_checkpointer_error(pool->driver(), *failure);
    co_return std::move(done).value();
}

}  // namespace cubepi::detail
