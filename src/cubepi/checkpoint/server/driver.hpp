#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/checkpoint/format/stored_json.hpp>
#include <cubepi/checkpoint/server/connection.hpp>
#include <cubepi/checkpoint/server_options.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/json.hpp>
#include <cubepi/core/log.hpp>

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
    lock_timeout,  ///< another transaction has the thread
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

/// A fork of a thread after the runs that completed up to a position.
struct SqlFork {
    std::string source = {};
    std::string target = {};
    std::int64_t cutoff = 0;
};

/// SQL about the last write of what a transaction locks ($1), by which its fate is looked up.
struct SqlWriteIds {
    std::string before = {};   ///< an expression: the id of the last write, or NULL
    std::string store = {};    ///< a statement: stores the id $2
    std::string current = {};  ///< a query: the same id; no row if the locked object does not exist
};

/// A kind of database server, with the parameters of a connection to one. Immutable; thread-safe.
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

    /// The first statements of a new connection.
    virtual SqlBatch set_up() const = 0;
    /// Checks their results. Throws CheckpointerError(schema_mismatch).
    virtual void check(const SqlResults& results) const = 0;

    /// Begins a transaction that reads one snapshot.
    virtual void begin_read(SqlBatch& batch) const = 0;
    /// Begins a transaction that waits for the exclusive use of the threads.
    virtual void begin_write(SqlBatch& batch, const std::vector<std::string>& threads) const = 0;
    /// Adds what such a transaction does before COMMIT.
    virtual void end_write(SqlBatch& batch, const std::vector<std::string>& threads) const = 0;

    /// By default of a thread.
    virtual SqlWriteIds write_ids() const;

    /// Merges a change into the column `extra`.
    virtual void write_extra(SqlBatch& batch, const std::string& thread_id,
                             const ExtraChange& change) const = 0;
    /// Inserts the row of a fork, with `added` merged into the extra of its source, which makes `merged`.
    virtual void write_fork_row(SqlBatch& batch, const SqlFork& fork, const JsonObject& added,
                                const JsonObject& merged) const = 0;
    /// Selects a page of the inbox: the rows after $2, $3, $4 at the time $1, at most $5.
    virtual std::string page_sql(const std::string& columns, const std::string& time) const = 0;
    /// Selects all threads: id, number of messages and date of the last one, which is NULL for a thread without messages.
    virtual std::string listing_sql() const = 0;
    /// The tables whose rows the server does not delete with those of their thread.
    virtual std::vector<std::string> dependent_tables() const = 0;
};

/// Returns the failure, or null if the exception is of another type. Valid as long as the exception.
const SqlFailure* as_server_failure(const std::exception_ptr& exception);

/// Records the failure as "store.busy" or "store.failed", without the server's text. `repeated`: the call is tried again.
void log_failure(const Logger& log, const SqlDriver& driver, const SqlFailure& failure,
                 bool repeated) noexcept;

/// Throws the CheckpointerError for the failure, with the next step. Never contains a password.
[[noreturn]] void throw_checkpointer_error(const SqlDriver& driver, const SqlFailure& failure,
                                           const std::string& thread_id = {});

/// Throws the error of a write whose connection broke at its COMMIT, and whose fate could not be determined.
[[noreturn]] void throw_unknown_fate(const SqlDriver& driver, const std::string& thread_id,
                                     const std::string& reason);

/// Reads the result of "SELECT max(version) ...".
std::optional<int> version_of(const SqlResult& result);

/// Throws CheckpointerError(schema_mismatch) if the tables are newer than this library. `where` names the database.
void refuse_newer_tables(const std::string& where, const SqlSchemaStatus& found);

/// Throws CheckpointerError(schema_mismatch) unless the tables are current; `remedy` says how older ones are migrated.
void check_tables(const std::string& where, const SqlSchemaStatus& found,
                  const std::string& remedy);

}  // namespace cubepi::detail
