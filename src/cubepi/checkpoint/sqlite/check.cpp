#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <cubepi/checkpoint/sqlite/tables.hpp>
#include <cubepi/checkpoint/sqlite/worker.hpp>
#include <cubepi/checkpoint/sqlite_checkpointer.hpp>
#include <cubepi/checkpoint/sqlite_schema.hpp>
#include <cubepi/checkpoint/tables/check.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/offload.hpp>
#include <cubepi/core/runtime.hpp>

// Checks a file with threads.

namespace cubepi::detail {

namespace {

constexpr auto longest_check = std::chrono::seconds(2);

/// Reports tables that are not current. Returns true if they are.
bool check_versions(const SQLiteSchemaStatus& found, StoreReport& report) {
    if (found.is_current()) return true;
    const std::optional<FormatVersion> native = found.native();
    if (native && native->is_refused_by(sqlite_native_version)) {
        report.damage("tables cubepi_native_*", refusal_text(*native, sqlite_native_version), {});
    } else if (native || found.has_shared_tables) {
        report.repair("tables", "they are older than this program",
                      "the next use migrates them, as 'cubepi db migrate' does");
    } else {
        report.repair("tables", "there are none", "the next use creates them");
    }
    return false;
}

void check_pages(const std::optional<std::vector<std::string>>& problems, StoreReport& report) {
    if (!problems) {
        report.note("file",
                    "its pages were not checked: that takes longer than " +
                        std::to_string(longest_check.count()) +
                        " s, in which no process could write",
                    "when the file is not in use: sqlite3 FILE 'PRAGMA integrity_check'");
        return;
    }
    for (const std::string& problem : *problems)
        report.damage("file", problem, "recover it with `sqlite3 FILE .recover`");
}

/// Returns true if a process was killed while it wrote, and the next one that may write has to take that back.
bool has_hot_journal(const std::string& path) {
    std::error_code failed;
    const auto size = std::filesystem::file_size(path + "-journal", failed);
    return !failed && size > 0;
}

Task<void> check_file(SQLiteOptions options, std::shared_ptr<StoreReport> report) {
    auto read = [path = options.path] { return sqlite_schema_status(path); };
    const std::shared_ptr<WorkerPool> workers = Runtime::standard()->workers;
    const SQLiteSchemaStatus status = co_await offload(*workers, std::move(read));
    if (!check_versions(status, *report)) co_return;
    const auto worker = std::make_shared<SqliteWorker>(options);
    auto check = [](SqliteDatabase& database) { return database.quick_check(longest_check); };
    const std::optional<std::vector<std::string>> problems =
        co_await call_sqlite(worker, SqliteAccess::read, std::move(check));
    check_pages(problems, *report);
    const auto store = std::make_shared<SQLiteCheckpointer>(options);
    CheckedStore checked;
    checked.tables = std::make_shared<SqliteTables>(worker);
    checked.messages = store;
    checked.threads = store;
    checked.now = "(julianday('now') - 2440587.5) * 86400";
    checked.has_positions = false;
    checked.json_columns.emplace_back("thread_hitl_answers.answer_json");
    co_await check_store(std::move(checked), report);
}

}  // namespace

}  // namespace cubepi::detail

namespace cubepi {

Task<StoreReport> check_sqlite(std::string path) {
    SQLiteOptions options;
    options.path = path;
    options.read_only = true;
    const auto report = std::make_shared<StoreReport>(detail::sqlite_name(options).description);
    std::error_code failed;
    if (!std::filesystem::exists(path, failed) && !failed)
        throw CheckpointerError(ErrorCode::not_found,
                                report->store() + " does not exist; check the path");
    std::string damage;
    try {
        co_await detail::check_file(std::move(options), report);
    } catch (const CheckpointCorruptionError& error) {
        damage = error.what();
    } catch (const CheckpointerError& error) {
        const bool interrupted =
            error.code() == ErrorCode::permission_denied && detail::has_hot_journal(path);
        if (!interrupted && error.code() != ErrorCode::storage_corrupt) throw;
        if (!interrupted) damage = error.what();
    }
    if (!damage.empty()) {
        report->damage("file", damage, "restore it from a backup");
    } else if (detail::has_hot_journal(path) && report->counts().empty()) {
        report->repair("file",
                       "a write was interrupted, and its journal remains ('" + path + "-journal')",
                       "the next use takes the write back; check the file again then");
    }
    co_return std::move(*report);
}

}  // namespace cubepi
