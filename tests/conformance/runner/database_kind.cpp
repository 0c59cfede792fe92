#include <sqlite3.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <cubepi/checkpoint/sqlite_checkpointer.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/message_json.hpp>

#include "compare.hpp"
#include "kinds.hpp"
#include "store.hpp"
#include "support.hpp"

namespace conformance {

namespace {

using Row = std::function<void(sqlite3_stmt&)>;
using cubepi::Task;

/// Copies a database, with its write-ahead log if there is one, and returns the name of the copy.
std::filesystem::path copy_database(const std::filesystem::path& original,
                                    const std::filesystem::path& directory);

/// Returns the columns and rows of each table as text. Reads the database without the product.
struct TableRows {
    std::string table;
    std::vector<std::string> columns;
    std::vector<std::string> rows;
};

std::vector<TableRows> read_tables(const std::filesystem::path& database);

/// Returns the rows of `before` that the database no longer contains or that have changed. Ignores added tables, columns and rows.
std::vector<std::string> changed_rows(const std::filesystem::path& database,
                                      const std::vector<TableRows>& before);

/// Returns "ok", or the result of SQLite's integrity check.
std::string integrity_of(const std::filesystem::path& database);

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

bool is_odd(const Json& value) {
    if (!value.is_string()) return false;
    const std::string_view text = value.get_string();
    return text == "<NaN>" || text == "<Infinity>" || text == "<-Infinity>" ||
           text.starts_with("<integer ");
}

/// Values that JSON cannot represent may be loaded as approximations: such values are taken from the loaded message.
void adopt_odd(Json& want, const Json& got) {
    if (is_odd(want)) {
        want = got;
    } else if (want.is_object() && got.is_object()) {
        for (auto& [key, value] : want.get_object()) {
            if (const Json* other = got.get_object().if_contains(key)) adopt_odd(value, *other);
        }
    } else if (want.is_array() && got.is_array()) {
        for (std::size_t i = 0; i < want.get_array().size() && i < got.get_array().size(); ++i) {
            adopt_odd(want.get_array()[i], got.get_array()[i]);
        }
    }
}

void keep_keys_of(JsonObject& got, const JsonObject& want) {
    JsonObject common;
    for (const auto& [key, value] : got) {
        if (want.contains(key)) common[key] = value;
    }
    got = std::move(common);
}

/// CubePi shows a count that was not reported as 0 (D12).
void count_unreported(JsonObject& usage, const JsonObject& want) {
    for (const auto& [key, value] : want) {
        if (!usage.contains(key) && value.is_int64() && value.get_int64() == 0) usage[key] = 0;
    }
}

/// Keys that CubePi does not know are preserved by us but not shown by CubePi.
void drop_unknown_keys(JsonObject& got, const JsonObject& want) {
    keep_keys_of(got, want);
    Json* usage = got.if_contains("usage");
    const Json* wanted_usage = want.if_contains("usage");
    if (usage && usage->is_object() && wanted_usage && wanted_usage->is_object()) {
        keep_keys_of(usage->get_object(), wanted_usage->get_object());
        count_unreported(usage->get_object(), wanted_usage->get_object());
    }
    Json* blocks = got.if_contains("content");
    const Json* wanted = want.if_contains("content");
    if (!blocks || !wanted || !blocks->is_array() || !wanted->is_array()) return;
    for (std::size_t i = 0; i < blocks->get_array().size() && i < wanted->get_array().size(); ++i) {
        Json& block = blocks->get_array()[i];
        const Json& other = wanted->get_array()[i];
        if (block.is_object() && other.is_object())
            keep_keys_of(block.get_object(), other.get_object());
    }
}

void compare_messages(const Json& wanted, const cubepi::MessageList& messages,
                      const std::string& at, std::vector<std::string>& found) {
    Json want = wanted;
    JsonArray got;
    for (std::size_t i = 0; i < messages.size(); ++i) {
        JsonObject form = cubepi::to_json(messages[i]);
        if (i < want.get_array().size()) drop_unknown_keys(form, want.get_array()[i].as_object());
        got.emplace_back(std::move(form));
    }
    const Json all = std::move(got);
    adopt_odd(want, all);
    for (std::string& difference : differences(want, all, at))
        found.push_back(std::move(difference));
}

void compare(const Json& wanted, const Json& got, const std::string& at,
             std::vector<std::string>& found) {
    Json want = wanted;
    adopt_odd(want, got);
    for (std::string& difference : differences(want, got, at))
        found.push_back(std::move(difference));
}

class DatabaseCheck {
public:
    DatabaseCheck(cubepi::SQLiteCheckpointer& store, std::string thread, const JsonObject& want,
                  std::vector<std::string>& found)
        : store_(store),
          thread_(std::move(thread)),
          at_("/threads/" + thread_),
          want_(want),
          found_(found) {}

    Task<> perform() {
        if (want_.contains("error")) {
            co_await check_failure();
            co_return;
        }
        co_await check_content();
        co_await check_approvers();
        co_await check_runs();
    }

private:
    Task<> check_failure();
    Task<> check_content();
    Task<> check_approvers();
    Task<> check_runs();

    cubepi::SQLiteCheckpointer& store_;
    std::string thread_;
    std::string at_;
    const JsonObject& want_;
    std::vector<std::string>& found_;
};

Task<> DatabaseCheck::check_failure() {
    std::exception_ptr failure;
    try {
        (void)co_await store_.load(thread_);
    } catch (...) {
        failure = std::current_exception();
    }
    if (!failure) {
        found_.push_back(at_ + "/error: want " + boost::json::serialize(want_.at("error")) +
                         ", got a loaded thread");
        co_return;
    }
    try {
        std::rethrow_exception(failure);
    } catch (const cubepi::CheckpointCorruptionError& error) {
        compare(want_.at("thread_id"), Json(error.thread_id()), at_ + "/thread_id", found_);
        compare(want_.at("backend"), Json(error.backend()), at_ + "/backend", found_);
        compare(want_.at("row_ref"), Json(error.row_ref()), at_ + "/row_ref", found_);
    } catch (const std::exception& error) {
        found_.push_back(at_ + "/error: want CheckpointCorruptionError, got " + error.what());
    }
}

Task<> DatabaseCheck::check_content() {
    const std::optional<cubepi::CheckpointData> data = co_await store_.load(thread_);
    if (want_.at("messages").is_null()) {
        if (data) found_.push_back(at_ + "/messages: want nothing loaded, got a thread");
        co_return;
    }
    if (!data) {
        found_.push_back(at_ + "/messages: want a thread, got nothing loaded");
        co_return;
    }
    compare_messages(want_.at("messages"), data->messages, at_ + "/messages", found_);
    compare(want_.at("extra"), data->extra, at_ + "/extra", found_);
    const Json parent = data->parent_thread_id ? Json(*data->parent_thread_id) : Json(nullptr);
    compare(want_.at("parent_thread_id"), parent, at_ + "/parent_thread_id", found_);
}

Task<> DatabaseCheck::check_approvers() {
    const std::vector<cubepi::PendingRequest> pending =
        co_await store_.load_pending_requests(thread_);
    Json got;
    if (!pending.empty()) {
        JsonObject form;
        form["run_id"] =
            pending.front().run_id.empty() ? Json(nullptr) : Json(pending.front().run_id);
        form["request"] = cubepi::to_json(pending.front().request);
        got = std::move(form);
    }
    compare(want_.at("pending"), got, at_ + "/pending", found_);
    for (const Json& answer : want_.at("answers").as_array()) {
        const JsonObject& form = answer.as_object();
        std::string run_id = text_or(form, "run_id", "");
        std::string question_id = text_or(form, "question_id", "");
        const std::optional<Json> loaded =
            co_await store_.load_hitl_answer(thread_, run_id, question_id);
        compare(form.at("answer"), loaded ? *loaded : Json(nullptr),
                at_ + "/answers/" + question_id, found_);
    }
}

Task<> DatabaseCheck::check_runs() {
    for (const Json& run : want_.at("runs").as_array()) {
        const std::string run_id = text_or(run.as_object(), "run_id", "");
        const bool complete = co_await store_.is_run_complete(thread_, run_id);
        compare(Json(!run.at("completed_at").is_null()), Json(complete), at_ + "/runs/" + run_id,
                found_);
    }
    for (const auto& [key, indexes] : want_.at("snapshots").as_object()) {
        const std::string run_id(key);
        const cubepi::MessageList messages = co_await store_.snapshot(thread_, run_id);
        JsonArray want;
        for (const Json& index : indexes.as_array()) {
            want.push_back(want_.at("messages").as_array().at(index.to_number<std::size_t>()));
        }
        compare_messages(want, messages, at_ + "/snapshots/" + run_id, found_);
    }
}

Task<> check_all_threads(std::filesystem::path file, const JsonObject& threads,
                         std::vector<std::string>& found) {
    cubepi::SQLiteCheckpointer store(file.string());
    for (const auto& [thread, want] : threads) {
        DatabaseCheck check(store, std::string(thread), want.as_object(), found);
        std::exception_ptr failure;
        try {
            co_await check.perform();
        } catch (...) {
            failure = std::current_exception();
        }
        if (failure)
            found.push_back("/threads/" + std::string(thread) + ": " +
                            cubepi::exception_text(failure));
    }
}

}  // namespace

std::vector<std::string> check_database(const std::filesystem::path& file, const Json& content) {
    const JsonObject& form = as_object(content, "file");
    if (!form.contains("sqlite")) throw Unsupported("only SQLite databases");
    std::filesystem::path original = file;
    original.replace_extension(".sqlite");
    if (!std::filesystem::exists(original)) throw BadFile(original.string() + " is missing");

    const JsonObject& threads = as_object(form.at("threads"), "threads");
    const TemporaryDirectory directory;
    std::vector<std::string> found;
    constexpr std::chrono::seconds limit(60);

    const std::vector<TableRows> before = read_tables(copy_database(original, directory.path()));
    const std::filesystem::path copy = copy_database(original, directory.path());
    if (!run_within(check_all_threads(copy, threads, found), limit))
        throw std::runtime_error("hang: reading");
    for (const std::string& row : changed_rows(copy, before))
        found.push_back("/unchanged: lost or changed: " + row);
    if (integrity_of(copy) != "ok")
        found.push_back("/sqlite/integrity: want \"ok\", got " + integrity_of(copy));

    // From one copy each: prompts, and answers to what waits.
    const TemporaryDirectory second;
    const std::filesystem::path answered = copy_database(original, second.path());
    if (!run_within(continue_from(copy, threads, false, found), limit))
        throw std::runtime_error("hang: continuing");
    if (!run_within(continue_from(answered, threads, true, found), limit))
        throw std::runtime_error("hang: answering");
    std::vector<TableRows> log;
    for (const TableRows& table : before) {
        if (table.table == "messages") log.push_back(table);
    }
    for (const std::string& row : changed_rows(copy, log))
        found.push_back("/onward: lost or changed: " + row);
    return found;
}

}  // namespace conformance
