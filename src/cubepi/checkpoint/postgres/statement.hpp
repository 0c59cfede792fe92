#pragma once

#include <string>
#include <string_view>

#include <libpq-fe.h>

#include <cubepi/checkpoint/server/query.hpp>

namespace cubepi::detail {

/// Queues the statement on a connection in pipeline mode. Texts are sent with their length, so that U+0000 is rejected by the
/// server instead of cutting the text. Returns false if libpq refuses the statement.
bool send_query(PGconn* connection, const ServerQuery& query);

/// Takes the result.
ServerResult pg_result(PGresult* result);

/// Returns the SQL with its escapes expanded for PostgreSQL.
std::string pg_sql(std::string_view sql);

}  // namespace cubepi::detail
