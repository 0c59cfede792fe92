#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace conformance {

/// Copies a database, with its write-ahead log if there is one, and returns the name of the copy.
std::filesystem::path copy_database(const std::filesystem::path& original,
                                    const std::filesystem::path& directory);

/// Returns the columns and rows of each table as text. Reads the database without the product.
struct TableRows {
    std::string table;
    std::vector<std::string> columns;
    std::vector<std::string> rows;
};

std::vector<TableRows> read_tables(const std::filesystem::path& database);

/// Returns the rows of `before` that the database no longer contains or that have changed. Ignores added tables, columns and rows.
std::vector<std::string> changed_rows(const std::filesystem::path& database,
                                      const std::vector<TableRows>& before);

/// Returns "ok", or the result of SQLite's integrity check.
std::string integrity_of(const std::filesystem::path& database);

}  // namespace conformance
