#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <cubepi/checkpoint/format/stored_message_reader.hpp>
#include <cubepi/checkpoint/sqlite_checkpointer.hpp>
#include <cubepi/checkpoint/support/store_errors.hpp>

struct sqlite3;
struct sqlite3_stmt;
struct sqlite3_value;

namespace cubepi::detail {

class SqliteDatabase;

struct SqliteValueFree {
    void operator()(sqlite3_value* value) const noexcept;
};
using SqliteValue = std::unique_ptr<sqlite3_value, SqliteValueFree>;

/// Returns the name of the file in errors.
StoreName sqlite_name(const SQLiteOptions& options);

/// One use of a prepared statement. Bound text must outlive the object.
class SqliteStatement {
public:
    SqliteStatement(SqliteDatabase& database, sqlite3_stmt* statement) noexcept
        : database_(&database), statement_(statement) {}
    SqliteStatement(const SqliteStatement&) = delete;
    SqliteStatement& operator=(const SqliteStatement&) = delete;
    ~SqliteStatement();

    // Binds the next parameter.
    SqliteStatement& bind(std::string_view text);
    SqliteStatement& bind(std::int64_t number);
    SqliteStatement& bind(double number);
    /// Binds NULL if the text is empty.
    SqliteStatement& bind_or_null(std::string_view text);

    /// Returns false at the end of the rows.
    bool step();
    /// Runs a statement that returns no rows.
    void run() {
        while (step()) {
        }
    }

    bool is_null(int column) const noexcept;
    /// Valid until the next step.
    std::string_view text(int column) const noexcept;
    std::int64_t integer(int column) const noexcept;
    double number(int column) const noexcept;
    /// Returns copies of the values of the row, which any thread may use.
    std::vector<SqliteValue> row() const;

private:
    SqliteDatabase* database_;
    sqlite3_stmt* statement_;
    int next_parameter_ = 1;
};

/// An open database file with its prepared statements. Used by one thread at a time.
class SqliteDatabase {
public:
    enum class Tables : std::uint8_t { migrate, leave };
    /// Opens the file, creates it if it does not exist, and migrates its tables.
    explicit SqliteDatabase(const SQLiteOptions& options, Tables tables = Tables::migrate);
    ~SqliteDatabase();
    SqliteDatabase(const SqliteDatabase&) = delete;
    SqliteDatabase& operator=(const SqliteDatabase&) = delete;

    /// A statement is prepared once. `expand` returns the text that SQLite executes; null: `sql` itself.
    SqliteStatement prepare(std::string_view sql,
                            std::string (*expand)(std::string_view) = nullptr);
    void execute(const char* sql);
    /// Returns the first column of the first row. Returns nothing if there is none, or it is NULL.
    std::optional<std::int64_t> query_integer(std::string_view sql);

    /// Returns false after SQLite has rolled a transaction back by itself.
    bool in_transaction() const noexcept;
    /// Rolls back the transaction, if any. Never throws.
    void rollback() noexcept;
    bool is_read_only() const noexcept;
    std::int64_t last_insert_id() const noexcept;
    std::int64_t changes() const noexcept;

    /// Checks the pages and indexes, and returns what is wrong with them. Returns nothing if that takes longer than `limit`: other
    /// processes cannot write meanwhile unless the file has write-ahead logging.
    std::optional<std::vector<std::string>> quick_check(std::chrono::milliseconds limit);

    StoreName name() const { return sqlite_name(options_); }
    const SQLiteOptions& options() const noexcept { return options_; }
    /// Returns Unix seconds, by the clock of the options.
    double now() const;
    StoredMessageReader& reader() noexcept { return reader_; }

    /// Returns true if the path no longer leads to the open file: what is written to it then is lost.
    bool was_moved() const noexcept;
    [[noreturn]] void fail_moved() const;
    /// Throws the error that corresponds to SQLite's last error.
    [[noreturn]] void fail(int result);
    void log_failure(int result) const;

private:
    void open_file();
    void set_up();

    SQLiteOptions options_;
    sqlite3* handle_ = nullptr;
    struct TextHash {
        using is_transparent = void;
        std::size_t operator()(std::string_view text) const noexcept {
            return std::hash<std::string_view>()(text);
        }
    };
    std::unordered_map<std::string, sqlite3_stmt*, TextHash, std::equal_to<>> statements_;
    StoredMessageReader reader_;
};

/// Creates and updates the tables. Has no effect, and takes no lock, if they are current.
void migrate(SqliteDatabase& database);

}  // namespace cubepi::detail
