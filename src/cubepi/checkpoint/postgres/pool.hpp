#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <cubepi/checkpoint/postgres/connection.hpp>
#include <cubepi/checkpoint/postgres/connection_string.hpp>
#include <cubepi/checkpoint/postgres_options.hpp>
#include <cubepi/core/event_signal.hpp>

namespace cubepi::detail {

class PgPool;

/// A connection of the pool, bound to the executor of a call. The destructor returns it, or closes it if it cannot be used
/// again: after a failure, in the middle of a transaction, or when a call was cancelled.
class PgLease {
public:
    PgLease(std::shared_ptr<PgPool> pool, std::unique_ptr<PgConnection> connection,
            const Executor& executor);
    ~PgLease();
    PgLease(const PgLease&) = delete;
    PgLease& operator=(const PgLease&) = delete;

    PgConnection* operator->() const noexcept { return connection_.get(); }

private:
    std::shared_ptr<PgPool> pool_;
    std::unique_ptr<PgConnection> connection_;
    std::optional<PgUse> use_;
};

/// The connections of a store. Thread-safe.
class PgPool : public std::enable_shared_from_this<PgPool> {
public:
    /// `set_up` is sent on each new connection; `check` receives its results and throws if the server cannot be used.
    using Check = void (*)(const PgParameters& parameters, const PgResults& results);
    PgPool(PostgresOptions options, PgBatch set_up, Check check);
    ~PgPool();
    PgPool(const PgPool&) = delete;
    PgPool& operator=(const PgPool&) = delete;

    /// Returns a connection that was open a moment ago, connecting if necessary. Throws PgFailure, CheckpointerError.
    Task<std::unique_ptr<PgLease>> acquire();
    /// Closes the idle connections.
    void close_idle();

    const PostgresOptions& options() const noexcept { return options_; }
    const PgParameters& parameters() const noexcept { return parameters_; }
    Clock& clock() const noexcept { return *options_.runtime->clock; }
    const Logger& log() const noexcept { return options_.runtime->log; }

private:
    friend class PgLease;
    using Connection = std::unique_ptr<PgConnection>;

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
    Task<Connection> open_checked(std::map<std::string, std::string> parameters);
    Task<std::map<std::string, std::string>> resolve();
    Task<bool> is_alive(PgConnection& connection);
    void put_back(Connection connection) noexcept;
    void leave(const std::shared_ptr<Waiter>& waiter) noexcept;
    void cancel_on_server(const PgConnection& connection) noexcept;

    const PostgresOptions options_;
    const PgParameters parameters_;
    const PgBatch set_up_;
    const Check check_;
    const int process_;

    std::mutex mutex_;
    std::size_t open_ = 0;  ///< connections, those being opened included
    std::vector<Connection> idle_;
    std::deque<std::shared_ptr<Waiter>> waiters_;
};

}  // namespace cubepi::detail
