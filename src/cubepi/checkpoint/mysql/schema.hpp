#pragma once

#include <string>
#include <vector>

#include <cubepi/checkpoint/mysql_schema.hpp>
#include <cubepi/checkpoint/server/connection.hpp>

namespace cubepi::detail {

/// Returns the statements that prepare a session; those of a store also read the versions of the tables.
SqlBatch session_set_up(const MySQLOptions& options, bool for_store);
/// Checks the results for a store. Throws CheckpointerError(schema_mismatch).
void check_session(const std::string& where, const SqlResults& results);

/// Returns the statements of mysql_schema_sql().
std::vector<std::string> schema_statements(const MySQLSchemaStatus& from);

/// Throws CheckpointerError(schema_mismatch) if the tables are newer than this library.
void refuse_newer(const std::string& where, const MySQLSchemaStatus& status);

}  // namespace cubepi::detail
