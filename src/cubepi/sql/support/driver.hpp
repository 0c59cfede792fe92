#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/core/error.hpp>
#include <cubepi/core/log.hpp>
#include <cubepi/sql/support/connection.hpp>

namespace cubepi::detail {

/// Where a failure of the server or of the connection occurred.
enum class SqlFailureKind : std::uint8_t {
    connect,  ///< no connection could be established
    dns,      ///< no host name of the connection resolves
    lost,     ///< the connection broke
    timeout,  ///< the time limit of the call expired
    server,   ///< the server rejected a statement
};

/// Failures that a store treats alike on all servers.
enum class SqlCondition : std::uint8_t {
    other,
    lock_timeout,  ///< another transaction has the lock
    conflict,      ///< a deadlock, a lost statement, or another reason to repeat the transaction
    read_only,
    starting,  ///< the server accepts no connections yet, or no longer
};

/// A failure before it is translated for callers. `what()` is the reason as the client library or the server states it.
class SqlFailure : public std::runtime_error {
public:
    SqlFailure(SqlFailureKind kind, const std::string& reason, std::string code = {},
               SqlCondition condition = SqlCondition::other)
        : std::runtime_error(reason), kind_(kind), code_(std::move(code)), condition_(condition) {}

    SqlFailureKind kind() const noexcept { return kind_; }
    /// The server's error code, empty if unknown.
    const std::string& code() const noexcept { return code_; }
    SqlCondition condition() const noexcept { return condition_; }
    /// Returns true if a transaction whose COMMIT was sent may have been stored.
    bool leaves_commit_unknown() const noexcept;
    /// Returns true if the server is read-only, such as a primary that became a standby.
    bool is_read_only() const noexcept { return condition_ == SqlCondition::read_only; }
    /// Returns true if the server accepts no connections yet, or no longer.
    bool is_starting() const noexcept { return condition_ == SqlCondition::starting; }
    /// The same failure, of a connection that was opened to replace one of the pool.
    SqlFailure as_replacement() const {
        SqlFailure copy = *this;
        copy.is_replacement_ = true;
        return copy;
    }
    /// Returns true if a connection to the server has existed: the server may be restarting.
    bool follows_loss() const noexcept { return kind_ == SqlFailureKind::lost || is_replacement_; }
    /// Returns true if the transaction was not stored and may succeed when it is repeated.
    bool is_transient() const noexcept;

private:
    SqlFailureKind kind_;
    std::string code_;
    SqlCondition condition_;
    bool is_replacement_ = false;
};

/// The error code and the next step for a failure.
struct SqlRemedy {
    ErrorCode code = ErrorCode::storage;
    std::string_view text = "see the log of the server";
};

/// SQL about the last write of what a transaction locks ($1), by which its fate is looked up.
struct SqlWriteIds {
    std::string before = {};   ///< an expression: the id of the last write, or NULL
    std::string store = {};    ///< a statement: stores the id $2
    std::string replace = {};  ///< a statement: the same if the last one is $3; for SqlPlan::known
    std::string current = {};  ///< a query: the same id; no row if the locked object does not exist
};

/// A kind of database server, with the parameters of a connection to one: how to connect, the words of its SQL (the escapes
/// of SqlQuery) and the meaning of its errors. Immutable; thread-safe.
class SqlDriver {
public:
    virtual ~SqlDriver() = default;

    /// "postgres", for errors and the log.
    virtual const char* name() const noexcept = 0;
    /// "PostgreSQL database 'NAME' on HOST:PORT", for error messages.
    virtual const std::string& description() const noexcept = 0;
    /// Replaces passwords in the text.
    virtual std::string without_secrets(std::string text) const = 0;
    /// The field of the log with the server's error code.
    virtual const char* code_field() const noexcept = 0;
    virtual SqlRemedy remedy(const SqlFailure& failure) const = 0;

    /// Host names that must be resolved before connecting, which would block.
    virtual std::vector<std::string> names_to_resolve() const = 0;
    /// Returns true if there is something to connect to with these addresses.
    virtual bool is_reachable(const SqlAddresses& addresses) const = 0;
    virtual std::unique_ptr<SqlConnection> connection() const = 0;

    /// The first statements of a connection that creates or migrates tables.
    virtual SqlBatch migration_session() const = 0;
    /// The first statements of a connection of a store, which is subject to the time limits of its options.
    virtual SqlBatch store_session() const = 0;

    /// Begins a transaction that reads one snapshot.
    virtual void begin_read(SqlBatch& batch) const = 0;
    /// Begins a transaction that reads and writes.
    virtual void begin_write(SqlBatch& batch) const = 0;

    /// Waits for the only migration of tables; `name` is that of the lock. Begins a transaction if migrates_at_once().
    virtual void begin_migration(SqlBatch& batch, const std::string& name) const = 0;
    /// Returns true if a migration is one transaction, false if each of its statements commits.
    virtual bool migrates_at_once() const noexcept = 0;
};

/// The tables of a store in a database: what its sessions need, what its transactions lock, and how a write is recognized
/// afterwards. The base class requires nothing, for migrations. Immutable; thread-safe.
class SqlSchema {
public:
    virtual ~SqlSchema() = default;

    /// The settings of a connection. If a pooler assigns a session of the server to each transaction, those of each transaction.
    virtual SqlBatch settings(const SqlDriver& driver) const { return driver.migration_session(); }
    /// The first statements of a new connection after its settings.
    virtual SqlBatch session() const { return {}; }
    /// Checks the results of both. `where` names the database. Throws CheckpointerError(schema_mismatch).
    virtual void check(const std::string& where, const SqlResults& results) const;

    /// Waits for the exclusive use of the objects with these names, in a transaction that has begun.
    virtual void lock(SqlBatch& batch, const std::vector<std::string>& names) const;
    /// Adds what such a transaction does before COMMIT.
    virtual void end_write(SqlBatch& batch, const std::vector<std::string>& names) const;
    virtual SqlWriteIds write_ids() const { return {}; }

    /// The next step for a failure; `general` is the driver's.
    virtual SqlRemedy remedy(const SqlFailure& failure, SqlRemedy general) const;
};

/// Replaces a password in a text, unless it is empty.
void hide_secret(std::string& text, const std::string& secret);

/// Returns the failure, or null if the exception is of another type. Valid as long as the exception.
const SqlFailure* as_server_failure(const std::exception_ptr& exception);

/// Records the failure as "store.busy" or "store.failed", without the server's text. `repeated`: the call is tried again.
void log_failure(const Logger& log, const SqlDriver& driver, const SqlFailure& failure,
                 bool repeated) noexcept;

/// Throws the CheckpointerError for the failure, with the next step. Never contains a password.
[[noreturn]] void throw_checkpointer_error(const SqlDriver& driver, const SqlSchema& schema,
                                           const SqlFailure& failure, const std::string& id);

/// Throws the error of a write whose connection broke at its COMMIT, and whose fate could not be determined.
[[noreturn]] void throw_unknown_fate(const SqlDriver& driver, const std::string& id,
                                     const std::string& reason);

}  // namespace cubepi::detail
