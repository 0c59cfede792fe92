#pragma once

#include <optional>
#include <string>

#include <cubepi/checkpoint/store_report.hpp>
#include <cubepi/core/task.hpp>
#include <cubepi/sql/postgres_options.hpp>
#include <cubepi/sql/postgres_tables.hpp>

namespace bub {

/// Returns the tables of tapes, bub_*.
const cubepi::PostgresTables& postgres_tape_tables();

/// Checks the tables and what they hold (D209); reads only, in short transactions, while others use the database. Throws
/// CheckpointerError like PostgresTapeStore.
cubepi::Task<cubepi::StoreReport> check_postgres_tapes(cubepi::PostgresOptions options);

}  // namespace bub
