#include <cubepi/checkpoint/sqlite/tables.hpp>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <sqlite3.h>

#include <cubepi/checkpoint/claim_rules.hpp>
#include <cubepi/checkpoint/sqlite/worker.hpp>
#include <cubepi/checkpoint/sqlite_checkpointer.hpp>
#include <cubepi/checkpoint/sqlite_schema.hpp>
#include <cubepi/checkpoint/support/requests.hpp>
#include <cubepi/checkpoint/tables/check.hpp>
#include <cubepi/checkpoint/tables/rows.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/offload.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/schema/python_json.hpp>

// The pending requests of a thread are in cubepi_native_pending; support/requests.hpp explains its relation to the table of CubePi.
// Triggers note the threads whose row of theirs changes in cubepi_native_changed_pending, in whatever process, so that an inbox
// can adopt these changes without comparing the two tables. Each write of ours removes its note.

namespace cubepi::detail {

namespace {

std::string shared_text(const HitlRequest& request) {
    return to_python_json(shared_request_json(request));
}

bool same_text(const HitlRequest& shared, const HitlRequest& ours) {
    return shared_text(ours) == shared_text(shared);
}

class SqliteSchema final : public RunSchema {
public:
    TableWords words() const override {
        TableWords words;
        words.runs = "runs";
        words.answers = "thread_hitl_answers";
        words.shared_request = "thread_pending_request";
        words.user = "user";
        words.now = "julianday('now')";
        words.yes = "1";
        words.no = "0";
        words.has_json_null = false;
        words.all_threads = " WHERE thread_id >= ''";
        words.lock.clear();
        return words;
    }
    void write_thread_row(SqlBatch& /*writes*/, const std::string& /*thread_id*/) const override {}

    void write_answer(SqlBatch& writes, const std::string& thread_id,
                      const HitlAnswer& answer) const override {
        writes
            .add(
                "INSERT OR REPLACE INTO thread_hitl_answers (thread_id, run_id, question_id,"
                " answer_json) VALUES ($1, $2, $3, $4)")
            .text(thread_id)
            .text(answer.run_id)
            .text(answer.question_id)
            .text(to_python_json(answer.answer));
    }
    std::size_t add_answer_reads(SqlBatch& reads, const std::string& thread_id,
                                 const std::string& run_id,
                                 const std::vector<std::string>& questions) const override {
        reads
            .add(
                "SELECT question_id, answer_json FROM thread_hitl_answers"
                " WHERE thread_id = $1 AND run_id = $2 AND question_id {any $3}")
            .text(thread_id)
            .text(run_id)
            .texts(questions);
        return reads.size() - 1;
    }
    std::vector<AnswerRow> read_answers(const SqlResults& results, std::size_t at) const override {
        std::vector<AnswerRow> answers;
        const SqlResult& rows = results[at];
        for (int row = 0; row < rows.rows(); ++row)
            answers.push_back(AnswerRow{rows.string(row, 0), rows.string(row, 1)});
        return answers;
    }
    void remove_answers(SqlBatch& writes, const std::string& thread_id, const std::string& run_id,
                        const std::vector<std::string>& questions) const override {
        writes
            .add(
                "DELETE FROM thread_hitl_answers WHERE thread_id = $1 AND run_id = $2"
                " AND question_id {any $3}")
            .text(thread_id)
            .text(run_id)
            .texts(questions);
    }
    void remove_all_answers(SqlBatch& writes, const std::string& thread_id,
                            const std::string& run_id) const override {
        writes.add("DELETE FROM thread_hitl_answers WHERE thread_id = $1 AND run_id = $2")
            .text(thread_id)
            .text(run_id);
    }

    void add_shared_read(SqlBatch& reads, const std::string& thread_id,
                         bool /*for_update*/) const override {
        // The column created_at is a Julian day.
        reads
            .add(
                "SELECT request_json, run_id, (created_at - 2440587.5) * 86400"
                " FROM thread_pending_request WHERE thread_id = $1")
            .text(thread_id);
    }
    void write_shared(SqlBatch& writes, const std::string& thread_id,
                      const std::optional<SharedRequest>& stored,
                      const PendingRow* first) const override {
        if (!first) {
            writes.add("DELETE FROM thread_pending_request WHERE thread_id = $1").text(thread_id);
            return;
        }
        std::string damage;
        const std::optional<HitlRequest> request = parse_request(*first, damage);
        // An unreadable request is repeated as it is: the row must not name one that is not pending.
        const std::string text = request ? shared_text(*request) : first->request_json;
        // CubePi's row of the same request remains as CubePi has written it.
        const bool is_same = stored && stored->row.run_id == first->run_id &&
                             (stored->row.request_json == first->request_json ||
                              (stored->request && shared_text(*stored->request) == text));
        if (is_same) return;
        writes
            .add(
                "INSERT INTO thread_pending_request (thread_id, request_json, run_id)"
                " VALUES ($1, $2, $3)"
                " ON CONFLICT (thread_id) DO UPDATE SET request_json = excluded.request_json,"
                " run_id = excluded.run_id, created_at = excluded.created_at"
                " WHERE request_json <> excluded.request_json OR run_id IS NOT excluded.run_id")
            .text(thread_id)
            .text(text)
            .text_or_null(first->run_id);
    }
    SameRequest same_request() const override { return same_text; }

    std::string page_sql(const std::string& columns, const std::string& time) const override {
        // In a file that is read-only, threads with a note are read by both tables.
        const std::string key = time + ", thread_id, run_id, question_id";
        return "SELECT " + columns + " FROM cubepi_native_pending AS p WHERE expired = 0 AND (" +
               key +
               ") > ($1, $2, $3, $4) AND NOT EXISTS (SELECT 1 FROM cubepi_native_changed_pending"
               " AS c WHERE c.thread_id = p.thread_id) ORDER BY " +
               key + " LIMIT $5";
    }
};

const std::shared_ptr<const SqliteSchema>& sqlite_run_schema() {
    static const auto schema = std::make_shared<const SqliteSchema>();
    return schema;
}

/// Copies of the rows of a result, which are read on another thread.
class SqliteRows final : public SqlRows {
public:
    void add(std::vector<SqliteValue> row) { rows_.push_back(std::move(row)); }

    int rows() const noexcept override { return static_cast<int>(rows_.size()); }
    bool is_null(int row, int column) const noexcept override {
        return sqlite3_value_type(at(row, column)) == SQLITE_NULL;
    }
    std::string_view text(int row, int column) const noexcept override {
        sqlite3_value* const value = at(row, column);
        const auto* data = reinterpret_cast<const char*>(sqlite3_value_text(value));
        if (!data) return {};
        return {data, static_cast<std::size_t>(sqlite3_value_bytes(value))};
    }
    std::int64_t integer(int row, int column) const noexcept override {
        return sqlite3_value_int64(at(row, column));
    }
    double number(int row, int column) const noexcept override {
        return sqlite3_value_double(at(row, column));
    }

private:
    sqlite3_value* at(int row, int column) const noexcept {
        return rows_[static_cast<std::size_t>(row)][static_cast<std::size_t>(column)].get();
    }

    std::vector<std::vector<SqliteValue>> rows_;
};

std::string expand(std::string_view name, std::string_view argument) {
    std::string text(argument);
    if (name == "any") return "= " + text;  // executed once for each of the texts
    if (name == "skip") return "ON CONFLICT DO NOTHING";
    // replace KEYS: COLUMNS
    const std::size_t colon = text.find(':');
    return "ON CONFLICT (" + text.substr(0, colon) + ") DO UPDATE SET " +
           assignments(argument.substr(colon + 1), "excluded.", "");
}

std::string sqlite_text(std::string_view sql) {
    std::string text = expand_escapes(sql, expand);
    std::replace(text.begin(), text.end(), '$', '?');
    return text;
}

void bind(SqliteStatement& statement, const SqlValue& value, const std::string& one_of_texts) {
    switch (value.type) {
        case SqlValue::Type::integer: statement.bind(value.integer); return;
        case SqlValue::Type::number: statement.bind(value.number); return;
        case SqlValue::Type::texts: statement.bind(one_of_texts); return;
        case SqlValue::Type::text:
        case SqlValue::Type::bytes:
        case SqlValue::Type::json:
            if (value.null) {
                statement.bind_or_null({});
            } else {
                statement.bind(value.text);
            }
            return;
    }
}

void execute_once(SqliteDatabase& database, const SqlQuery& query, const std::string& one_of_texts,
                  SqliteRows& rows) {
    SqliteStatement statement = database.prepare(query.sql(), sqlite_text);
    for (const SqlValue& value : query.values()) bind(statement, value, one_of_texts);
    while (statement.step()) rows.add(statement.row());
}

std::unique_ptr<SqliteRows> execute(SqliteDatabase& database, const SqlQuery& query) {
    auto rows = std::make_unique<SqliteRows>();
    const std::vector<SqlValue>& values = query.values();
    const auto list = std::find_if(values.begin(), values.end(), [](const SqlValue& value) {
        return value.type == SqlValue::Type::texts;
    });
    if (list == values.end()) {
        execute_once(database, query, {}, *rows);
    } else {
        for (const std::string& text : list->texts) execute_once(database, query, text, *rows);
    }
    return rows;
}

/// A transaction for each thread would wait for the disk as often.
Task<bool> adopt_in_one_transaction(std::shared_ptr<SqliteWorker> worker) {
    auto check = [](SqliteDatabase& database) { return database.is_read_only(); };
    const bool read_only = co_await call_sqlite(worker, SqliteAccess::read, std::move(check));
    if (read_only) co_return false;
    co_await call_sqlite(worker, SqliteAccess::write, adopt_all_changes);
    co_return true;
}

}  // namespace

SqlResults execute(SqliteDatabase& database, const SqlBatch& batch) {
    SqlResults results;
    for (const SqlQuery& query : batch.queries()) results.emplace_back(execute(database, query));
    return results;
}

SqliteTables::SqliteTables(std::shared_ptr<SqliteWorker> worker)
    : ThreadTables(sqlite_run_schema(), sqlite_name(worker->options()), worker->options().lease),
      worker_(std::move(worker)) {}

Task<SqlResults> SqliteTables::read(SqlBatch reads) {
    auto job = [reads = std::move(reads)](SqliteDatabase& database) {
        return detail::execute(database, reads);
    };
    return call_sqlite(worker_, SqliteAccess::read, std::move(job));
}

Task<> SqliteTables::write(SqlPlan plan, SqlDecide decide) {
    auto job = [plan = std::move(plan), decide = std::move(decide)](SqliteDatabase& database) {
        const SqlResults results = detail::execute(database, plan.reads);
        SqlBatch writes;
        // Nothing has to be looked up after a COMMIT.
        const SqlResult none;
        const std::string no_id;
        decide(SqlView{none, results, database.now(), no_id}, writes);
        (void)detail::execute(database, writes);
    };
    return call_sqlite(worker_, SqliteAccess::write, std::move(job));
}

Task<bool> SqliteTables::adopt_changes(std::vector<std::string> /*threads*/) {
    return adopt_in_one_transaction(worker_);
}

bool is_run_complete(SqliteDatabase& database, const std::string& thread_id,
                     const std::string& run_id) {
    SqliteStatement statement = database.prepare(
        "SELECT 1 FROM runs WHERE thread_id = ? AND run_id = ? AND completed_at IS NOT NULL");
    return statement.bind(thread_id).bind(run_id).step();
}

void require_claim(SqliteDatabase& database, const std::string& thread_id,
                   const AppendOptions& options) {
    SqlBatch reads;
    (void)add_claim_reads(reads, *sqlite_run_schema(), thread_id, options.claim_run_id());
    ClaimSheet claims = read_claims(execute(database, reads), 0);
    ClaimRules(claims, thread_id).require_claim(options.claim_run_id(), options.claim_owner());
}

void settle_questions(SqliteDatabase& database, const std::string& thread_id,
                      const AppendOptions& options) {
    const RunSchema& schema = *sqlite_run_schema();
    SqlBatch reads;
    const std::size_t at = PendingRequests::add_reads(reads, schema, thread_id, true);
    SqlBatch writes;
    settle_questions(writes, schema, thread_id, options, execute(database, reads), at);
    (void)execute(database, writes);
}

void fill_times(SqliteDatabase& database) {
    SqlBatch reads;
    reads.add("SELECT id, request_json FROM cubepi_native_pending ORDER BY id");
    const SqlResults results = execute(database, reads);
    for (int one = 0; one < results[0].rows(); ++one) {
        PendingRow row;
        row.created_at = database.now();
        row.request_json = results[0].string(one, 1);
        std::string damage;
        const std::optional<HitlRequest> request = parse_request(row, damage);
        if (request) set_times(row, *request);
        database
            .prepare("UPDATE cubepi_native_pending SET created_at = ?, expires_at = ? WHERE id = ?")
            .bind(row.created_at)
            .bind(row.expires_at)
            .bind(results[0].integer(one, 0))
            .run();
    }
}

void adopt_all_changes(SqliteDatabase& database) {
    const RunSchema& schema = *sqlite_run_schema();
    SqlBatch changed;
    changed.add(changed_threads_sql(schema));
    const SqlResults threads = execute(database, changed);
    for (int row = 0; row < threads[0].rows(); ++row) {
        const std::string thread_id = threads[0].string(row, 0);
        SqlBatch reads;
        (void)PendingRequests::add_reads(reads, schema, thread_id, true);
        SqlBatch writes;
        PendingRequests(schema, thread_id, execute(database, reads), 0).write(writes);
        (void)execute(database, writes);
    }
}

}  // namespace cubepi::detail

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
