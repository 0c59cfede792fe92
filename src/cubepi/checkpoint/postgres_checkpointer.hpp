#pragma once

#include <string>

#include <cubepi/checkpoint/server_checkpointer.hpp>
#include <cubepi/sql/postgres_options.hpp>

namespace cubepi {

/// Threads in a PostgreSQL database, in the tables of Python CubePi 0.13 to CubeLoop 0.15 (version 5) and in tables of this
/// library (cubepi_native_*): both can use one database at the same time (D21, D71). The tables must exist:
/// cubepi/checkpoint/postgres_schema.hpp creates and migrates them.
///
/// The constructor does no I/O; it throws CheckpointerError(invalid_argument) if the connection string cannot be parsed.
/// Calls may come from any thread and several executors; each uses a connection of the pool, on the executor of its caller,
/// and never blocks it. Name resolution runs in Runtime::resolvers.
///
/// A write that is cancelled before its COMMIT was sent stores nothing; after that, the call waits for the result. If the
/// connection breaks, a read or a write that was not committed is repeated on another connection. A write whose COMMIT may or
/// may not have arrived is looked up. An executor must outlive the calls made on it. A store cannot be used after fork().
///
/// Throws, from every call, CheckpointerLockTimeoutError, CheckpointCorruptionError (with the row), or CheckpointerError with
/// ErrorCode::dns, connect, tls, auth, not_found (the database), disconnected, timeout (also when the pool is exhausted),
/// unavailable, permission_denied (also for a read-only server), schema_mismatch, storage_locked, storage_full or storage.
/// After `disconnected` with "unknown" in its text, load the thread to learn whether the write was stored.
class PostgresCheckpointer final : public SqlCheckpointer {
public:
    /// `connection` is PostgresOptions::connection.
    explicit PostgresCheckpointer(std::string connection);
    explicit PostgresCheckpointer(PostgresOptions options);
};

}  // namespace cubepi
