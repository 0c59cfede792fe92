#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace conformance {

/// Copies a database, with its write-ahead log where there is one, and gives the copy's name.
std::filesystem::path copy_database(const std::filesystem::path& original,
                                    const std::filesystem::path& directory);

/// What Python wrote, as text: of each table its columns and rows. Read without the product.
struct TableRows {
    std::string table;
    std::vector<std::string> columns;
    std::vector<std::string> rows;
};

std::vector<TableRows> read_tables(const std::filesystem::path& database);

/// Rows of `before` that are not in the database any more, or are not what they were. Tables, columns and rows that were
/// added are no concern.
std::vector<std::string> changed_rows(const std::filesystem::path& database,
                                      const std::vector<TableRows>& before);

/// "ok", or what SQLite's integrity check says.
std::string integrity_of(const std::filesystem::path& database);

}  // namespace conformance
