#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <cubepi/sql/postgres_options.hpp>
#include <cubepi/sql/postgres_tables.hpp>
#include <cubepi/sql/support/driver.hpp>

namespace cubepi::detail {

/// Throws CheckpointerError(invalid_argument) for an invalid connection string.
std::shared_ptr<const SqlDriver> postgres_driver(const PostgresOptions& options);

/// Takes the advisory locks of the names until the end of the transaction, in the order of their keys, which have 32 bits.
void take_advisory_locks(SqlBatch& batch, const std::vector<std::string>& names);

/// The tables of a store in PostgreSQL. A transaction locks rows of one of them, which it creates if they are missing.
class PostgresSchema : public SqlSchema {
public:
    /// `locks`: the table with the rows. Its columns are `key`, TEXT and the primary key, write_id TEXT, and others with a default.
    PostgresSchema(const PostgresTables& tables, std::string locks, std::string key = "key")
        : tables_(tables), locks_(std::move(locks)), key_(std::move(key)) {}

    SqlBatch settings(const SqlDriver& driver) const override { return driver.store_session(); }
    SqlBatch session() const override;
    void check(const std::string& where, const SqlResults& results) const override;
    void lock(SqlBatch& batch, const std::vector<std::string>& names) const override;
    SqlWriteIds write_ids() const override;
    SqlRemedy remedy(const SqlFailure& failure, SqlRemedy general) const override;

private:
    const PostgresTables& tables_;
    const std::string locks_;
    const std::string key_;
};

}  // namespace cubepi::detail
