#pragma once

#include <string>

#include <cubepi/checkpoint/server_checkpointer.hpp>
#include <cubepi/sql/mysql_options.hpp>

namespace cubepi {

/// Threads in a MariaDB or MySQL database, in the tables of Python CubePi 0.13 to CubeLoop 0.15 (version 5) and in tables of
/// this library (cubepi_native_*): both can use one database at the same time (D21, D71). The tables must exist:
/// cubepi/checkpoint/mysql_schema.hpp creates and migrates them.
///
/// The constructor does no I/O; it throws CheckpointerError(invalid_argument) if the connection string cannot be parsed.
/// Calls may come from any thread and several executors; each uses a connection of the pool, on the executor of its caller,
/// and never blocks it. Name resolution runs in Runtime::resolvers. Ids have at most 255 characters.
///
/// A write that is cancelled before its COMMIT was sent stores nothing; after that, the call waits for the result. If the
/// connection breaks, or the server reports a deadlock, a read or a write that was not committed is repeated. A write whose
/// COMMIT may or may not have arrived is looked up. An executor must outlive the calls made on it. A store cannot be used
/// after fork().
///
/// Throws, from every call, the errors that PostgresCheckpointer throws.
class MySQLCheckpointer final : public SqlCheckpointer {
public:
    /// `connection` is MySQLOptions::connection.
    explicit MySQLCheckpointer(std::string connection);
    explicit MySQLCheckpointer(MySQLOptions options);
};

}  // namespace cubepi
