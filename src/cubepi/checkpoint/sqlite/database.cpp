#include <cubepi/checkpoint/sqlite/database.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <utility>

#include <sqlite3.h>

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

SqliteStatement SqliteDatabase::prepare(std::string_view sql) {
    sqlite3_stmt*& statement = statements_[sql];
    if (!statement) {
        const int result = sqlite3_prepare_v3(handle_, sql.data(), static_cast<int>(sql.size()),
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

void SqliteDatabase::fail_row(const std::string& thread_id, const std::string& row_ref,
                              std::string_view why, std::string_view remedy) const {
    throw CheckpointCorruptionError(
        "SQLite database '" + options_.path + "': row " + row_ref + " of thread '" + thread_id +
            "' cannot be read: " + std::string(why) + "; " + std::string(remedy),
        thread_id, "sqlite", row_ref, options_.path);
}

}  // namespace cubepi::detail
