#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include <cubepi/checkpoint/store_report.hpp>
#include <cubepi/core/task.hpp>
#include <cubepi/sql/postgres_options.hpp>
#include <cubepi/sql/postgres_tables.hpp>

namespace bub {

/// Returns the tables of deliveries, bub_delivery_*.
const cubepi::PostgresTables& postgres_delivery_tables();

/// The facts that matter before the division of sessions among databases is changed (DatabaseMap).
struct DivisionState {
    std::string record = {};     ///< DatabaseMap::record() of this database; empty: none
    std::size_t gateways = 0;    ///< that are alive
    std::size_t unfinished = 0;  ///< messages and answers
    std::size_t schedules = 0;   ///< that its gateways have, if it is the first
};

/// Reads the state of a database with the tables. Throws CheckpointerError like PostgresDeliveryLog.
cubepi::Task<DivisionState> read_division(cubepi::PostgresOptions options);
/// Records the division in a database; empty: it has none. Programs of earlier versions, which do not compare it, cannot use the database
/// from then on. A gateway that begins at the same time either sees the record or is seen by the next read_division(). Throws CheckpointerError like PostgresDeliveryLog.
cubepi::Task<> record_division(cubepi::PostgresOptions options, std::string record);

/// Checks the records of all accounts in the tables (D209); reads only, in short transactions, while gateways use them. Throws
/// CheckpointerError like PostgresDeliveryLog.
cubepi::Task<cubepi::StoreReport> check_postgres_deliveries(cubepi::PostgresOptions options);

}  // namespace bub
