#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <cubepi/agent/checkpointer.hpp>

#include "scenario.hpp"

namespace conformance {

/// The rows of a table as texts, sorted.
struct TableRows {
    std::string table = {};
    std::vector<std::string> columns = {};
    std::vector<std::string> rows = {};
};

/// A copy of a recorded database, which the product opens. Its rows are read without the product.
class DatabaseCopy {
public:
    virtual ~DatabaseCopy() = default;

    /// `file` is the JSON file `form`; the database, or the dump of one, is in the same directory. Servers are started at the first
    /// copy, and end with the process. Throws BadFile if the database is missing, Unsupported without its store.
    static std::unique_ptr<DatabaseCopy> of(const std::filesystem::path& file,
                                            const JsonObject& form);

    /// Opens the copy as a host does: the tables of the product are added before.
    virtual std::shared_ptr<cubepi::Checkpointer> open() = 0;
    /// Returns "ok", or what is wrong with the file.
    virtual std::string integrity() { return "ok"; }
    std::vector<TableRows> tables();
    /// Returns the rows of `before` that the database no longer contains or that have changed. Ignores added tables, columns and rows.
    std::vector<std::string> changed_rows(const std::vector<TableRows>& before);

protected:
    DatabaseCopy() = default;

private:
    virtual std::vector<std::string> table_names() = 0;
    virtual std::vector<std::string> columns(const std::string& table) = 0;
    virtual std::vector<std::string> rows(const std::string& table,
                                          const std::vector<std::string>& columns) = 0;
};

/// A copy on a server: "postgres" or "mysql" with this dump.
std::unique_ptr<DatabaseCopy> copy_on_server(const std::string& server,
                                             const std::filesystem::path& dump);

}  // namespace conformance
