#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace cubepi::app {

/// A part of the tables of a database.
struct TableVersion {
    std::string name = {};
    std::optional<int> found = {};  ///< absent: there are none
    int needed = 0;
};

/// The tables of a database.
struct DatabaseStatus {
    std::vector<TableVersion> tables = {};

    bool is_empty() const;
    bool is_current() const;
};

/// A database whose tables `cubepi db` reads and changes.
class Database {
public:
    virtual ~Database() = default;
    /// The name of the database for messages, without a password.
    virtual const std::string& description() const noexcept = 0;
    /// Throws CheckpointerError, as the other functions do.
    virtual DatabaseStatus status() = 0;
    /// Creates the tables, or migrates them.
    virtual void migrate() = 0;
    /// Returns the SQL that migrate() executes. Empty if the tables are current.
    virtual std::string sql() = 0;
};

/// Returns the database that a URL (postgres://..., mysql://...) or a path of an SQLite file names, with the tables of threads, or with those
/// of tapes. Does not connect. Throws Error(invalid_argument) for a server that this program does not support.
std::unique_ptr<Database> open_database(const std::string& target, bool tapes);

/// Returns the SQL for a database of this kind ("postgres", "mysql", "sqlite"), without connecting to one. `from`: the version of CubePi's
/// tables; 0: there are none. Empty if there is no such kind.
std::optional<std::string> sql_of_kind(const std::string& kind, bool tapes, int from);

}  // namespace cubepi::app
