#pragma once

#include <cubepi/sql/options.hpp>

namespace cubepi {

/// `connection` is a URI (postgres://user@host/database?sslmode=verify-full) or `key=value` pairs, with the parameters of
/// libpq. For those that are missing the PG* environment variables and libpq's defaults apply. Several hosts are tried in
/// order; add target_session_attrs=read-write to find the primary after a failover.
struct PostgresOptions : SqlOptions {
    /// Whether each connection prepares the statements that it executes repeatedly. A connection through a pooler, such as
    /// PgBouncer, prepares none, and one that loses them stops doing so, after calls that are repeated.
    bool prepare_statements = true;
};

/// Returns "PostgreSQL database 'NAME' on HOST:PORT" for messages, without a password. Throws
/// CheckpointerError(invalid_argument) for an invalid connection string.
std::string postgres_description(const PostgresOptions& options);

}  // namespace cubepi
