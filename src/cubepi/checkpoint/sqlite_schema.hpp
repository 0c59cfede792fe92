#pragma once

#include <optional>
#include <string>

#include <cubepi/checkpoint/store_report.hpp>
#include <cubepi/core/format_version.hpp>
#include <cubepi/core/task.hpp>

namespace cubepi {

/// The version of this library's own tables in a file, cubepi_native_*. Those of CubePi have no version.
inline constexpr int sqlite_native_version = 3;

/// The tables of a file.
struct SQLiteSchemaStatus {
    bool has_shared_tables = false;          ///< those that CubePi uses, too
    std::optional<int> native_version = {};  ///< of this library's tables; absent if there are none
    /// The oldest version of this library that may use its tables (D208); absent: that of the tables.
    std::optional<int> native_readable_from = {};

    /// Returns the version of this library's tables; absent if there are none.
    std::optional<FormatVersion> native() const noexcept {
        std::optional<FormatVersion> found;
        if (native_version)
            found = FormatVersion{*native_version, native_readable_from.value_or(*native_version)};
        return found;
    }
    /// Returns true if SQLiteCheckpointer need not change the tables. It migrates older ones when it opens the file.
    bool is_current() const noexcept { return is_usable(native(), sqlite_native_version); }
};

/// Returns the SQL that creates the tables in a new file, in one transaction. SQLiteCheckpointer executes the same.
std::string sqlite_schema_sql();

/// Reads the tables of a file, and changes nothing. Blocks. A file that does not exist has no tables. Throws CheckpointerError
/// like SQLiteCheckpointer.
SQLiteSchemaStatus sqlite_schema_status(const std::string& path);

/// Checks the file and what it holds (D209); reads only, in short transactions, while others use the file. Damage of the file is
/// reported; throws CheckpointerError like SQLiteCheckpointer for a file that cannot be read at all.
Task<StoreReport> check_sqlite(std::string path);

}  // namespace cubepi
