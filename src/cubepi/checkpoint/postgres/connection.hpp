#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <libpq-fe.h>

#include <cubepi/checkpoint/postgres/query.hpp>
#include <cubepi/core/clock.hpp>
#include <cubepi/core/task.hpp>

namespace cubepi::detail {

/// A connection in pipeline mode. Between calls it belongs to no executor; PgUse binds it to that of a call.
///
/// libpq's socket is in an epoll set that the reactor watches: libpq may replace the socket while it connects, and readiness
/// for reading and for writing is one wait.
class PgConnection {
public:
    PgConnection();
    ~PgConnection();
    PgConnection(const PgConnection&) = delete;
    PgConnection& operator=(const PgConnection&) = delete;

    /// Connects. Host names must have been replaced by addresses. Throws PgFailure.
    Task<> connect(std::map<std::string, std::string> parameters);

    /// Sends all statements at once and waits for their results. If one fails, the server skips those after it, and PgFailure
    /// is thrown for it; a transaction must then be rolled back.
    Task<PgResults> exchange(PgBatch batch);
    /// Does the same, but ignores cancellation: for a COMMIT.
    Task<PgResults> exchange_to_the_end(PgBatch batch);

    /// Returns true if the connection can be used for another transaction.
    bool is_idle() const noexcept;
    /// Returns false if the server has closed an idle connection. Does not block.
    bool is_open() noexcept;
    /// Returns an object that cancels what the server executes; PQcancel() on it blocks.
    std::shared_ptr<PGcancel> canceller() const;
    /// Abandons the connection in a process that does not own it: closes no session of the parent.
    void forget() noexcept { connection_ = nullptr; }

    /// When the connection was last used.
    Clock::time_point used_at = {};

private:
    friend class PgUse;
    void attach(const Executor& executor, Clock& clock, Clock::time_point deadline,
                std::chrono::milliseconds limit);
    void detach() noexcept;

    Task<PgResults> run(PgBatch batch, bool cancellable);
    void send(const PgBatch& batch);
    Task<> wait(bool for_write, bool cancellable);
    Task<> wait_for_result(bool cancellable);
    void watch(bool for_write);
    [[noreturn]] void fail_lost();
    [[noreturn]] void fail_connecting();
    [[noreturn]] void fail_late() const;

    PGconn* connection_ = nullptr;
    int set_ = -1;      ///< the epoll set
    int watched_ = -1;  ///< libpq's socket
    bool connecting_ = true;
    bool in_exchange_ = false;
    std::optional<boost::asio::posix::stream_descriptor> descriptor_;
    std::unique_ptr<ClockTimer> timer_;
    std::chrono::milliseconds limit_{0};
    bool late_ = false;
};

/// Binds a connection to the executor and the deadline of a call.
class PgUse {
public:
    PgUse(PgConnection& connection, const Executor& executor, Clock& clock,
          std::chrono::milliseconds limit)
        : connection_(connection) {
        connection_.attach(executor, clock, deadline_after(clock.now(), limit), limit);
    }
    ~PgUse() { connection_.detach(); }
    PgUse(const PgUse&) = delete;
    PgUse& operator=(const PgUse&) = delete;

private:
    PgConnection& connection_;
};

}  // namespace cubepi::detail
