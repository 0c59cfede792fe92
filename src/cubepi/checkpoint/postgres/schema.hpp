#pragma once

#include <string>
#include <vector>

#include <cubepi/checkpoint/postgres/connection_string.hpp>
#include <cubepi/checkpoint/postgres_schema.hpp>
#include <cubepi/checkpoint/server/connection.hpp>

namespace cubepi::detail {

/// Returns the statements that prepare a session of a store and read the versions of the tables.
SqlBatch session_set_up(const PostgresOptions& options);
/// Checks their results. Throws CheckpointerError(schema_mismatch).
void check_session(const PgParameters& parameters, const SqlResults& results);

/// Returns the statements of postgres_schema_sql(), without the transaction.
std::vector<std::string> schema_statements(const PostgresSchemaStatus& from);

/// Throws CheckpointerError(schema_mismatch) if the tables are newer than this library.
void refuse_newer(const std::string& where, const PostgresSchemaStatus& status);

}  // namespace cubepi::detail
