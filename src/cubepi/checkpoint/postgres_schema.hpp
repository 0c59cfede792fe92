#pragma once

#include <optional>
#include <string>

#include <cubepi/checkpoint/postgres_options.hpp>
#include <cubepi/core/task.hpp>

namespace cubepi {

/// The version of the tables that CubePi and CubeLoop share with this library.
inline constexpr int postgres_schema_version = 5;
/// The version of this library's own tables, cubepi_native_*.
inline constexpr int postgres_native_version = 1;

/// The tables of a database.
struct PostgresSchemaStatus {
    std::optional<int> version = {};         ///< of CubePi's tables; absent if there are none
    std::optional<int> native_version = {};  ///< of this library's tables; absent if there are none

    /// Returns true if PostgresCheckpointer can use the tables.
    bool is_current() const noexcept {
        return version == postgres_schema_version && native_version == postgres_native_version;
    }
};

/// Returns the SQL that creates the tables or migrates them from `from`, in one transaction, for an operator who runs it with
/// psql. Empty if they are current. Throws CheckpointerError(schema_mismatch) if `from` is newer than this library.
std::string postgres_schema_sql(PostgresSchemaStatus from = {});

/// Reads the versions. Throws CheckpointerError like PostgresCheckpointer.
Task<PostgresSchemaStatus> postgres_schema_status(PostgresOptions options);

/// Executes postgres_schema_sql() for the tables of the database, and returns the status from before. Several processes may
/// call it at once. The user needs the right to create tables. CubePi's rows do not change.
Task<PostgresSchemaStatus> apply_postgres_schema(PostgresOptions options);

}  // namespace cubepi
