#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <libpq-fe.h>

#include <cubepi/checkpoint/postgres/statements.hpp>
#include <cubepi/checkpoint/server/query.hpp>

namespace cubepi::detail {

/// Queues a query without parameters on a connection in pipeline mode. Returns false if libpq refuses it.
bool send_plain(PGconn* connection, const std::string& sql);
/// Queues a query; by name if its statement is prepared. Texts are sent with their length, so that U+0000 is rejected by the
/// server instead of cutting the text.
bool send_query(PGconn* connection, const PgStatement& statement, const ServerQuery& query);
/// Queues the preparation of a statement.
bool send_prepare(PGconn* connection, const PgStatement& statement);

/// Returns the types of the parameters.
std::vector<Oid> types_of(const ServerQuery& query);

/// Takes the result.
ServerResult pg_result(PGresult* result);

/// Returns the SQL with its escapes expanded for PostgreSQL.
std::string pg_sql(std::string_view sql);

}  // namespace cubepi::detail
