#include <cubepi/checkpoint/postgres/schema.hpp>

#include <utility>

#include <cubepi/checkpoint/postgres/failure.hpp>
#include <cubepi/checkpoint/postgres/pool.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/outcome.hpp>

namespace cubepi {

namespace detail {

namespace {

std::optional<int> version_of(const PgResult& result) {
    std::optional<int> version;
    if (result.rows() > 0 && !result.is_null(0, 0))
        version = static_cast<int>(result.integer(0, 0));
    return version;
}

[[noreturn]] void throw_mismatch(const std::string& text) {
    throw CheckpointerError(ErrorCode::schema_mismatch, text);
}

std::string version_text(std::optional<int> version) {
    return version ? "of version " + std::to_string(*version) : std::string("not there");
}

void refuse_newer_tables(const std::string& where, const char* tables, std::optional<int> found,
                         int known) {
    if (found.value_or(0) <= known) return;
    throw_mismatch(where + ": the tables " + tables + " are of version " + std::to_string(*found) +
                   ", which is newer than this program knows (" + std::to_string(known) +
                   "); update the program");
}

PgBatch quiet_set_up() {
    PgBatch batch;
    // "relation exists, skipping" would be sent for each table.
    batch.add("SELECT set_config('client_min_messages', 'warning', false)");
    return batch;
}

void no_check(const PgParameters&, const PgResults&) {}

std::shared_ptr<PgPool> schema_pool(PostgresOptions options) {
    return std::make_shared<PgPool>(std::move(options), quiet_set_up(), no_check);
}

/// Reads the versions in the transaction of the caller.
Task<PostgresSchemaStatus> read_status(PgLease& lease) {
    PgBatch exist;
    exist.add(
        "SELECT to_regclass('cubepi_schema_version') IS NOT NULL,"
        " to_regclass('cubepi_native_schema') IS NOT NULL");
    const PgResults found = co_await lease->exchange(std::move(exist));
    PgBatch versions;
    const char* const none = "SELECT NULL::bigint";
    versions.add(found[0].boolean(0, 0) ? "SELECT max(version)::bigint FROM cubepi_schema_version"
                                        : none);
    versions.add(found[0].boolean(0, 1) ? "SELECT max(version)::bigint FROM cubepi_native_schema"
                                        : none);
    const PgResults read = co_await lease->exchange(std::move(versions));
    PostgresSchemaStatus status;
    status.version = version_of(read[0]);
    status.native_version = version_of(read[1]);
    co_return status;
}

Task<PostgresSchemaStatus> status_of(std::shared_ptr<PgPool> pool) {
    const std::unique_ptr<PgLease> lease = co_await pool->acquire();
    co_return co_await read_status(*lease);
}

Task<PostgresSchemaStatus> apply_to(std::shared_ptr<PgPool> pool) {
    const std::unique_ptr<PgLease> lease = co_await pool->acquire();
    PgBatch begin;
    begin.add("BEGIN");
    begin.add("SELECT pg_advisory_xact_lock(hashtext('cubepi_schema_version'))");
    (void)co_await (*lease)->exchange(std::move(begin));
    const PostgresSchemaStatus before = co_await read_status(*lease);
    refuse_newer(pool->parameters().description(), before);
    PgBatch statements;
    for (const std::string& sql : schema_statements(before)) statements.add(sql);
    statements.add("COMMIT");
    (void)co_await (*lease)->exchange(std::move(statements));
    co_return before;
}

/// Translates the failures of a task.
Task<PostgresSchemaStatus> translated(std::shared_ptr<PgPool> pool,
                                      Task<PostgresSchemaStatus> task) {
    Outcome<PostgresSchemaStatus> done = co_await outcome_of(std::move(task));
    if (const PgFailure* failure = as_pg_failure(done.failure()))
        throw_checkpointer_error(pool->parameters(), *failure);
    co_return std::move(done).value();
}

}  // namespace

PgBatch session_set_up(const PostgresOptions& options) {
    const std::string limit = std::to_string(options.query_timeout.count());
    PgBatch batch;
    // The trigger of schema_sql.cpp ignores changes by sessions that are a writer of ours.
    batch
        .add(
            "SELECT set_config('lock_timeout', $1, false), set_config('statement_timeout', $2, "
            "false), set_config('idle_in_transaction_session_timeout', $2, false),"
            " set_config('cubepi_native.writer', '1', false)")
        .text(std::to_string(options.lock_timeout.count()))
        .text(limit);
    batch.add("SELECT max(version)::bigint FROM cubepi_schema_version");
    batch.add("SELECT max(version)::bigint FROM cubepi_native_schema");
    return batch;
}

void check_session(const PgParameters& parameters, const PgResults& results) {
    PostgresSchemaStatus status;
    status.version = version_of(results[1]);
    status.native_version = version_of(results[2]);
    if (status.is_current()) return;
    refuse_newer(parameters.description(), status);
    throw_mismatch(parameters.description() + ": the tables cubepi_* are " +
                   version_text(status.version) +
                   " (needed: " + std::to_string(postgres_schema_version) +
                   "), cubepi_native_* are " + version_text(status.native_version) +
                   " (needed: " + std::to_string(postgres_native_version) +
                   "); migrate them with apply_postgres_schema(), or run the SQL of "
                   "postgres_schema_sql()");
}

void refuse_newer(const std::string& where, const PostgresSchemaStatus& status) {
    refuse_newer_tables(where, "cubepi_*", status.version, postgres_schema_version);
    refuse_newer_tables(where, "cubepi_native_*", status.native_version, postgres_native_version);
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
    const auto pool = detail::schema_pool(std::move(options));
    return detail::translated(pool, detail::status_of(pool));
}

Task<PostgresSchemaStatus> apply_postgres_schema(PostgresOptions options) {
    const auto pool = detail::schema_pool(std::move(options));
    return detail::translated(pool, detail::apply_to(pool));
}

}  // namespace cubepi
