#pragma once

#include <memory>
#include <string>
#include <vector>

#include <cubepi/sql/postgres_options.hpp>
#include <cubepi/sql/support/driver.hpp>

namespace cubepi::detail {

/// Throws CheckpointerError(invalid_argument) for an invalid connection string.
std::shared_ptr<const SqlDriver> postgres_driver(const PostgresOptions& options);

/// Takes the advisory locks of the names until the end of the transaction, in the order of their keys, which have 32 bits.
void take_advisory_locks(SqlBatch& batch, const std::vector<std::string>& names);

}  // namespace cubepi::detail
