#pragma once

#include <cstdint>
#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>

#include <cubepi/checkpoint/server/driver.hpp>
#include <cubepi/core/log.hpp>

namespace cubepi::detail {

/// Where a failure of the server or of the connection occurred.
enum class ServerFailureKind : std::uint8_t {
    connect,  ///< no connection could be established
    dns,      ///< no host name of the connection resolves
    lost,     ///< the connection broke
    timeout,  ///< the time limit of the call expired
    server,   ///< the server rejected a statement
};

/// Failures that a store treats alike on all servers.
enum class ServerCondition : std::uint8_t {
    other,
    lock_timeout,  ///< another transaction has the thread
    conflict,      ///< a deadlock, a lost statement, or another reason to repeat the transaction
    read_only,
    starting,  ///< the server accepts no connections yet, or no longer
};

/// A failure before it is translated for callers. `what()` is the reason as the client library or the server states it.
class ServerFailure : public std::runtime_error {
public:
    ServerFailure(ServerFailureKind kind, const std::string& reason, std::string code = {},
                  ServerCondition condition = ServerCondition::other)
        : std::runtime_error(reason), kind_(kind), code_(std::move(code)), condition_(condition) {}

    ServerFailureKind kind() const noexcept { return kind_; }
    /// The server's error code, empty if unknown.
    const std::string& code() const noexcept { return code_; }
    ServerCondition condition() const noexcept { return condition_; }
    /// Returns true if a transaction whose COMMIT was sent may have been stored.
    bool leaves_commit_unknown() const noexcept;
    /// Returns true if the server is read-only, such as a primary that became a standby.
    bool is_read_only() const noexcept { return condition_ == ServerCondition::read_only; }
    /// Returns true if the server accepts no connections yet, or no longer.
    bool is_starting() const noexcept { return condition_ == ServerCondition::starting; }
    /// The same failure, of a connection that was opened to replace one of the pool.
    ServerFailure as_replacement() const {
        ServerFailure copy = *this;
        copy.is_replacement_ = true;
        return copy;
    }
    /// Returns true if a connection to the server has existed: the server may be restarting.
    bool follows_loss() const noexcept {
        return kind_ == ServerFailureKind::lost || is_replacement_;
    }
    /// Returns true if the transaction was not stored and may succeed when it is repeated.
    bool is_transient() const noexcept;

private:
    ServerFailureKind kind_;
    std::string code_;
    ServerCondition condition_;
    bool is_replacement_ = false;
};

/// Returns the failure, or null if the exception is of another type. Valid as long as the exception.
const ServerFailure* as_server_failure(const std::exception_ptr& exception);

/// Records the failure as "store.busy" or "store.failed", without the server's text. `repeated`: the call is tried again.
void log_failure(const Logger& log, const ServerDriver& driver, const ServerFailure& failure,
                 bool repeated) noexcept;

/// Throws the CheckpointerError for the failure, with the next step. Never contains a password.
[[noreturn]] void throw_checkpointer_error(const ServerDriver& driver, const ServerFailure& failure,
                                           const std::string& thread_id = {});

/// Throws the error of a write whose connection broke at its COMMIT, and whose fate could not be determined.
[[noreturn]] void throw_unknown_fate(const ServerDriver& driver, const std::string& thread_id,
                                     const std::string& reason);

}  // namespace cubepi::detail
