#include <cubepi/checkpoint/postgres/schema.hpp>

#include <utility>

#include <cubepi/checkpoint/postgres/driver.hpp>
#include <cubepi/checkpoint/server/failure.hpp>
#include <cubepi/checkpoint/server/pool.hpp>
#include <cubepi/checkpoint/server/versions.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/outcome.hpp>

namespace cubepi {

namespace detail {

namespace {

constexpr TableVersions known_versions{postgres_schema_version, postgres_native_version};

TableVersions versions_of(const PostgresSchemaStatus& status) {
    TableVersions versions;
    versions.shared = status.version;
    versions.native = status.native_version;
    return versions;
}

std::shared_ptr<ServerPool> schema_pool(const PostgresOptions& options) {
    return std::make_shared<ServerPool>(options, std::make_shared<const PgDriver>(options, false));
}

/// Reads the versions in the transaction of the caller.
Task<PostgresSchemaStatus> read_status(ServerLease& lease) {
    ServerBatch exist;
    exist.add(
        "SELECT to_regclass('cubepi_schema_version') IS NOT NULL,"
        " to_regclass('cubepi_native_schema') IS NOT NULL");
    const ServerResults found = co_await lease->exchange(std::move(exist));
    ServerBatch versions;
    const char* const none = "SELECT NULL::bigint";
    versions.add(found[0].boolean(0, 0) ? "SELECT max(version)::bigint FROM cubepi_schema_version"
                                        : none);
    versions.add(found[0].boolean(0, 1) ? "SELECT max(version)::bigint FROM cubepi_native_schema"
                                        : none);
    const ServerResults read = co_await lease->exchange(std::move(versions));
    PostgresSchemaStatus status;
    status.version = version_of(read[0]);
    status.native_version = version_of(read[1]);
    co_return status;
}

Task<PostgresSchemaStatus> status_of(std::shared_ptr<ServerPool> pool) {
    const std::unique_ptr<ServerLease> lease = co_await pool->acquire();
    co_return co_await read_status(*lease);
}

Task<PostgresSchemaStatus> apply_to(std::shared_ptr<ServerPool> pool) {
    const std::unique_ptr<ServerLease> lease = co_await pool->acquire();
    ServerBatch begin;
    begin.add("BEGIN");
    begin.add("SELECT pg_advisory_xact_lock(hashtext('cubepi_schema_version'))");
    (void)co_await (*lease)->exchange(std::move(begin));
    const PostgresSchemaStatus before = co_await read_status(*lease);
    refuse_newer(pool->driver().description(), before);
    ServerBatch statements;
    for (const std::string& sql : schema_statements(before)) statements.add(sql);
    statements.add("COMMIT");
    (void)co_await (*lease)->exchange(std::move(statements));
    co_return before;
}

/// Translates the failures of a task.
Task<PostgresSchemaStatus> translated(std::shared_ptr<ServerPool> pool,
                                      Task<PostgresSchemaStatus> task) {
    Outcome<PostgresSchemaStatus> done = co_await outcome_of(std::move(task));
    if (const ServerFailure* failure = as_server_failure(done.failure()))
        throw_checkpointer_error(pool->driver(), *failure);
    co_return std::move(done).value();
}

}  // namespace

ServerBatch session_set_up(const PostgresOptions& options) {
    const std::string limit = std::to_string(options.query_timeout.count());
    ServerBatch batch;
    // The trigger of schema_sql.cpp ignores changes by sessions that are a writer of ours. Compiling a plan of 64 partitions
    // takes seconds, and one of them is visited.
    batch
        .add(
            "SELECT set_config('lock_timeout', $1, false), set_config('statement_timeout', $2, "
            "false), set_config('idle_in_transaction_session_timeout', $2, false),"
            " set_config('jit', 'off', false), set_config('cubepi_native.writer', '1', false)")
        .text(std::to_string(options.lock_timeout.count()))
        .text(limit);
    batch.add("SELECT max(version)::bigint FROM cubepi_schema_version");
    batch.add("SELECT max(version)::bigint FROM cubepi_native_schema");
    return batch;
}

void check_session(const PgParameters& parameters, const ServerResults& results) {
    PostgresSchemaStatus status;
    status.version = version_of(results[1]);
    status.native_version = version_of(results[2]);
    if (status.is_current()) return;
    refuse_newer(parameters.description(), status);
    throw_old_tables(parameters.description(), versions_of(status), known_versions,
                     "migrate them with apply_postgres_schema(), or run the SQL of "
                     "postgres_schema_sql()");
}

void refuse_newer(const std::string& where, const PostgresSchemaStatus& status) {
    refuse_newer_tables(where, versions_of(status), known_versions);
}

}  // namespace detail

std::string postgres_schema_sql(PostgresSchemaStatus from) {
    detail::refuse_newer("the database", from);
    const std::vector<std::string> statements = detail::schema_statements(from);
    if (statements.empty()) return {};
    std::string text = "BEGIN;\n";
    for (const std::string& sql : statements) text += sql + ";\n";
    return text + "COMMIT;\n";
}

Task<PostgresSchemaStatus> postgres_schema_status(PostgresOptions options) {
    const auto pool = detail::schema_pool(options);
    return detail::translated(pool, detail::status_of(pool));
}

Task<PostgresSchemaStatus> apply_postgres_schema(PostgresOptions options) {
    const auto pool = detail::schema_pool(options);
    return detail::translated(pool, detail::apply_to(pool));
}

}  // namespace cubepi
