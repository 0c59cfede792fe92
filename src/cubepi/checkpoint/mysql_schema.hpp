#pragma once

#include <string>

#include <cubepi/checkpoint/server_schema.hpp>
#include <cubepi/checkpoint/store_report.hpp>
#include <cubepi/core/task.hpp>
#include <cubepi/sql/mysql_options.hpp>

namespace cubepi {

/// Returns the SQL that creates the tables or migrates them from `from`, for an operator who runs it with mysql or mariadb.
/// Each statement can be repeated: MySQL commits after each one, and the versions are written last. Empty if the tables are
/// current. Throws CheckpointerError(schema_mismatch) if `from` is newer than this library.
std::string mysql_schema_sql(SqlSchemaStatus from = {});

/// Reads the versions. Throws CheckpointerError like MySQLCheckpointer.
Task<SqlSchemaStatus> mysql_schema_status(MySQLOptions options);

/// Executes mysql_schema_sql() for the tables of the database, and returns the status from before. Several processes may call
/// it at once; if it is interrupted, call it again. The user needs the rights CREATE, ALTER, INDEX, DROP and
/// TRIGGER. CubePi's rows do not change; the columns run_id and question_id of its tables compare bytes from then on.
Task<SqlSchemaStatus> apply_mysql_schema(MySQLOptions options);

/// Checks the tables and what they hold (D209); reads only, in short transactions, while others use the database. Throws
/// CheckpointerError like MySQLCheckpointer.
Task<StoreReport> check_mysql(MySQLOptions options);

}  // namespace cubepi
