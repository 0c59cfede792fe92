#include <filesystem>
#include <system_error>
#include <utility>

#include <cubepi/checkpoint/sqlite/database.hpp>
#include <cubepi/checkpoint/sqlite/pending_rows.hpp>
#include <cubepi/checkpoint/sqlite/shared_requests.hpp>
#include <cubepi/checkpoint/sqlite_schema.hpp>
#include <cubepi/core/error.hpp>

namespace cubepi::detail {

namespace {

// The tables of Python CubePi, column for column.
constexpr const char* shared_tables =
    "CREATE TABLE IF NOT EXISTS messages ("
    "  id INTEGER PRIMARY KEY AUTOINCREMENT,"
    "  thread_id TEXT NOT NULL,"
    "  message_json TEXT NOT NULL,"
    "  created_at REAL NOT NULL DEFAULT (julianday('now')), run_id TEXT);"
    "CREATE TABLE IF NOT EXISTS thread_extra ("
    "  thread_id TEXT PRIMARY KEY,"
    "  extra_json TEXT NOT NULL DEFAULT '{}', parent_thread_id TEXT);"
    "CREATE TABLE IF NOT EXISTS thread_pending_request ("
    "  thread_id TEXT PRIMARY KEY,"
    "  request_json TEXT NOT NULL,"
    "  run_id TEXT,"
    "  created_at REAL NOT NULL DEFAULT (julianday('now')));"
    "CREATE TABLE IF NOT EXISTS thread_hitl_answers ("
    "  thread_id TEXT NOT NULL,"
    "  run_id TEXT NOT NULL,"
    "  question_id TEXT NOT NULL,"
    "  answer_json TEXT NOT NULL,"
    "  answered_at REAL NOT NULL DEFAULT (julianday('now')),"
    "  PRIMARY KEY (thread_id, run_id, question_id));"
    "CREATE TABLE IF NOT EXISTS runs ("
    "  thread_id TEXT NOT NULL,"
    "  run_id TEXT NOT NULL,"
    "  claimed_at REAL NOT NULL DEFAULT (julianday('now')),"
    "  completed_at REAL,"
    "  completion_seq INTEGER,"
    "  PRIMARY KEY (thread_id, run_id));";

// Times in Unix seconds, as in the request; a request without a timeout expires at infinity, so that one index has both.
constexpr const char* pending_table =
    "CREATE TABLE IF NOT EXISTS cubepi_native_pending ("
    "  id INTEGER PRIMARY KEY, thread_id TEXT NOT NULL, run_id TEXT NOT NULL,"
    "  question_id TEXT NOT NULL, request_json TEXT NOT NULL, approval_digest TEXT,"
    "  UNIQUE (thread_id, run_id, question_id));";

constexpr const char* inbox_indexes =
    "CREATE INDEX IF NOT EXISTS cubepi_native_ix_pending ON cubepi_native_pending (thread_id, id);"
    "CREATE INDEX IF NOT EXISTS cubepi_native_ix_pending_age"
    "  ON cubepi_native_pending (created_at, thread_id, run_id, question_id) WHERE expired = 0;"
    "CREATE INDEX IF NOT EXISTS cubepi_native_ix_pending_deadline"
    "  ON cubepi_native_pending (expires_at, thread_id, run_id, question_id) WHERE expired = 0;";

// A thread is noted once, whatever the conflict clause of the statement that fires the trigger.
constexpr const char* change_triggers =
    "CREATE TRIGGER IF NOT EXISTS cubepi_native_pending_inserted"
    "  AFTER INSERT ON thread_pending_request WHEN NEW.thread_id IS NOT NULL BEGIN"
    "  INSERT INTO cubepi_native_changed_pending SELECT NEW.thread_id WHERE NOT EXISTS"
    "  (SELECT 1 FROM cubepi_native_changed_pending WHERE thread_id = NEW.thread_id); END;"
    "CREATE TRIGGER IF NOT EXISTS cubepi_native_pending_updated"
    "  AFTER UPDATE ON thread_pending_request WHEN NEW.thread_id IS NOT NULL BEGIN"
    "  INSERT INTO cubepi_native_changed_pending SELECT NEW.thread_id WHERE NOT EXISTS"
    "  (SELECT 1 FROM cubepi_native_changed_pending WHERE thread_id = NEW.thread_id); END;"
    "CREATE TRIGGER IF NOT EXISTS cubepi_native_pending_deleted"
    "  AFTER DELETE ON thread_pending_request WHEN OLD.thread_id IS NOT NULL BEGIN"
    "  INSERT INTO cubepi_native_changed_pending SELECT OLD.thread_id WHERE NOT EXISTS"
    "  (SELECT 1 FROM cubepi_native_changed_pending WHERE thread_id = OLD.thread_id); END;";

// After the columns that old files lack have been added.
constexpr const char* indexes_and_our_tables =
    "CREATE INDEX IF NOT EXISTS ix_runs_thread_completion ON runs (thread_id, completion_seq);"
    "CREATE INDEX IF NOT EXISTS cubepi_native_ix_messages ON messages (thread_id, id);"
    "CREATE INDEX IF NOT EXISTS cubepi_native_ix_message_ids ON messages (thread_id, message_id)"
    "  WHERE message_id IS NOT NULL;"
    "CREATE TABLE IF NOT EXISTS cubepi_native_claims ("
    "  thread_id TEXT NOT NULL, run_id TEXT NOT NULL, owner_id TEXT NOT NULL, host TEXT NOT NULL,"
    "  boot_id TEXT NOT NULL, pid INTEGER NOT NULL, process_start INTEGER NOT NULL,"
    "  description TEXT NOT NULL, lease_until REAL NOT NULL,"
    "  PRIMARY KEY (thread_id, run_id)) WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS cubepi_native_changed_pending ("
    "  thread_id TEXT PRIMARY KEY) WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS cubepi_native_answers ("
    "  id INTEGER PRIMARY KEY, thread_id TEXT NOT NULL, run_id TEXT NOT NULL,"
    "  question_id TEXT NOT NULL, request_json TEXT NOT NULL, answer_json TEXT NOT NULL,"
    "  answered_at REAL NOT NULL, user TEXT NOT NULL, channel TEXT NOT NULL);"
    "CREATE INDEX IF NOT EXISTS cubepi_native_ix_answers ON cubepi_native_answers (thread_id, id);"
    "CREATE TABLE IF NOT EXISTS cubepi_native_started ("
    "  id INTEGER PRIMARY KEY, thread_id TEXT NOT NULL, run_id TEXT NOT NULL,"
    "  batch_id TEXT NOT NULL, tool_call_id TEXT NOT NULL,"
    "  UNIQUE (thread_id, run_id, tool_call_id));"
    "CREATE TABLE IF NOT EXISTS cubepi_native_used_answers ("
    "  thread_id TEXT NOT NULL, run_id TEXT NOT NULL, question_id TEXT NOT NULL,"
    "  answer_json TEXT NOT NULL,"
    "  PRIMARY KEY (thread_id, run_id, question_id)) WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS cubepi_native_schema (version INTEGER NOT NULL);"
    "DELETE FROM cubepi_native_schema;"
    "INSERT INTO cubepi_native_schema VALUES (3);";
static_assert(sqlite_native_version == 3);

bool exists(SqliteDatabase& database, std::string_view table) {
    SqliteStatement statement =
        database.prepare("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?");
    return statement.bind(table).step();
}

bool has_column(SqliteDatabase& database, std::string_view table, std::string_view column) {
    SqliteStatement statement =
        database.prepare("SELECT 1 FROM pragma_table_info(?) WHERE name = ?");
    return statement.bind(table).bind(column).step();
}

/// A file of another program may have tables of these names, too.
void refuse_foreign_tables(SqliteDatabase& database) {
    constexpr std::pair<std::string_view, std::string_view> known[] = {
        {"messages", "thread_id"},
        {"messages", "message_json"},
        {"thread_extra", "extra_json"},
        {"thread_pending_request", "request_json"},
        {"thread_hitl_answers", "answer_json"},
        {"runs", "completion_seq"},
    };
    for (const auto& [table, column] : known) {
        if (!exists(database, table) || has_column(database, table, column)) continue;
        throw CheckpointerError(ErrorCode::schema_mismatch,
                                "SQLite database '" + database.options().path +
                                    "' is another program's: its table " + std::string(table) +
                                    " has no column " + std::string(column) +
                                    "; choose another path",
                                std::string(), std::string(), database.options().path);
    }
}

/// A column that tables of CubePi, or of older versions of ours, lack.
struct AddedColumn {
    const char* table;
    const char* column;
    const char* type;

    std::string sql() const {
        return std::string("ALTER TABLE ") + table + " ADD COLUMN " + column + " " + type;
    }
};

constexpr AddedColumn message_id_column = {"messages", "message_id", "TEXT"};
constexpr AddedColumn shared_columns[] = {
    {"messages", "run_id", "TEXT"},
    {"thread_extra", "parent_thread_id", "TEXT"},
    {"thread_pending_request", "run_id", "TEXT"},
    message_id_column,
};
constexpr AddedColumn inbox_columns[] = {
    {"cubepi_native_pending", "created_at", "REAL NOT NULL DEFAULT 0"},
    {"cubepi_native_pending", "expires_at", "REAL NOT NULL DEFAULT 9e999"},
    {"cubepi_native_pending", "expired", "INTEGER NOT NULL DEFAULT 0"},
};

void add_if_missing(SqliteDatabase& database, const AddedColumn& added) {
    if (!has_column(database, added.table, added.column)) database.execute(added.sql().c_str());
}

/// Prepares the inbox: the times of our requests in columns, and the requests of CubePi in our table.
void add_inbox(SqliteDatabase& database) {
    for (const AddedColumn& column : inbox_columns) add_if_missing(database, column);
    fill_times(database);
    database.execute(inbox_indexes);
    database.execute(change_triggers);
    database.execute(
        "INSERT INTO cubepi_native_changed_pending SELECT thread_id FROM thread_pending_request"
        " WHERE thread_id IS NOT NULL UNION SELECT thread_id FROM cubepi_native_pending");
    adopt_all_changes(database);
}

/// True when nothing is left to do.
bool is_current(SqliteDatabase& database) {
    if (!exists(database, "cubepi_native_schema")) return false;
    const std::int64_t version =
        database.query_integer("SELECT max(version) FROM cubepi_native_schema").value_or(0);
    if (version > sqlite_native_version) {
        throw CheckpointerError(
            ErrorCode::schema_mismatch,
            "SQLite database '" + database.options().path +
                "' was written by a newer version of this program (tables of version " +
                std::to_string(version) + ", known is " + std::to_string(sqlite_native_version) +
                "); update the program",
            std::string(), std::string(), database.options().path);
    }
    return version == sqlite_native_version;
}

}  // namespace

void migrate(SqliteDatabase& database) {
    if (is_current(database)) return;
    if (database.is_read_only()) {
        throw CheckpointerError(
            ErrorCode::permission_denied,
            "SQLite database '" + database.options().path +
                "' is read-only and its tables need an update first; make the file and its "
                "directory writable for this user",
            std::string(), std::string(), database.options().path);
    }
    database.execute("BEGIN IMMEDIATE");
    try {
        // Another process may have been faster.
        if (!is_current(database)) {
            refuse_foreign_tables(database);
            database.execute(shared_tables);
            for (const AddedColumn& column : shared_columns) add_if_missing(database, column);
            database.execute(pending_table);
            database.execute(indexes_and_our_tables);
            add_inbox(database);
        }
        database.execute("COMMIT");
    } catch (...) {
        database.rollback();
        throw;
    }
}

}  // namespace cubepi::detail

namespace cubepi {

std::string sqlite_schema_sql() {
    std::string sql = "BEGIN;\n";
    const auto add = [&sql](const char* statements) { sql += std::string(statements) + "\n"; };
    add(detail::shared_tables);
    sql += detail::message_id_column.sql() + ";\n";
    add(detail::pending_table);
    add(detail::indexes_and_our_tables);
    for (const detail::AddedColumn& column : detail::inbox_columns) sql += column.sql() + ";\n";
    add(detail::inbox_indexes);
    add(detail::change_triggers);
    return sql + "COMMIT;\n";
}

SQLiteSchemaStatus sqlite_schema_status(const std::string& path) {
    SQLiteSchemaStatus status;
    std::error_code failed;
    if (!std::filesystem::exists(path, failed) && !failed) return status;
    SQLiteOptions options;
    options.path = path;
    options.read_only = true;
    detail::SqliteDatabase database(options, detail::SqliteDatabase::Tables::leave);
    status.has_shared_tables = detail::exists(database, "messages");
    if (!detail::exists(database, "cubepi_native_schema")) return status;
    const auto version = database.query_integer("SELECT max(version) FROM cubepi_native_schema");
    if (version) status.native_version = static_cast<int>(*version);
    return status;
}

}  // namespace cubepi
