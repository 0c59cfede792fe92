#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <boost/asio/posix/stream_descriptor.hpp>

#include <cubepi/checkpoint/server/query.hpp>
#include <cubepi/core/clock.hpp>
#include <cubepi/core/task.hpp>

namespace cubepi::detail {

/// The addresses of the host names of a connection.
using ServerAddresses = std::map<std::string, std::vector<std::string>>;

/// A connection to a server. Between calls it belongs to no executor; ServerUse binds it to that of a call.
///
/// The reactor watches an epoll set with the socket of the client library: the library may replace the socket while it
/// connects, and readiness for reading and for writing is one wait. While only a result is awaited, the reactor watches the
/// socket itself, which takes fewer calls of the system; to be exact, a duplicate, which the library cannot close.
class ServerConnection {
public:
    ServerConnection();
    virtual ~ServerConnection();
    ServerConnection(const ServerConnection&) = delete;
    ServerConnection& operator=(const ServerConnection&) = delete;

    /// Connects. Throws ServerFailure.
    virtual Task<> connect(ServerAddresses addresses) = 0;

    /// Sends the statements and waits for their results. If one fails, the server skips those after it, and ServerFailure is
    /// thrown for it; a transaction must then be rolled back.
    Task<ServerResults> exchange(ServerBatch batch) { return run(std::move(batch), true); }
    /// Does the same, but ignores cancellation: for a COMMIT.
    Task<ServerResults> exchange_to_the_end(ServerBatch batch);

    /// Returns true if the connection can be used for another transaction.
    virtual bool is_idle() const noexcept = 0;
    /// Returns false if the server has closed an idle connection. Does not block.
    virtual bool is_open() noexcept = 0;
    /// Returns a function that cancels what the server executes; it blocks. Empty if there is nothing to cancel.
    virtual std::function<void()> canceller() const = 0;
    /// Abandons the connection in a process that does not own it: closes no session of the parent.
    virtual void forget() noexcept = 0;

    /// When the connection was last used.
    Clock::time_point used_at = {};

protected:
    virtual Task<ServerResults> run(ServerBatch batch, bool cancellable) = 0;
    /// Waits until the socket can be read, or written too if `for_write`. Throws ServerFailure after the time limit.
    Task<> wait(int socket, bool for_write, bool cancellable);
    bool is_late() const noexcept { return late_; }

    bool connecting_ = true;

private:
    friend class ServerUse;
    void attach(const Executor& executor, Clock& clock, Clock::time_point deadline,
                std::chrono::milliseconds limit);
    void detach() noexcept;
    using Descriptor = boost::asio::posix::stream_descriptor;
    void watch(int socket, bool for_write);
    /// Returns the descriptor to wait for.
    Descriptor& watched(int socket, bool for_write);
    void cancel_wait() noexcept;
    [[noreturn]] void fail_late() const;

    int set_ = -1;        ///< the epoll set
    int socket_ = -1;     ///< of the library
    int duplicate_ = -1;  ///< of socket_
    Executor executor_;
    // They do not own what they refer to.
    std::optional<Descriptor> set_descriptor_;
    std::optional<Descriptor> socket_descriptor_;  ///< of the duplicate
    std::unique_ptr<ClockTimer> timer_;
    std::chrono::milliseconds limit_{0};
    bool late_ = false;
};

/// Binds a connection to the executor and the deadline of a call.
class ServerUse {
public:
    ServerUse(ServerConnection& connection, const Executor& executor, Clock& clock,
              std::chrono::milliseconds limit)
        : connection_(connection) {
        connection_.attach(executor, clock, deadline_after(clock.now(), limit), limit);
    }
    ~ServerUse() { connection_.detach(); }
    ServerUse(const ServerUse&) = delete;
    ServerUse& operator=(const ServerUse&) = delete;

private:
    ServerConnection& connection_;
};

}  // namespace cubepi::detail
