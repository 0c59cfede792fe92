#include <cubepi/checkpoint/sqlite/database.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <new>
#include <system_error>
#include <utility>

#include <sqlite3.h>

#include <cubepi/checkpoint/sqlite/tables.hpp>
#include <cubepi/checkpoint/sqlite_schema.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/support/posix_file.hpp>

namespace cubepi::detail {

namespace {

bool names_a_file(const std::string& path) {
    return path != ":memory:" && path.rfind("file:", 0) != 0;
}

[[noreturn]] void refuse(const std::string& path, ErrorCode code, const std::string& text) {
    throw CheckpointerError(code, text, std::string(), std::string(), path);
}

std::string cannot_open(const std::string& path) {
    return "cannot open the SQLite database '" + path + "': ";
}

/// Rejects a pipe or device: SQLite would block on it, or fail with an I/O error.
void refuse_no_file(const std::string& path) {
    const std::string_view kind = kind_if_not_regular(std::filesystem::path(path));
    if (kind.empty()) return;
    refuse(path, ErrorCode::storage,
           cannot_open(path) + "it is " + std::string(kind) +
               (kind == "a directory" ? "; give the path of a file in it"
                                      : "; give the path of a file"));
}

/// Creates the file with the mode 0600, which its journals inherit; SQLite would create it with 0644. An existing file keeps
/// its mode. Errors are ignored: they recur when SQLite opens the file.
void make_private_file(const std::string& path) {
    (void)open_file(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW);
}

/// Throws the reason why SQLite could not open the file, which its own error does not contain.
[[noreturn]] void explain_open_failure(const SQLiteOptions& options, const std::string& reason,
                                       int system_error) {
    const std::string& path = options.path;
    const std::string start = cannot_open(path);
    if (names_a_file(path)) {
        std::error_code ignored;
        const std::filesystem::path directory = std::filesystem::path(path).parent_path();
        if (!directory.empty() && !std::filesystem::exists(directory, ignored)) {
            refuse(path, ErrorCode::not_found,
                   start + "the directory '" + directory.string() +
                       "' does not exist; create it first (mkdir -p)");
        }
        if (!directory.empty() && !std::filesystem::is_directory(directory, ignored)) {
            refuse(path, ErrorCode::storage,
                   start + "'" + directory.string() + "' is not a directory; choose another path");
        }
        if (options.read_only && system_error == ENOENT) {
            refuse(path, ErrorCode::not_found,
                   start + "the file does not exist, and it is opened read-only; check the path");
        }
    }
    if (system_error == EACCES || system_error == EPERM) {
        refuse(path, ErrorCode::permission_denied,
               start + "permission denied; make the file and its directory writable for this user");
    }
    refuse(path, ErrorCode::storage,
           start + reason + (system_error ? " (" + errno_text(system_error) + ")" : "") +
               "; choose another path");
}

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

/// The rows of the table are the versions of programs that may use the file (D208).
std::optional<FormatVersion> native_version(SqliteDatabase& database) {
    std::optional<FormatVersion> found;
    if (!exists(database, "cubepi_native_schema")) return found;
    const auto newest = database.query_integer("SELECT max(version) FROM cubepi_native_schema");
    const auto oldest = database.query_integer("SELECT min(version) FROM cubepi_native_schema");
    if (newest && oldest)
        found = FormatVersion{static_cast<int>(*newest), static_cast<int>(*oldest)};
    return found;
}

/// True when nothing is left to do.
bool is_current(SqliteDatabase& database) {
    const std::optional<FormatVersion> found = native_version(database);
    if (found && found->is_refused_by(sqlite_native_version)) {
        throw CheckpointerError(ErrorCode::schema_mismatch,
                                "SQLite database '" + database.options().path +
                                    "': the tables cubepi_native_* are " +
                                    refusal_text(*found, sqlite_native_version),
                                std::string(), std::string(), database.options().path);
    }
    return is_usable(found, sqlite_native_version);
}

}  // namespace

SqliteStatement::~SqliteStatement() {
    sqlite3_reset(statement_);
    sqlite3_clear_bindings(statement_);
}

SqliteStatement& SqliteStatement::bind(std::string_view text) {
    // A null pointer would bind NULL.
    const char* data = text.data() ? text.data() : "";
    const int result = sqlite3_bind_text64(statement_, next_parameter_++, data, text.size(),
                                           SQLITE_STATIC, SQLITE_UTF8);
    if (result != SQLITE_OK) database_->fail(result);
    return *this;
}

SqliteStatement& SqliteStatement::bind(std::int64_t number) {
    const int result = sqlite3_bind_int64(statement_, next_parameter_++, number);
    if (result != SQLITE_OK) database_->fail(result);
    return *this;
}

SqliteStatement& SqliteStatement::bind(double number) {
    const int result = sqlite3_bind_double(statement_, next_parameter_++, number);
    if (result != SQLITE_OK) database_->fail(result);
    return *this;
}

SqliteStatement& SqliteStatement::bind_or_null(std::string_view text) {
    if (!text.empty()) return bind(text);
    const int result = sqlite3_bind_null(statement_, next_parameter_++);
    if (result != SQLITE_OK) database_->fail(result);
    return *this;
}

bool SqliteStatement::step() {
    const int result = sqlite3_step(statement_);
    if (result == SQLITE_ROW) return true;
    if (result == SQLITE_DONE) return false;
    database_->fail(result);
}

bool SqliteStatement::is_null(int column) const noexcept {
    return sqlite3_column_type(statement_, column) == SQLITE_NULL;
}

std::string_view SqliteStatement::text(int column) const noexcept {
    const auto* data = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
    if (!data) return {};
    return {data, static_cast<std::size_t>(sqlite3_column_bytes(statement_, column))};
}

std::int64_t SqliteStatement::integer(int column) const noexcept {
    return sqlite3_column_int64(statement_, column);
}

double SqliteStatement::number(int column) const noexcept {
    return sqlite3_column_double(statement_, column);
}

std::vector<SqliteValue> SqliteStatement::row() const {
    std::vector<SqliteValue> values;
    for (int column = 0; column < sqlite3_column_count(statement_); ++column) {
        values.emplace_back(sqlite3_value_dup(sqlite3_column_value(statement_, column)));
        if (!values.back()) throw std::bad_alloc();
    }
    return values;
}

void SqliteValueFree::operator()(sqlite3_value* value) const noexcept { sqlite3_value_free(value); }

StoreName sqlite_name(const SQLiteOptions& options) {
    return {"SQLite database '" + options.path + "'", "sqlite", options.path};
}

SqliteDatabase::SqliteDatabase(const SQLiteOptions& options, Tables tables) : options_(options) {
    try {
        open_file();
        set_up();
        if (tables == Tables::migrate) migrate(*this);
    } catch (...) {
        for (const auto& [sql, statement] : statements_) sqlite3_finalize(statement);
        sqlite3_close_v2(handle_);
        throw;
    }
}

SqliteDatabase::~SqliteDatabase() {
    for (const auto& [sql, statement] : statements_) sqlite3_finalize(statement);
    sqlite3_close_v2(handle_);
}

void SqliteDatabase::open_file() {
    if (options_.path.empty()) {
        refuse(options_.path, ErrorCode::invalid_argument,
               "the path of the SQLite database is empty; give a file, or \":memory:\"");
    }
    if (names_a_file(options_.path)) refuse_no_file(options_.path);
    if (names_a_file(options_.path) && !options_.read_only) make_private_file(options_.path);
    // Only one thread uses the connection, so SQLite's own locks are not needed.
    const int access =
        options_.read_only ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
    const int flags = access | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
    const int result = sqlite3_open_v2(options_.path.c_str(), &handle_, flags, nullptr);
    if (result != SQLITE_OK) {
        const std::string reason = handle_ ? sqlite3_errmsg(handle_) : sqlite3_errstr(result);
        explain_open_failure(options_, reason, handle_ ? sqlite3_system_errno(handle_) : 0);
    }
}

void SqliteDatabase::set_up() {
    sqlite3_busy_timeout(handle_, static_cast<int>(options_.busy_timeout.count()));
    if (options_.wal && !is_read_only()) execute("PRAGMA journal_mode = wal");
    if (options_.synchronous) {
        switch (*options_.synchronous) {
            case SQLiteSynchronous::full: execute("PRAGMA synchronous = full"); break;
            case SQLiteSynchronous::normal: execute("PRAGMA synchronous = normal"); break;
            case SQLiteSynchronous::off: execute("PRAGMA synchronous = off"); break;
        }
    }
    if (options_.max_bytes > 0) {
        const auto page_size =
            static_cast<std::uint64_t>(query_integer("PRAGMA page_size").value_or(4096));
        const std::uint64_t pages = std::max<std::uint64_t>(1, options_.max_bytes / page_size);
        execute(("PRAGMA max_page_count = " + std::to_string(pages)).c_str());
    }
}

SqliteStatement SqliteDatabase::prepare(std::string_view sql,
                                        std::string (*expand)(std::string_view)) {
    auto found = statements_.find(sql);
    if (found == statements_.end()) found = statements_.emplace(sql, nullptr).first;
    sqlite3_stmt*& statement = found->second;
    if (!statement) {
        const std::string text = expand ? expand(sql) : found->first;
        const int result = sqlite3_prepare_v3(handle_, text.data(), static_cast<int>(text.size()),
                                              SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
        if (result != SQLITE_OK) fail(result);
    }
    return SqliteStatement(*this, statement);
}

void SqliteDatabase::execute(const char* sql) {
    const int result = sqlite3_exec(handle_, sql, nullptr, nullptr, nullptr);
    if (result != SQLITE_OK) fail(result);
}

std::optional<std::int64_t> SqliteDatabase::query_integer(std::string_view sql) {
    SqliteStatement statement = prepare(sql);
    std::optional<std::int64_t> value;
    if (statement.step() && !statement.is_null(0)) value = statement.integer(0);
    return value;
}

std::optional<std::vector<std::string>> SqliteDatabase::quick_check(
    std::chrono::milliseconds limit) {
    using Clock = std::chrono::steady_clock;
    Clock::time_point end = Clock::now() + limit;
    const auto is_late = [](void* until) {
        return static_cast<int>(Clock::now() > *static_cast<Clock::time_point*>(until));
    };
    std::vector<std::string> problems;
    const auto add = [](void* to, int, char** values, char**) {
        if (values[0] && std::string_view(values[0]) != "ok")
            static_cast<std::vector<std::string>*>(to)->emplace_back(values[0]);
        return 0;
    };
    constexpr int steps = 10'000;
    sqlite3_progress_handler(handle_, steps, is_late, &end);
    const int result = sqlite3_exec(handle_, "PRAGMA quick_check", add, &problems, nullptr);
    sqlite3_progress_handler(handle_, 0, nullptr, nullptr);
    if (result == SQLITE_INTERRUPT) return std::nullopt;
    if (result != SQLITE_OK) fail(result);
    return problems;
}

bool SqliteDatabase::in_transaction() const noexcept {
    return sqlite3_get_autocommit(handle_) == 0;
}

void SqliteDatabase::rollback() noexcept {
    if (in_transaction()) sqlite3_exec(handle_, "ROLLBACK", nullptr, nullptr, nullptr);
}

bool SqliteDatabase::is_read_only() const noexcept {
    return sqlite3_db_readonly(handle_, "main") == 1;
}

std::int64_t SqliteDatabase::last_insert_id() const noexcept {
    return sqlite3_last_insert_rowid(handle_);
}

std::int64_t SqliteDatabase::changes() const noexcept { return sqlite3_changes(handle_); }

double SqliteDatabase::now() const {
    return std::chrono::duration<double>(options_.clock->wall().time_since_epoch()).count();
}

void SqliteDatabase::log_failure(int result) const {
    const int kind = result & 0xff;
    if (kind == SQLITE_BUSY || kind == SQLITE_LOCKED) {
        options_.log->write(LogLevel::warning, "store.busy",
                            {{"store", "sqlite"},
                             {"path", options_.path},
                             {"waited_ms", options_.busy_timeout.count()}});
    } else {
        options_.log->write(
            LogLevel::error, "store.failed",
            {{"store", "sqlite"}, {"path", options_.path}, {"sqlite_code", result}});
    }
}

void SqliteDatabase::fail(int result) {
    if (options_.log) log_failure(result);
    const std::string where = "SQLite database '" + options_.path + "': ";
    const std::string reason = sqlite3_errmsg(handle_);
    const int system_error = sqlite3_system_errno(handle_);
    if (result == SQLITE_READONLY_DBMOVED) fail_moved();
    switch (result & 0xff) {
        case SQLITE_BUSY:
        case SQLITE_LOCKED:
            throw CheckpointerLockTimeoutError(
                ErrorCode::storage_locked,
                where + "another process has held it for " +
                    std::to_string(std::max<std::int64_t>(0, options_.busy_timeout.count())) +
                    " ms; nothing was stored; try again later",
                std::string(), std::string(), options_.path);
        case SQLITE_NOTADB:
            refuse(
                options_.path, ErrorCode::storage_corrupt,
                where +
                    "this is not an SQLite database; choose another path, or move the file away");
        case SQLITE_CORRUPT:
            throw CheckpointCorruptionError(where + "the file is damaged (" + reason +
                                                "); recover it with `sqlite3 FILE .recover`",
                                            std::string(), "sqlite", "database", options_.path);
        case SQLITE_FULL: break;
        case SQLITE_READONLY:
            refuse(
                options_.path, ErrorCode::permission_denied,
                where + "it is read-only; make the file and its directory writable for this user");
        case SQLITE_CANTOPEN: explain_open_failure(options_, reason, system_error);
        case SQLITE_IOERR:
            if (is_out_of_space(system_error)) break;
            refuse(options_.path, ErrorCode::storage,
                   where + reason + (system_error ? " (" + errno_text(system_error) + ")" : "") +
                       "; nothing was stored; check the disk and its limits, then try again");
        default: refuse(options_.path, ErrorCode::storage, where + reason);
    }
    refuse(options_.path, ErrorCode::storage_full,
           where + "no space is left; nothing was stored; free some space and try again");
}

bool SqliteDatabase::was_moved() const noexcept {
    int moved = 0;
    const int result =
        sqlite3_file_control(handle_, "main", SQLITE_FCNTL_HAS_MOVED, static_cast<void*>(&moved));
    return result == SQLITE_OK && moved != 0;
}

void SqliteDatabase::fail_moved() const {
    refuse(options_.path, ErrorCode::storage,
           "SQLite database '" + options_.path +
               "': the file was moved, replaced or deleted while it was in use; nothing was "
               "stored; restore it, or retry to use the file that is at the path now");
}

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
    if (const std::optional<FormatVersion> found = detail::native_version(database)) {
        status.native_version = found->version;
        status.native_readable_from = found->readable_from;
    }
    return status;
}

}  // namespace cubepi
