#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

#include <cubepi/core/clock.hpp>
#include <cubepi/core/runtime.hpp>

namespace cubepi {

/// The options that the stores on a database server have in common.
struct SqlOptions {
    /// The connection string; see PostgresOptions and MySQLOptions.
    std::string connection = {};
    /// The largest number of connections. Calls beyond it wait for a connection.
    std::size_t max_connections = 10;
    /// How long to wait for a connection of the pool to become free. Then ErrorCode::timeout.
    std::chrono::milliseconds acquire_timeout{30000};
    /// How long connecting may take, name resolution and TLS included. Then ErrorCode::connect. A server that refuses a
    /// connection is an error at once, unless a connection of the pool was lost or the server answers that it is starting:
    /// then the call connects repeatedly for so long.
    std::chrono::milliseconds connect_timeout{10000};
    /// How long to wait for another transaction on the same thread. Then CheckpointerLockTimeoutError.
    std::chrono::milliseconds lock_timeout{5000};
    /// How long a call may take on its connection. Then ErrorCode::timeout, and the server is told to cancel.
    std::chrono::milliseconds query_timeout{60000};
    /// A connection that was idle for longer is checked before it is used.
    std::chrono::milliseconds check_after{30000};
    /// A connection that was idle for longer is replaced.
    std::chrono::milliseconds idle_limit{300000};
    /// The time after which a claim expires unless it is renewed (D50).
    std::chrono::seconds lease{60};
    /// The clock that leases go by. Null: the server's, so that the clocks of the hosts need not agree.
    std::shared_ptr<Clock> lease_clock = {};
    /// The source of time for the timeouts above, of threads for name resolution and for cancelling. Null: the standard one.
    std::shared_ptr<const Runtime> runtime = {};
};

}  // namespace cubepi
