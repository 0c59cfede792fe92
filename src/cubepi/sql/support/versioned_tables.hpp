#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <cubepi/core/format_version.hpp>
#include <cubepi/core/task.hpp>
#include <cubepi/sql/options.hpp>
#include <cubepi/sql/support/driver.hpp>

namespace cubepi::detail {

/// A set of tables with one version (D208), which one migration creates or makes current. Immutable; thread-safe.
class VersionedTables {
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

    explicit VersionedTables(Description description);

    const std::string& version_table() const noexcept { return given_.version_table; }
    const std::string& names() const noexcept { return given_.names; }

    /// Returns nothing if this library can use tables of this version; absent: there are none.
    std::optional<Problem> problem(std::optional<FormatVersion> found) const;
    /// Throws CheckpointerError(schema_mismatch) if it cannot. `where` names the database.
    void check(const std::string& where, std::optional<FormatVersion> found) const;
    /// PostgresSchema::remedy().
    SqlRemedy remedy(const SqlFailure& failure, SqlRemedy general) const;

    /// Returns the statements as one transaction, for an operator who runs it.
    std::string sql() const;
    /// Reads the version; absent if there are none. Throws CheckpointerError.
    Task<std::optional<FormatVersion>> status(const SqlOptions& options,
                                              std::shared_ptr<const SqlDriver> driver) const;
    /// Creates or migrates the tables, and returns the version from before. Several processes may call it at once. Throws
    /// CheckpointerError(schema_mismatch) for tables of a newer version that this library must not use.
    Task<std::optional<FormatVersion>> apply(const SqlOptions& options,
                                             std::shared_ptr<const SqlDriver> driver) const;

private:
    const Description given_;
    const std::string missing_;
};

/// The tables of a store in PostgreSQL. A transaction locks rows of one of them, which it creates if they are missing.
class PostgresSchema : public SqlSchema {
public:
    /// `locks`: the table with the rows. Its columns are `key`, TEXT and the primary key, write_id TEXT, and others with a default.
    PostgresSchema(const VersionedTables& tables, std::string locks, std::string key = "key")
        : tables_(tables), locks_(std::move(locks)), key_(std::move(key)) {}

    SqlBatch settings(const SqlDriver& driver) const override { return driver.store_session(); }
    SqlBatch session() const override;
    void check(const std::string& where, const SqlResults& results) const override;
    void lock(SqlBatch& batch, const std::vector<std::string>& names) const override;
    SqlWriteIds write_ids() const override;
    SqlRemedy remedy(const SqlFailure& failure, SqlRemedy general) const override {
        return tables_.remedy(failure, general);
    }

private:
    const VersionedTables& tables_;
    const std::string locks_;
    const std::string key_;
};

}  // namespace cubepi::detail
