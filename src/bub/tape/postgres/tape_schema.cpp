#include <utility>

#include <bub/tape/postgres/tape_driver.hpp>
#include <bub/tape/postgres_tape_schema.hpp>
#include <cubepi/checkpoint/server/driver.hpp>
#include <cubepi/checkpoint/server/pool.hpp>
#include <cubepi/core/outcome.hpp>

namespace bub {

namespace {

using namespace cubepi::detail;
using cubepi::Outcome;
using cubepi::outcome_of;
using cubepi::Task;
using Version = std::optional<int>;

std::shared_ptr<SqlPool> schema_pool(const cubepi::PostgresOptions& options) {
    return std::make_shared<SqlPool>(options, std::make_shared<const PgDriver>(options, false));
}

Task<Version> read_version(SqlLease& lease) {
    SqlBatch exists;
    exists.add("SELECT to_regclass('bub_schema') IS NOT NULL");
    const SqlResults found = co_await lease->exchange(std::move(exists));
    if (!found[0].boolean(0, 0)) co_return Version();
    SqlBatch version;
    version.add("SELECT max(version)::bigint FROM bub_schema");
    const SqlResults read = co_await lease->exchange(std::move(version));
    co_return version_of(read[0]);
}

Task<Version> status_of(std::shared_ptr<SqlPool> pool) {
    const std::unique_ptr<SqlLease> lease = co_await pool->acquire();
    co_return co_await read_version(*lease);
}

Task<Version> apply_to(std::shared_ptr<SqlPool> pool) {
    const std::unique_ptr<SqlLease> lease = co_await pool->acquire();
    SqlBatch begin;
    begin.add("BEGIN");
    begin.add("SELECT pg_advisory_xact_lock(hashtext('bub_schema'))");
    (void)co_await (*lease)->exchange(std::move(begin));
    const Version before = co_await read_version(*lease);
    detail::refuse_newer_tapes(pool->driver().description(), before);
    SqlBatch statements;
    for (const std::string& sql : detail::tape_schema_statements()) statements.add(sql);
    statements.add("COMMIT");
    (void)co_await (*lease)->exchange(std::move(statements));
    co_return before;
}

/// Translates the failures of a task.
Task<Version> translated(std::shared_ptr<SqlPool> pool, Task<Version> task) {
    Outcome<Version> done = co_await outcome_of(std::move(task));
    if (const SqlFailure* failure = as_server_failure(done.failure()))
        throw_checkpointer_error(pool->driver(), *failure);
    co_return std::move(done).value();
}

}  // namespace

std::string postgres_tape_sql() {
    std::string text = "BEGIN;\n";
    for (const std::string& sql : detail::tape_schema_statements()) text += sql + ";\n";
    return text + "COMMIT;\n";
}

Task<Version> postgres_tape_status(cubepi::PostgresOptions options) {
    const auto pool = schema_pool(options);
    return translated(pool, status_of(pool));
}

Task<Version> apply_postgres_tape_schema(cubepi::PostgresOptions options) {
    const auto pool = schema_pool(options);
    return translated(pool, apply_to(pool));
}

}  // namespace bub
