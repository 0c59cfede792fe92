#include <utility>

#include <cubepi/checkpoint/sqlite/database.hpp>
#include <cubepi/core/error.hpp>

namespace cubepi::detail {

namespace {

constexpr std::int64_t our_version = 2;

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
    "CREATE TABLE IF NOT EXISTS cubepi_native_pending ("
    "  id INTEGER PRIMARY KEY, thread_id TEXT NOT NULL, run_id TEXT NOT NULL,"
    "  question_id TEXT NOT NULL, request_json TEXT NOT NULL, approval_digest TEXT,"
    "  UNIQUE (thread_id, run_id, question_id));"
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
    "INSERT INTO cubepi_native_schema VALUES (2);";

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

void add_missing_column(SqliteDatabase& database, std::string_view table, std::string_view column) {
    if (has_column(database, table, column)) return;
    const std::string sql =
        "ALTER TABLE " + std::string(table) + " ADD COLUMN " + std::string(column) + " TEXT";
    database.execute(sql.c_str());
}

/// True when nothing is left to do.
bool is_current(SqliteDatabase& database) {
    if (!exists(database, "cubepi_native_schema")) return false;
    const std::int64_t version =
        database.query_integer("SELECT max(version) FROM cubepi_native_schema").value_or(0);
    if (version > our_version) {
        throw CheckpointerError(
            ErrorCode::schema_mismatch,
            "SQLite database '" + database.options().path +
                "' was written by a newer version of this program (tables of version " +
                std::to_string(version) + ", known is " + std::to_string(our_version) +
                "); update the program",
            std::string(), std::string(), database.options().path);
    }
    return version == our_version;
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
            add_missing_column(database, "messages", "run_id");
            add_missing_column(database, "thread_extra", "parent_thread_id");
            add_missing_column(database, "thread_pending_request", "run_id");
            add_missing_column(database, "messages", "message_id");
            database.execute(indexes_and_our_tables);
        }
        database.execute("COMMIT");
    } catch (...) {
        database.rollback();
        throw;
    }
}

}  // namespace cubepi::detail
