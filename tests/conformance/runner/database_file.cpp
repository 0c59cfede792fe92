#include "database_file.hpp"

#include <sqlite3.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <stdexcept>
#include <utility>

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

std::vector<std::string> read_rows(Database& database, const std::string& table,
                                   const std::vector<std::string>& columns) {
    std::string list;
    for (const std::string& column : columns) list += (list.empty() ? "" : ", ") + quoted(column);
    std::vector<std::string> rows;
    database.each("SELECT " + list + " FROM " + quoted(table), [&](sqlite3_stmt& row) {
        std::string text;
        for (int i = 0; i < sqlite3_column_count(&row); ++i) {
            text += (i == 0 ? "" : " | ") + columns[static_cast<std::size_t>(i)] + "=";
            text += sqlite3_column_type(&row, i) == SQLITE_NULL ? "NULL" : text_at(row, i);
        }
        rows.push_back(std::move(text));
    });
    std::sort(rows.begin(), rows.end());
    return rows;
}

}  // namespace

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

std::vector<TableRows> read_tables(const std::filesystem::path& file) {
    Database database(file);
    std::vector<TableRows> tables;
    database.each(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY "
        "name",
        [&](sqlite3_stmt& row) { tables.push_back(TableRows{text_at(row, 0), {}, {}}); });
    for (TableRows& table : tables) {
        database.each("SELECT name FROM pragma_table_info('" + table.table + "')",
                      [&](sqlite3_stmt& row) { table.columns.push_back(text_at(row, 0)); });
        table.rows = read_rows(database, table.table, table.columns);
    }
    return tables;
}

std::vector<std::string> changed_rows(const std::filesystem::path& file,
                                      const std::vector<TableRows>& before) {
    Database database(file);
    std::vector<std::string> changed;
    for (const TableRows& table : before) {
        const std::vector<std::string> now = read_rows(database, table.table, table.columns);
        for (const std::string& row : table.rows) {
            if (!std::binary_search(now.begin(), now.end(), row))
                changed.push_back(table.table + ": " + row);
        }
    }
    return changed;
}

std::string integrity_of(const std::filesystem::path& file) {
    Database database(file);
    std::string answer;
    database.each("PRAGMA integrity_check", [&](sqlite3_stmt& row) { answer = text_at(row, 0); });
    return answer;
}

}  // namespace conformance
