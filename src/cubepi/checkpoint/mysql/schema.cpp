#include <cubepi/checkpoint/mysql/schema.hpp>

#include <algorithm>
#include <utility>

#include <cubepi/checkpoint/mysql/driver.hpp>
#include <cubepi/checkpoint/server/failure.hpp>
#include <cubepi/checkpoint/server/pool.hpp>
#include <cubepi/checkpoint/server/versions.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/outcome.hpp>

namespace cubepi {

namespace detail {

namespace {

constexpr TableVersions known_versions{mysql_schema_version, mysql_native_version};

TableVersions versions_of(const MySQLSchemaStatus& status) {
    TableVersions versions;
    versions.shared = status.version;
    versions.native = status.native_version;
    return versions;
}

std::string seconds_of(std::chrono::milliseconds limit) {
    return std::to_string((std::max<std::int64_t>(limit.count(), 1) + 999) / 1000);
}

std::shared_ptr<ServerPool> schema_pool(const MySQLOptions& options) {
    return std::make_shared<ServerPool>(options, std::make_shared<const MyDriver>(options, false));
}

Task<MySQLSchemaStatus> read_status(ServerLease& lease) {
    ServerBatch exist;
    exist.add(
        "SELECT coalesce(max(table_name = 'cubepi_schema_version'), 0),"
        " coalesce(max(table_name = 'cubepi_native_schema'), 0)"
        " FROM information_schema.tables WHERE table_schema = DATABASE()");
    const ServerResults found = co_await lease->exchange(std::move(exist));
    ServerBatch versions;
    const char* const none = "SELECT NULL";
    versions.add(found[0].boolean(0, 0) ? "SELECT max(version) FROM cubepi_schema_version" : none);
    versions.add(found[0].boolean(0, 1) ? "SELECT max(version) FROM cubepi_native_schema" : none);
    const ServerResults read = co_await lease->exchange(std::move(versions));
    MySQLSchemaStatus status;
    status.version = version_of(read[0]);
    status.native_version = version_of(read[1]);
    co_return status;
}

Task<MySQLSchemaStatus> status_of(std::shared_ptr<ServerPool> pool) {
    const std::unique_ptr<ServerLease> lease = co_await pool->acquire();
    co_return co_await read_status(*lease);
}

Task<MySQLSchemaStatus> apply_to(std::shared_ptr<ServerPool> pool) {
    const std::unique_ptr<ServerLease> lease = co_await pool->acquire();
    ServerBatch lock;
    // The lock of a session: each statement below commits. The end of the session releases it.
    lock.add("SELECT GET_LOCK(concat('cubepi.', md5(DATABASE())), " +
             seconds_of(pool->options().query_timeout) + ")");
    (void)co_await (*lease)->exchange(std::move(lock));
    const MySQLSchemaStatus before = co_await read_status(*lease);
    refuse_newer(pool->driver().description(), before);
    for (const std::string& sql : schema_statements(before)) {
        ServerBatch statement;
        statement.add(sql);
        (void)co_await (*lease)->exchange(std::move(statement));
    }
    co_return before;
}

/// Translates the failures of a task.
Task<MySQLSchemaStatus> translated(std::shared_ptr<ServerPool> pool, Task<MySQLSchemaStatus> task) {
    Outcome<MySQLSchemaStatus> done = co_await outcome_of(std::move(task));
    if (const ServerFailure* failure = as_server_failure(done.failure()))
        throw_checkpointer_error(pool->driver(), *failure);
    co_return std::move(done).value();
}

}  // namespace

ServerBatch session_set_up(const MySQLOptions& options, bool for_store) {
    ServerBatch batch;
    batch.add(
        "SET NAMES utf8mb4 COLLATE utf8mb4_bin, time_zone = '+00:00', autocommit = 1,"
        " sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'");
    if (!for_store) return batch;
    const std::string lock = seconds_of(options.lock_timeout);
    const std::string milliseconds = std::to_string(options.query_timeout.count());
    const std::string limit = seconds_of(options.query_timeout);
    batch.add("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED");
    // The triggers of schema_sql.cpp ignore changes by sessions that are a writer of ours. The comments are for one of the two
    // servers each.
    batch.add("SET innodb_lock_wait_timeout = " + lock + ", lock_wait_timeout = " + lock +
              ", @cubepi_native_writer = 1 /*M!100300 , max_statement_time = " + limit +
              ", idle_transaction_timeout = " + limit +
              " */ /*!50708 , max_execution_time = " + milliseconds + " */");
    batch.add("SELECT max(version) FROM cubepi_schema_version");
    batch.add("SELECT max(version) FROM cubepi_native_schema");
    return batch;
}

void check_session(const std::string& where, const ServerResults& results) {
    MySQLSchemaStatus status;
    status.version = version_of(results[3]);
    status.native_version = version_of(results[4]);
    if (status.is_current()) return;
    refuse_newer(where, status);
    throw_old_tables(
        where, versions_of(status), known_versions,
        "migrate them with apply_mysql_schema(), or run the SQL of mysql_schema_sql()");
}

void refuse_newer(const std::string& where, const MySQLSchemaStatus& status) {
    refuse_newer_tables(where, versions_of(status), known_versions);
}

}  // namespace detail

std::string mysql_schema_sql(MySQLSchemaStatus from) {
    detail::refuse_newer("the database", from);
    std::string text;
    for (const std::string& sql : detail::schema_statements(from)) text += sql + ";\n";
    return text;
}

Task<MySQLSchemaStatus> mysql_schema_status(MySQLOptions options) {
    const auto pool = detail::schema_pool(options);
    return detail::translated(pool, detail::status_of(pool));
}

Task<MySQLSchemaStatus> apply_mysql_schema(MySQLOptions options) {
    const auto pool = detail::schema_pool(options);
    return detail::translated(pool, detail::apply_to(pool));
}

}  // namespace cubepi
