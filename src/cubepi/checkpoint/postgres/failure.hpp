#pragma once

#include <cstdint>
#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>

#include <cubepi/checkpoint/postgres/connection_string.hpp>
#include <cubepi/core/log.hpp>

namespace cubepi::detail {

/// Where a failure of the server or of the connection occurred.
enum class PgFailureKind : std::uint8_t {
    connect,  ///< no connection could be established
    dns,      ///< no host name of the connection resolves
    lost,     ///< the connection broke
    timeout,  ///< the time limit of the call expired
    server,   ///< the server rejected a statement
};

/// A failure before it is translated for callers. `what()` is the reason as libpq or the server states it.
class PgFailure : public std::runtime_error {
public:
    PgFailure(PgFailureKind kind, const std::string& reason, std::string sqlstate = {},
              std::string constraint = {})
        : std::runtime_error(reason),
          kind_(kind),
          sqlstate_(std::move(sqlstate)),
          constraint_(std::move(constraint)) {}

    PgFailureKind kind() const noexcept { return kind_; }
    /// The five characters of the server's error code, empty if unknown.
    const std::string& sqlstate() const noexcept { return sqlstate_; }
    const std::string& constraint() const noexcept { return constraint_; }
    /// Returns true if a transaction whose COMMIT was sent may have been stored.
    bool leaves_commit_unknown() const noexcept;
    /// Returns true if the server is read-only, such as a primary that became a standby.
    bool is_read_only() const noexcept { return sqlstate_ == "25006"; }
    /// Returns true if the server accepts no connections yet, or no longer.
    bool is_starting() const noexcept { return sqlstate_ == "57P03"; }
    /// Returns true if the transaction was not stored and may succeed when it is repeated.
    bool is_transient() const noexcept;

private:
    PgFailureKind kind_;
    std::string sqlstate_;
    std::string constraint_;
};

/// Returns the failure, or null if the exception is of another type. Valid as long as the exception.
const PgFailure* as_pg_failure(const std::exception_ptr& exception);

/// Records the failure as "store.busy" or "store.failed", without the server's text. `repeated`: the call is tried again.
void log_failure(const Logger& log, const PgFailure& failure, bool repeated) noexcept;

/// Throws the CheckpointerError for the failure, with the next step. Never contains a password.
[[noreturn]] void throw_checkpointer_error(const PgParameters& parameters, const PgFailure& failure,
                                           const std::string& thread_id = {});

/// Throws the error of a write whose connection broke at its COMMIT, and whose fate could not be determined.
[[noreturn]] void throw_unknown_fate(const PgParameters& parameters, const std::string& thread_id,
                                     const std::string& reason);

}  // namespace cubepi::detail
