#pragma once

#include <optional>
#include <string>

#include <cubepi/checkpoint/server/query.hpp>

namespace cubepi::detail {

/// Versions of tables: the existing ones, or those that are needed.
struct TableVersions {
    std::optional<int> shared = {};  ///< of cubepi_*
    std::optional<int> native = {};  ///< of cubepi_native_*
};

/// Reads the result of "SELECT max(version) ...".
std::optional<int> version_of(const ServerResult& result);

/// Throws CheckpointerError(schema_mismatch) if the tables are newer than this library. `where` names the database.
void refuse_newer_tables(const std::string& where, const TableVersions& found,
                         const TableVersions& known);

/// Throws CheckpointerError(schema_mismatch) for tables that have to be migrated; `remedy` says how.
[[noreturn]] void throw_old_tables(const std::string& where, const TableVersions& found,
                                   const TableVersions& known, const std::string& remedy);

}  // namespace cubepi::detail
