#pragma once

#include <string>

#include <cubepi/checkpoint/server_schema.hpp>
#include <cubepi/checkpoint/store_report.hpp>
#include <cubepi/core/task.hpp>
#include <cubepi/sql/postgres_options.hpp>

namespace cubepi {

/// Returns the SQL that creates the tables or migrates them from `from`, in one transaction, for an operator who runs it with
/// psql. Empty if they are current. Throws CheckpointerError(schema_mismatch) if `from` is newer than this library.
std::string postgres_schema_sql(SqlSchemaStatus from = {});

/// Reads the versions. Throws CheckpointerError like PostgresCheckpointer.
Task<SqlSchemaStatus> postgres_schema_status(PostgresOptions options);

/// Executes postgres_schema_sql() for the tables of the database, and returns the status from before. Several processes may
/// call it at once. The user needs the right to create tables. CubePi's rows do not change.
Task<SqlSchemaStatus> apply_postgres_schema(PostgresOptions options);

/// Checks the tables and what they hold (D209); reads only, in short transactions, while others use the database. Throws
/// CheckpointerError like PostgresCheckpointer.
Task<StoreReport> check_postgres(PostgresOptions options);

}  // namespace cubepi
