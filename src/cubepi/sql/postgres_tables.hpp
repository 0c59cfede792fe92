#pragma once

#include <optional>
#include <string>
#include <vector>

#include <cubepi/core/format_version.hpp>
#include <cubepi/core/task.hpp>
#include <cubepi/sql/postgres_options.hpp>

namespace cubepi {

/// A set of tables in PostgreSQL with one version (D208), which one migration creates or makes current. Immutable; thread-safe.
class PostgresTables {
public:
    struct Description {
        std::string version_table = {};  ///< also the name of the lock of a migration
        std::string names = {};          ///< "bub_*"
        std::string content = {};        ///< "tapes"
        int version = 0;                 ///< that this library knows
        std::string create = {};         ///< the commands or functions that create the tables
        std::string migrate = {};        ///< those that make older tables current
        std::string grant = {};          ///< the rights that a user needs
        /// Create the tables, or make older ones current.
        std::vector<std::string> statements = {};
    };
    /// Why this library cannot use the tables.
    struct Problem {
        std::string what = {};    ///< "there are none"
        std::string remedy = {};  ///< may be empty
    };

    explicit PostgresTables(Description description);

    const std::string& version_table() const noexcept { return given_.version_table; }
    const std::string& names() const noexcept { return given_.names; }
    int version() const noexcept { return given_.version; }
    /// The next step for a table that is missing, and for a right that is.
    const std::string& missing_text() const noexcept { return missing_; }
    const std::string& grant_text() const noexcept { return given_.grant; }

    /// Returns nothing if this library can use tables of this version; absent: there are none.
    std::optional<Problem> problem(std::optional<FormatVersion> found) const;
    /// Throws CheckpointerError(schema_mismatch) if it cannot. `where` names the database.
    void check(const std::string& where, std::optional<FormatVersion> found) const;

    /// Returns the SQL that creates or migrates the tables, in one transaction, for an operator who runs it with psql.
    std::string sql() const;
    /// Reads the version; absent if there are none. Throws what PostgresCheckpointer throws.
    Task<std::optional<FormatVersion>> status(PostgresOptions options) const;
    /// Creates the tables, or migrates those of an older version, and returns the version from before. Several processes may call it at
    /// once. The user needs the right to create tables. Throws CheckpointerError(schema_mismatch) for tables of a newer version that this
    /// library must not use.
    Task<std::optional<FormatVersion>> apply(PostgresOptions options) const;

private:
    const Description given_;
    const std::string missing_;
};

}  // namespace cubepi
