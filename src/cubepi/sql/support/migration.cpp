#include <cubepi/sql/support/migration.hpp>

#include <utility>

#include <cubepi/core/error.hpp>
#include <cubepi/sql/support/pool.hpp>

namespace cubepi::detail {

namespace {

std::shared_ptr<SqlPool> migration_pool(const SqlOptions& options,
                                        std::shared_ptr<const SqlDriver> driver) {
    return std::make_shared<SqlPool>(options, std::move(driver),
                                     std::make_shared<const SqlSchema>());
}

Task<SqlVersions> versions_in(SqlLease& lease, std::vector<std::string> version_tables) {
    SqlBatch exist;
    for (const std::string& table : version_tables) exist.add("SELECT {exists " + table + "}");
    const SqlResults found = co_await lease->exchange(std::move(exist));
    SqlBatch reads;
    for (std::size_t i = 0; i < version_tables.size(); ++i) {
        if (found[i].boolean(0, 0)) select_version(reads, version_tables[i]);
    }
    const SqlResults results = co_await lease->exchange(std::move(reads));
    SqlVersions versions;
    std::size_t next = 0;
    for (const SqlResult& exists : found) {
        versions.emplace_back();
        if (exists.boolean(0, 0)) versions.back() = version_of(results[next++]);
    }
    co_return versions;
}

Task<SqlVersions> read_from(std::shared_ptr<SqlPool> pool,
                            std::vector<std::string> version_tables) {
    const std::unique_ptr<SqlLease> lease = co_await pool->acquire();
    co_return co_await versions_in(*lease, std::move(version_tables));
}

/// Returns the statements as they are sent: together if they are one transaction, otherwise one by one.
std::vector<SqlBatch> steps_of(const SqlDriver& driver,
                               const std::vector<std::string>& statements) {
    std::vector<SqlBatch> steps;
    if (driver.migrates_at_once()) steps.emplace_back();
    for (const std::string& sql : statements) {
        if (!driver.migrates_at_once()) steps.emplace_back();
        steps.back().add(sql);
    }
    if (driver.migrates_at_once()) steps.back().add("COMMIT");
    return steps;
}

Task<SqlVersions> apply_to(std::shared_ptr<SqlPool> pool, SqlMigration migration) {
    const std::unique_ptr<SqlLease> lease = co_await pool->acquire();
    SqlBatch begin;
    pool->driver().begin_migration(begin, migration.lock);
    (void)co_await (*lease)->exchange(std::move(begin));
    const SqlVersions before = co_await versions_in(*lease, migration.version_tables);
    std::vector<SqlBatch> steps = steps_of(pool->driver(), migration.statements(before));
    for (SqlBatch& step : steps) (void)co_await (*lease)->exchange(std::move(step));
    co_return before;
}

}  // namespace

Task<SqlVersions> read_versions(const SqlOptions& options, std::shared_ptr<const SqlDriver> driver,
                                std::vector<std::string> version_tables) {
    const auto pool = migration_pool(options, std::move(driver));
    return translated(pool, read_from(pool, std::move(version_tables)));
}

Task<SqlVersions> migrate(const SqlOptions& options, std::shared_ptr<const SqlDriver> driver,
                          SqlMigration migration) {
    const auto pool = migration_pool(options, std::move(driver));
    return translated(pool, apply_to(pool, std::move(migration)));
}

void select_version(SqlBatch& batch, const std::string& version_table) {
    batch.add("SELECT {integer max(version)}, {integer min(version)} FROM " + version_table);
}

std::optional<FormatVersion> version_of(const SqlResult& result) {
    std::optional<FormatVersion> version;
    if (result.rows() == 0 || result.is_null(0, 0)) return version;
    version.emplace();
    version->version = static_cast<int>(result.integer(0, 0));
    version->readable_from = static_cast<int>(result.integer(0, 1));
    return version;
}

void refuse_newer_tables(const std::string& where, const std::string& tables,
                         std::optional<FormatVersion> found, int known) {
    if (!found || !found->is_refused_by(known)) return;
    throw CheckpointerError(ErrorCode::schema_mismatch, where + ": the tables " + tables + " are " +
                                                            refusal_text(*found, known));
}

}  // namespace cubepi::detail
