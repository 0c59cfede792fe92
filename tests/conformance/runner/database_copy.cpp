#include "database_copy.hpp"

#include <sqlite3.h>

#include <algorithm>
#include <functional>
#include <stdexcept>
#include <utility>

#include <cubepi/checkpoint/sqlite_checkpointer.hpp>

#include "store.hpp"
#include "support.hpp"

namespace conformance {

namespace {

using Row = std::function<void(sqlite3_stmt&)>;

class Database {
public:
    explicit Database(const std::filesystem::path& file) {
        if (sqlite3_open(file.c_str(), &handle_) != SQLITE_OK) fail(file.string());
    }
    ~Database() { sqlite3_close(handle_); }
    Database(const Database&) = delete;
    Database& operator=(const Database&) = delete;

    void each(const std::string& query, const Row& row) {
        sqlite3_stmt* raw = nullptr;
        if (sqlite3_prepare_v2(handle_, query.c_str(), -1, &raw, nullptr) != SQLITE_OK) fail(query);
        const std::unique_ptr<sqlite3_stmt, int (*)(sqlite3_stmt*)> statement(raw,
                                                                              sqlite3_finalize);
        int status = sqlite3_step(raw);
        for (; status == SQLITE_ROW; status = sqlite3_step(raw)) row(*raw);
        if (status != SQLITE_DONE) fail(query);
    }

private:
    [[noreturn]] void fail(const std::string& what) {
        throw std::runtime_error("SQLite: " + what + ": " + sqlite3_errmsg(handle_));
    }
    sqlite3* handle_ = nullptr;
};

std::string text_at(sqlite3_stmt& row, int column) {
    const void* bytes = sqlite3_column_blob(&row, column);
    const auto size = static_cast<std::size_t>(sqlite3_column_bytes(&row, column));
    return bytes ? std::string(static_cast<const char*>(bytes), size) : std::string();
}

std::string quoted(const std::string& name) { return '"' + name + '"'; }

/// Copies a database, with its write-ahead log if there is one, and returns the name of the copy.
std::filesystem::path copy_database(const std::filesystem::path& original,
                                    const std::filesystem::path& directory) {
    const std::filesystem::path copy = directory / original.filename();
    const auto overwrite = std::filesystem::copy_options::overwrite_existing;
    std::filesystem::copy_file(original, copy, overwrite);
    std::filesystem::path log = original;
    log += "-wal";
    if (std::filesystem::exists(log)) {
        std::filesystem::path log_copy = copy;
        log_copy += "-wal";
        std::filesystem::copy_file(log, log_copy, overwrite);
    }
    namespace fs = std::filesystem;
    fs::permissions(copy, fs::perms::owner_write, fs::perm_options::add);
    return copy;
}

class SQLiteCopy final : public DatabaseCopy {
public:
    explicit SQLiteCopy(const std::filesystem::path& original)
        : file_(copy_database(original, directory_.path())) {}

    std::shared_ptr<cubepi::Checkpointer> open() override {
        return std::make_shared<cubepi::SQLiteCheckpointer>(file_.string());
    }
    std::string integrity() override { return texts("PRAGMA integrity_check").front(); }

private:
    std::vector<std::string> table_names() override {
        return texts(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' "
            "ORDER BY name");
    }
    std::vector<std::string> columns(const std::string& table) override {
        return texts("SELECT name FROM pragma_table_info('" + table + "')");
    }
    std::vector<std::string> rows(const std::string& table,
                                  const std::vector<std::string>& columns) override {
        std::string list;
        for (const std::string& column : columns)
            list += (list.empty() ? "" : ", ") + quoted(column);
        std::vector<std::string> rows;
        Database(file_).each("SELECT " + list + " FROM " + quoted(table), [&](sqlite3_stmt& row) {
            std::string text;
            for (int i = 0; i < sqlite3_column_count(&row); ++i) {
                text += (i == 0 ? "" : " | ") + columns[static_cast<std::size_t>(i)] + "=";
                text += sqlite3_column_type(&row, i) == SQLITE_NULL ? "NULL" : text_at(row, i);
            }
            rows.push_back(std::move(text));
        });
        return rows;
    }
    std::vector<std::string> texts(const std::string& query) {
        std::vector<std::string> found;
        Database(file_).each(query, [&](sqlite3_stmt& row) { found.push_back(text_at(row, 0)); });
        return found;
    }

    const TemporaryDirectory directory_;
    const std::filesystem::path file_;
};

}  // namespace

std::unique_ptr<DatabaseCopy> DatabaseCopy::of(const std::filesystem::path& file,
                                               const JsonObject& form) {
    const bool is_file = form.contains("sqlite");
    std::filesystem::path original = file;
    original.replace_extension(is_file ? ".sqlite" : ".sql");
    if (!std::filesystem::exists(original)) throw BadFile(original.string() + " is missing");
    if (is_file) return std::make_unique<SQLiteCopy>(original);
    return copy_on_server(file.stem().string(), original);
}

std::vector<TableRows> DatabaseCopy::tables() {
    std::vector<TableRows> tables;
    for (const std::string& name : table_names()) {
        std::vector<std::string> all = columns(name);
        std::vector<std::string> sorted = rows(name, all);
        std::sort(sorted.begin(), sorted.end());
        tables.push_back(TableRows{name, std::move(all), std::move(sorted)});
    }
    return tables;
}

std::vector<std::string> DatabaseCopy::changed_rows(const std::vector<TableRows>& before) {
    std::vector<std::string> changed;
    for (const TableRows& table : before) {
        std::vector<std::string> now = rows(table.table, table.columns);
        std::sort(now.begin(), now.end());
        for (const std::string& row : table.rows) {
            if (!std::binary_search(now.begin(), now.end(), row))
                changed.push_back(table.table + ": " + row);
        }
    }
    return changed;
}

}  // namespace conformance
