#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/checkpoint/format/stored_json.hpp>
#include <cubepi/checkpoint/server/connection.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/json.hpp>

namespace cubepi::detail {

class ServerFailure;

/// The error code and the next step for a failure.
struct ServerRemedy {
    ErrorCode code = ErrorCode::storage;
    std::string_view text = "see the log of the server";
};

/// A fork of a thread after the runs that completed up to a position.
struct ServerFork {
    std::string source = {};
    std::string target = {};
    std::int64_t cutoff = 0;
};

/// SQL about the last write of what a transaction locks ($1), by which its fate is looked up.
struct ServerWriteIds {
    std::string before = {};   ///< an expression: the id of the last write, or NULL
    std::string store = {};    ///< a statement: stores the id $2
    std::string current = {};  ///< a query: the same id; no row if the locked object does not exist
};

/// A kind of database server, with the parameters of a connection to one. Immutable; thread-safe.
class ServerDriver {
public:
    virtual ~ServerDriver() = default;

    /// "postgres", for errors and the log.
    virtual const char* name() const noexcept = 0;
    /// "PostgreSQL database 'NAME' on HOST:PORT", for error messages.
    virtual const std::string& description() const noexcept = 0;
    /// Replaces passwords in the text.
    virtual std::string without_secrets(std::string text) const = 0;
    /// The field of the log with the server's error code.
    virtual const char* code_field() const noexcept = 0;
    virtual ServerRemedy remedy(const ServerFailure& failure) const = 0;

    /// Host names that must be resolved before connecting, which would block.
    virtual std::vector<std::string> names_to_resolve() const = 0;
    /// Returns true if there is something to connect to with these addresses.
    virtual bool is_reachable(const ServerAddresses& addresses) const = 0;
    virtual std::unique_ptr<ServerConnection> connection() const = 0;

    /// The first statements of a new connection.
    virtual ServerBatch set_up() const = 0;
    /// Checks their results. Throws CheckpointerError(schema_mismatch).
    virtual void check(const ServerResults& results) const = 0;

    /// Begins a transaction that reads one snapshot.
    virtual void begin_read(ServerBatch& batch) const = 0;
    /// Begins a transaction that waits for the exclusive use of the threads.
    virtual void begin_write(ServerBatch& batch, const std::vector<std::string>& threads) const = 0;
    /// Adds what such a transaction does before COMMIT.
    virtual void end_write(ServerBatch& batch, const std::vector<std::string>& threads) const = 0;

    /// By default of a thread.
    virtual ServerWriteIds write_ids() const;

    /// Merges a change into the column `extra`.
    virtual void write_extra(ServerBatch& batch, const std::string& thread_id,
                             const ExtraChange& change) const = 0;
    /// Inserts the row of a fork, with `added` merged into the extra of its source, which makes `merged`.
    virtual void write_fork_row(ServerBatch& batch, const ServerFork& fork, const JsonObject& added,
                                const JsonObject& merged) const = 0;
    /// Selects a page of the inbox: the rows after $2, $3, $4 at the time $1, at most $5.
    virtual std::string page_sql(const std::string& columns, const std::string& time) const = 0;
    /// Selects all threads: id, number of messages and date of the last one, which is NULL for a thread without messages.
    virtual std::string listing_sql() const = 0;
    /// The tables whose rows the server does not delete with those of their thread.
    virtual std::vector<std::string> dependent_tables() const = 0;
};

}  // namespace cubepi::detail
