#pragma once

#include <memory>

#include <cubepi/sql/mysql_options.hpp>
#include <cubepi/sql/support/driver.hpp>

namespace cubepi::detail {

/// Throws CheckpointerError(invalid_argument) for an invalid connection string.
std::shared_ptr<const SqlDriver> mysql_driver(const MySQLOptions& options);

}  // namespace cubepi::detail
