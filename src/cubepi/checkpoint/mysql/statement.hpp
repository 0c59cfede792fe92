#pragma once

#include <memory>
#include <string>

#include <mysql.h>

#include <cubepi/checkpoint/server/query.hpp>

namespace cubepi::detail {

/// Returns the SQL with its parameters as literals, quoted for a session whose sql_mode is the one of session_set_up().
std::string my_sql(MYSQL* connection, const ServerQuery& query);

/// Frees a result without waiting for rows that were not fetched: the connection must be closed then.
struct MyResultFree {
    void operator()(MYSQL_RES* result) const noexcept;
};
using MyResultPtr = std::unique_ptr<MYSQL_RES, MyResultFree>;

/// Takes the rows of a result; null for a statement without rows.
ServerResult my_result(MYSQL_RES* result);

/// Returns the row that was fetched last, as a result of one row. Refers to both arguments.
ServerResult my_current_row(MYSQL_RES& result, const MYSQL_ROW& row);

}  // namespace cubepi::detail
