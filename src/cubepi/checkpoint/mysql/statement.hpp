#pragma once

#include <string>

#include <mysql.h>

#include <cubepi/checkpoint/server/query.hpp>

namespace cubepi::detail {

/// Returns the SQL with its parameters as literals, quoted for a session whose sql_mode is the one of session_set_up().
std::string my_sql(MYSQL* connection, const ServerQuery& query);

/// Takes the rows of a result; null for a statement without rows.
ServerResult my_result(MYSQL_RES* result);

}  // namespace cubepi::detail
