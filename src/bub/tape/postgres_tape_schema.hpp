#pragma once

#include <optional>
#include <string>

#include <cubepi/checkpoint/store_report.hpp>
#include <cubepi/core/format_version.hpp>
#include <cubepi/core/task.hpp>
#include <cubepi/sql/postgres_options.hpp>

namespace bub {

/// The version of the tables of tapes, bub_*.
inline constexpr int postgres_tape_version = 3;

/// Returns the SQL that creates the tables, in one transaction, for an operator who runs it with psql.
std::string postgres_tape_sql();

/// Reads the version of the tables; absent if there are none. Throws CheckpointerError like PostgresTapeStore.
cubepi::Task<std::optional<cubepi::FormatVersion>> postgres_tape_status(
    cubepi::PostgresOptions options);

/// Creates the tables, or migrates those of an older version, and returns the version from before. Several processes may call it
/// at once. The user needs the right to create tables. Throws CheckpointerError(schema_mismatch) for tables of a newer version
/// that this library must not use.
cubepi::Task<std::optional<cubepi::FormatVersion>> apply_postgres_tape_schema(
    cubepi::PostgresOptions options);

/// Checks the tables and what they hold (D209); reads only, in short transactions, while others use the database. Throws
/// CheckpointerError like PostgresTapeStore.
cubepi::Task<cubepi::StoreReport> check_postgres_tapes(cubepi::PostgresOptions options);

}  // namespace bub
