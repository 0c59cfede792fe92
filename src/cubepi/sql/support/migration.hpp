#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <cubepi/core/format_version.hpp>
#include <cubepi/sql/options.hpp>
#include <cubepi/sql/support/driver.hpp>

namespace cubepi::detail {

/// The versions of sets of tables; absent for a set that does not exist. Each set has a table with a column `version`, which
/// lists the versions of programs that may use the tables: the largest value is the version of the tables, the smallest
/// FormatVersion::readable_from (D208). So a migration deletes the rows of programs that it excludes.
using SqlVersions = std::vector<std::optional<FormatVersion>>;

struct SqlMigration {
    /// The name of the lock that one migration holds at a time.
    std::string lock = {};
    /// The table with the version of each set.
    std::vector<std::string> version_tables = {};
    /// Returns the statements that make the tables current. Throws CheckpointerError(schema_mismatch) if they are newer than
    /// this library.
    std::function<std::vector<std::string>(const SqlVersions& found)> statements = {};
};

/// Reads the versions. Throws CheckpointerError.
Task<SqlVersions> read_versions(const SqlOptions& options, std::shared_ptr<const SqlDriver> driver,
                                std::vector<std::string> version_tables);

/// Migrates the tables and returns the versions from before. Several processes may call it at once. Throws CheckpointerError.
Task<SqlVersions> migrate(const SqlOptions& options, std::shared_ptr<const SqlDriver> driver,
                          SqlMigration migration);

/// Selects the version of a set that exists.
void select_version(SqlBatch& batch, const std::string& version_table);
/// Reads the result of select_version().
std::optional<FormatVersion> version_of(const SqlResult& result);

/// Throws CheckpointerError(schema_mismatch) if the tables are newer than this library, and it is too old to use them. `where`
/// names the database, `tables` is like "cubepi_*".
void refuse_newer_tables(const std::string& where, const std::string& tables,
                         std::optional<FormatVersion> found, int known);

}  // namespace cubepi::detail
