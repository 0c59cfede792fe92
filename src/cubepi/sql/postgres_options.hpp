#pragma once

#include <cubepi/sql/options.hpp>

namespace cubepi {

/// `connection` is a URI (postgres://user@host/database?sslmode=verify-full) or `key=value` pairs, with the parameters of
/// libpq. For those that are missing the PG* environment variables and libpq's defaults apply. Several hosts are tried in
/// order; add target_session_attrs=read-write to find the primary after a failover.
struct PostgresOptions : SqlOptions {
    /// Whether each connection prepares the statements that it executes repeatedly. A connection that loses them stops
    /// doing so by itself, after calls that are repeated; set this to false for a pooler that assigns another session to each
    /// transaction, such as PgBouncer in transaction mode, to avoid these repetitions.
    bool prepare_statements = true;
};

/// Returns "PostgreSQL database 'NAME' on HOST:PORT" for messages, without a password. Throws
/// CheckpointerError(invalid_argument) for an invalid connection string.
std::string postgres_description(const PostgresOptions& options);

}  // namespace cubepi
