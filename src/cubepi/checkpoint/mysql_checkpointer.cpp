#include <cubepi/checkpoint/mysql_checkpointer.hpp>

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>

#include <cubepi/checkpoint/format/stored_json.hpp>
#include <cubepi/checkpoint/mysql/connection.hpp>
#include <cubepi/checkpoint/mysql/driver.hpp>
#include <cubepi/checkpoint/mysql/schema.hpp>
#include <cubepi/core/error.hpp>

namespace cubepi::detail {

namespace {

struct Translation {
    unsigned error;
    ErrorCode code;
    std::string_view remedy;
};

constexpr std::string_view grant =
    "grant the user SELECT, INSERT, UPDATE and DELETE on the database, and to migrate the tables "
    "CREATE, ALTER, INDEX, DROP and TRIGGER";
constexpr std::string_view apply = "apply the schema (apply_mysql_schema)";
constexpr std::string_view primary =
    "the server or the transaction is read-only: connect to the primary";
constexpr std::string_view overloaded = "the server is overloaded, or raise query_timeout";
constexpr std::string_view disk = "free space on the disk of the server";

// https://mariadb.com/kb/en/mariadb-error-code-reference/, and for MySQL its reference of server errors
constexpr Translation translations[] = {
    {1045, ErrorCode::auth, "check the user and the password (MYSQL_PWD)"},
    {1698, ErrorCode::auth, "check the user and the password (MYSQL_PWD)"},
    {1044, ErrorCode::permission_denied, grant},
    {1142, ErrorCode::permission_denied, grant},
    {1143, ErrorCode::permission_denied, grant},
    {1227, ErrorCode::permission_denied, grant},
    {1419, ErrorCode::permission_denied,
     "set log_bin_trust_function_creators=1 on the server, or let an administrator run the SQL"},
    {1290, ErrorCode::permission_denied, primary},
    {1792, ErrorCode::permission_denied, primary},
    {1836, ErrorCode::permission_denied, primary},
    {1049, ErrorCode::not_found, "check the name, or create it with CREATE DATABASE"},
    {1040, ErrorCode::unavailable,
     "lower max_connections of the pools, or raise max_connections of the server"},
    {1203, ErrorCode::unavailable,
     "lower max_connections of the pools, or raise max_user_connections of the server"},
    {1053, ErrorCode::unavailable, "the server starts or stops: try again later"},
    {1146, ErrorCode::schema_mismatch, apply},
    {1054, ErrorCode::schema_mismatch, apply},
    {1213, ErrorCode::storage_locked, "other transactions got in the way: try again"},
    {1020, ErrorCode::storage_locked, "other transactions got in the way: try again"},
    {1062, ErrorCode::storage_locked, "another program wrote the same row: try again"},
    {1317, ErrorCode::timeout, overloaded},
    {1969, ErrorCode::timeout, overloaded},
    {3024, ErrorCode::timeout, overloaded},
    {1021, ErrorCode::storage_full, disk},
    {1026, ErrorCode::storage_full, disk},
    {1041, ErrorCode::storage_full, "free memory of the server"},
    {1114, ErrorCode::storage_full, disk},
    {1406, ErrorCode::invalid_argument, "ids may have at most 255 characters"},
    {1071, ErrorCode::invalid_argument, "ids may have at most 255 characters"},
    {1366, ErrorCode::invalid_argument, "ids must be valid UTF-8"},
    {1300, ErrorCode::invalid_argument, "ids must be valid UTF-8"},
    {1153, ErrorCode::invalid_argument, "raise max_allowed_packet of the server"},
    {2020, ErrorCode::invalid_argument, "raise max_allowed_packet of the server"},
    {1034, ErrorCode::storage_corrupt, "restore the table from a backup"},
};

SqlCondition condition_of(unsigned error) {
    switch (error) {
        case 1205: return SqlCondition::lock_timeout;
        case 1213:
        case 1020: return SqlCondition::conflict;
        case 1290:
        case 1792:
        case 1836: return SqlCondition::read_only;
        case 1053: return SqlCondition::starting;
        default: return SqlCondition::other;
    }
}

}  // namespace

MyDriver::MyDriver(const MySQLOptions& options, bool for_store)
    : parameters_(options.connection),
      description_(parameters_.description()),
      runtime_(options.runtime ? options.runtime : Runtime::standard()),
      for_store_(for_store),
      set_up_(session_set_up(options, for_store)) {}

std::string MyDriver::without_secrets(std::string text) const {
    return parameters_.without_secrets(std::move(text));
}

SqlRemedy MyDriver::remedy(const SqlFailure& failure) const { return my_remedy(failure); }

std::vector<std::string> MyDriver::names_to_resolve() const {
    std::vector<std::string> names;
    if (parameters_.has_name()) names.push_back(parameters_.host);
    return names;
}

bool MyDriver::is_reachable(const SqlAddresses& addresses) const {
    return !parameters_.has_name() || addresses.contains(parameters_.host);
}

std::unique_ptr<SqlConnection> MyDriver::connection() const {
    return std::make_unique<MyConnection>(parameters_, runtime_);
}

void MyDriver::check(const SqlResults& results) const {
    if (for_store_) check_session(description_, results);
}

void MyDriver::begin_read(SqlBatch& batch) const {
    batch.add("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ");
    batch.add("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY");
}

// The row of the thread in our table is locked first: it can be inserted when the thread does not exist. CubePi locks the row
// of the thread. The isolation level is READ COMMITTED, so that no locks of gaps cause deadlocks.
void MyDriver::begin_write(SqlBatch& batch, const std::vector<std::string>& threads) const {
    batch.add("START TRANSACTION");
    std::vector<std::string> sorted = threads;
    std::sort(sorted.begin(), sorted.end());
    sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
    for (const std::string& thread_id : sorted) {
        batch
            .add(
                "INSERT INTO cubepi_native_writes (thread_id, write_id) VALUES ($1, '')"
                " ON DUPLICATE KEY UPDATE write_id = write_id")
            .text(thread_id);
        batch.add("SELECT 1 FROM cubepi_threads WHERE thread_id = $1 FOR UPDATE").text(thread_id);
    }
}

void MyDriver::end_write(SqlBatch& batch, const std::vector<std::string>& threads) const {
    // Of threads that do not exist after all, or that are only read.
    for (const std::string& thread_id : threads) {
        batch.add("DELETE FROM cubepi_native_writes WHERE thread_id = $1 AND write_id = ''")
            .text(thread_id);
    }
}

void MyDriver::write_extra(SqlBatch& batch, const std::string& thread_id,
                           const ExtraChange& change) const {
    batch
        .add(
            "INSERT INTO cubepi_threads (thread_id, extra) VALUES ($1, $2)"
            " {replace thread_id: extra}, updated_at = now()")
        .text(thread_id)
        .json(server_json_text(change.merged));
}

void MyDriver::write_fork_row(SqlBatch& batch, const SqlFork& fork, const JsonObject& added,
                              const JsonObject& merged) const {
    if (added.empty()) {
        batch
            .add(
                "INSERT INTO cubepi_threads (thread_id, parent_thread_id, forked_at_seq, extra)"
                " SELECT $2, thread_id, $3, extra FROM cubepi_threads WHERE thread_id = $1")
            .text(fork.source)
            .text(fork.target)
            .integer(fork.cutoff);
        return;
    }
    batch
        .add(
            "INSERT INTO cubepi_threads (thread_id, parent_thread_id, forked_at_seq, extra)"
            " VALUES ($2, $1, $3, $4)")
        .text(fork.source)
        .text(fork.target)
        .integer(fork.cutoff)
        .json(server_json_text(merged));
}

// Both servers use an index for the first comparison only if it is not one of rows.
std::string MyDriver::page_sql(const std::string& columns, const std::string& time) const {
    const std::string key = time + ", thread_id, run_id, question_id";
    return "SELECT " + columns + " FROM cubepi_native_pending WHERE expired = false AND " + time +
           " >= $1 AND (" + key + ") > ($1, $2, $3, $4) ORDER BY " + key + " LIMIT $5";
}

// By thread: each lookup reads the index of one partition.
std::string MyDriver::listing_sql() const {
    return "SELECT thread_id, count, at FROM (SELECT t.thread_id, t.extra, t.parent_thread_id,"
           " (SELECT count(*) FROM cubepi_messages AS m WHERE m.thread_id = t.thread_id) AS count,"
           " (SELECT {epoch created_at} FROM cubepi_messages AS m"
           " WHERE m.thread_id = t.thread_id ORDER BY seq DESC LIMIT 1) AS at"
           " FROM cubepi_threads AS t) AS listed"
           " WHERE count > 0 OR {filled extra} OR parent_thread_id IS NOT NULL"
           " ORDER BY at DESC {nulls last}, thread_id";
}

std::vector<std::string> MyDriver::dependent_tables() const {
    std::vector<std::string> tables = {"cubepi_messages", "cubepi_runs", "cubepi_hitl_answers"};
    for (const char* name : {"claims", "message_ids", "writes", "exact", "pending",
                             "changed_pending", "answers", "started", "used_answers"})
        tables.push_back(std::string("cubepi_native_") + name);
    return tables;
}

SqlFailure my_failure(SqlFailureKind kind, const std::string& reason, unsigned error) {
    // Errors of the client library are reasons in themselves.
    const bool is_of_server = error < 2000 || error >= 3000;
    return SqlFailure(kind, reason, is_of_server ? std::to_string(error) : "", condition_of(error));
}

SqlRemedy my_remedy(const SqlFailure& failure) {
    SqlRemedy remedy;
    for (const Translation& one : translations) {
        if (failure.code() != std::to_string(one.error)) continue;
        remedy.code = one.code;
        remedy.text = one.remedy;
    }
    return remedy;
}

}  // namespace cubepi::detail

namespace cubepi {

namespace {

MySQLOptions options_for(std::string connection) {
    MySQLOptions options;
    options.connection = std::move(connection);
    return options;
}

}  // namespace

MySQLCheckpointer::MySQLCheckpointer(std::string connection)
    : MySQLCheckpointer(options_for(std::move(connection))) {}

MySQLCheckpointer::MySQLCheckpointer(MySQLOptions options)
    : SqlCheckpointer(options, std::make_shared<const detail::MyDriver>(options, true)) {}

}  // namespace cubepi
