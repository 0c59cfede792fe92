#include <cubepi/checkpoint/server/schema.hpp>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <cubepi/checkpoint/format/stored_json.hpp>
#include <cubepi/checkpoint/tables/check.hpp>
#include <cubepi/checkpoint/tables/rows.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/schema/python_json.hpp>

// The versions of the tables of threads, the writes that their transactions store in them, and their check.

namespace cubepi::detail {

namespace {

std::vector<std::string> version_tables() {
    return {"cubepi_schema_version", "cubepi_native_schema"};
}

SqlSchemaStatus status_of(const SqlVersions& versions) {
    SqlSchemaStatus status;
    // The rows of CubePi's table are its own: only the largest has a meaning here.
    if (versions[0]) status.version = versions[0]->version;
    if (versions[1]) {
        status.native_version = versions[1]->version;
        status.native_readable_from = versions[1]->readable_from;
    }
    return status;
}

Task<SqlSchemaStatus> as_status(Task<SqlVersions> task) {
    const SqlVersions versions = co_await std::move(task);
    co_return status_of(versions);
}

std::string version_text(std::optional<int> version) {
    return version ? "of version " + std::to_string(*version) : std::string("not there");
}

}  // namespace

SqlBatch ThreadSchema::settings(const SqlDriver& driver) const { return driver.store_session(); }

SqlBatch ThreadSchema::session() const {
    SqlBatch batch;
    for (const std::string& table : version_tables()) select_version(batch, table);
    return batch;
}

void ThreadSchema::check(const std::string& where, const SqlResults& results) const {
    SqlVersions versions;
    versions.push_back(version_of(results[results.size() - 2]));
    versions.push_back(version_of(results[results.size() - 1]));
    const SqlSchemaStatus found = status_of(versions);
    if (found.is_current()) return;
    refuse_newer_tables(where, found);
    throw CheckpointerError(ErrorCode::schema_mismatch,
                            where + ": the tables cubepi_* are " + version_text(found.version) +
                                " (needed: " + std::to_string(sql_schema_version) +
                                "), cubepi_native_* are " + version_text(found.native_version) +
                                " (needed: " + std::to_string(sql_native_version) + "); " +
                                migration_hint());
}

SqlWriteIds ThreadSchema::write_ids() const {
    SqlWriteIds ids;
    ids.before = "(SELECT nullif(write_id, '') FROM cubepi_native_writes WHERE thread_id = $1)";
    // The thread does not exist if there was nothing to write.
    ids.store =
        "INSERT INTO cubepi_native_writes (thread_id, write_id)"
        " SELECT thread_id, $2 FROM cubepi_threads WHERE thread_id = $1"
        " {replace thread_id: write_id}";
    ids.current =
        "SELECT nullif(write_id, '') FROM cubepi_threads"
        " LEFT JOIN cubepi_native_writes USING (thread_id) WHERE thread_id = $1";
    return ids;
}

SqlThreadStore::SqlThreadStore(SqlOptions options, std::shared_ptr<const SqlDriver> driver,
                               std::shared_ptr<const ThreadSchema> schema)
    : ThreadTables(schema, StoreName{driver->description(), driver->name(), {}}, options.lease),
      schema_(schema),
      store_(std::make_shared<SqlStore>(std::move(options), std::move(driver), schema)) {}

Task<bool> SqlThreadStore::adopt_changes(std::vector<std::string> threads) {
    return adopt_by_thread(shared_from_this(), std::move(threads));
}

void refuse_newer_tables(const std::string& where, const SqlSchemaStatus& found) {
    std::optional<FormatVersion> shared;
    if (found.version) shared = FormatVersion{*found.version, *found.version};
    refuse_newer_tables(where, "cubepi_*", shared, sql_schema_version);
    refuse_newer_tables(where, "cubepi_native_*", found.native(), sql_native_version);
}

Task<SqlSchemaStatus> thread_schema_status(const SqlOptions& options,
                                           std::shared_ptr<const SqlDriver> driver) {
    return as_status(read_versions(options, std::move(driver), version_tables()));
}

Task<SqlSchemaStatus> apply_thread_schema(
    const SqlOptions& options, std::shared_ptr<const SqlDriver> driver, std::string lock,
    SqlStatements (*statements)(const SqlSchemaStatus& from)) {
    SqlMigration migration;
    migration.lock = std::move(lock);
    migration.version_tables = version_tables();
    migration.statements = [statements, where = driver->description()](const SqlVersions& found) {
        const SqlSchemaStatus from = status_of(found);
        refuse_newer_tables(where, from);
        return statements(from);
    };
    return as_status(migrate(options, std::move(driver), std::move(migration)));
}

namespace {

/// Reports tables that a store refuses. Returns true if it can use them.
bool check_versions(const SqlSchemaStatus& found, StoreReport& report) {
    if (found.is_current()) return true;
    const std::optional<FormatVersion> native = found.native();
    if (!found.version && !native) {
        report.damage("tables", "there are none", "create them with 'cubepi db init'");
    } else if (found.version.value_or(0) > sql_schema_version) {
        report.damage(
            "tables cubepi_*", "of version " + std::to_string(*found.version),
            "update the program, which knows version " + std::to_string(sql_schema_version));
    } else if (native && native->is_refused_by(sql_native_version)) {
        report.damage("tables cubepi_native_*", refusal_text(*native, sql_native_version), {});
    } else {
        report.damage("tables", "they are older than this program",
                      "back the database up, then migrate it with 'cubepi db migrate'");
    }
    return false;
}

}  // namespace

Task<StoreReport> check_thread_store(SqlOptions options, std::shared_ptr<const SqlDriver> driver,
                                     std::shared_ptr<const ThreadSchema> schema,
                                     std::shared_ptr<SqlCheckpointer> store) {
    const auto report = std::make_shared<StoreReport>(driver->description());
    const SqlSchemaStatus found = co_await thread_schema_status(options, driver);
    if (!check_versions(found, *report)) co_return std::move(*report);
    CheckedStore checked;
    checked.has_orphans = !schema->dependent_tables().empty();
    checked.tables =
        std::make_shared<SqlThreadStore>(std::move(options), std::move(driver), std::move(schema));
    checked.threads = store;
    checked.messages = std::move(store);
    checked.json_columns.emplace_back("cubepi_native_exact.json");
    co_await check_store(std::move(checked), report);
    co_return std::move(*report);
}

// The answers and the pending request of a thread in the tables of CubePi on a server. Their JSON columns do not hold every value:
// format/stored_json.hpp.

namespace {

bool same_json(const HitlRequest& shared, const HitlRequest& ours) {
    return is_server_json_of(shared_request_json(shared), shared_request_json(ours));
}

/// An unreadable request is repeated as well as possible: the column must not name one that is not pending.
Json shared_json(const PendingRow& row) {
    std::string damage;
    std::optional<HitlRequest> request = parse_request(row, damage);
    if (request) return shared_request_json(std::move(*request));
    try {
        return parse_lenient(row.request_json);
    } catch (const Error&) {
        return Json(row.request_json);
    }
}

}  // namespace

void ThreadSchema::write_thread_row(SqlBatch& writes, const std::string& thread_id) const {
    writes.add("INSERT INTO cubepi_threads (thread_id) VALUES ($1) {skip}").text(thread_id);
}

void ThreadSchema::write_answer(SqlBatch& writes, const std::string& thread_id,
                                const HitlAnswer& answer) const {
    write_thread_row(writes, thread_id);
    writes
        .add(
            "INSERT INTO cubepi_hitl_answers (thread_id, run_id, question_id, answer)"
            " VALUES ($1, $2, $3, $4) {replace thread_id, run_id, question_id: answer},"
            " answered_at = now()")
        .text(thread_id)
        .text(answer.run_id)
        .text(answer.question_id)
        .json(server_json_text(answer.answer));
    if (survives_server_json(answer.answer)) return;
    writes
        .add(
            "INSERT INTO cubepi_native_exact (thread_id, item, run_id, question_id, json)"
            " VALUES ($1, 'answer', $2, $3, $4)"
            " {replace thread_id, item, run_id, question_id: json}")
        .text(thread_id)
        .text(answer.run_id)
        .text(answer.question_id)
        .text(to_python_json(answer.answer));
}

std::size_t ThreadSchema::add_answer_reads(SqlBatch& reads, const std::string& thread_id,
                                           const std::string& run_id,
                                           const std::vector<std::string>& questions) const {
    const std::size_t at = reads.size();
    reads
        .add(
            "SELECT question_id, {text answer} FROM cubepi_hitl_answers WHERE thread_id = $1"
            " AND run_id = $2 AND question_id {any $3} ORDER BY question_id")
        .text(thread_id)
        .text(run_id)
        .texts(questions);
    reads
        .add(
            "SELECT question_id, json FROM cubepi_native_exact WHERE thread_id = $1"
            " AND item = 'answer' AND run_id = $2 AND question_id {any $3}")
        .text(thread_id)
        .text(run_id)
        .texts(questions);
    return at;
}

std::vector<AnswerRow> ThreadSchema::read_answers(const SqlResults& results, std::size_t at) const {
    std::map<std::string, std::string> exact;
    const SqlResult& texts = results[at + 1];
    for (int row = 0; row < texts.rows(); ++row) exact[texts.string(row, 0)] = texts.string(row, 1);
    std::vector<AnswerRow> answers;
    const SqlResult& rows = results[at];
    for (int row = 0; row < rows.rows(); ++row) {
        AnswerRow answer;
        answer.question_id = rows.string(row, 0);
        const auto text = exact.find(answer.question_id);
        const Json value =
            exact_json(parse_lenient(rows.text(row, 1)),
                       text == exact.end() ? std::nullopt : std::optional(text->second));
        answer.text = to_python_json(value);
        answers.push_back(std::move(answer));
    }
    return answers;
}

void ThreadSchema::remove_answers(SqlBatch& writes, const std::string& thread_id,
                                  const std::string& run_id,
                                  const std::vector<std::string>& questions) const {
    for (const char* sql :
         {"DELETE FROM cubepi_hitl_answers WHERE thread_id = $1 AND run_id = $2"
          " AND question_id {any $3}",
          "DELETE FROM cubepi_native_exact WHERE thread_id = $1 AND item = 'answer'"
          " AND run_id = $2 AND question_id {any $3}"}) {
        writes.add(sql).text(thread_id).text(run_id).texts(questions);
    }
}

void ThreadSchema::remove_all_answers(SqlBatch& writes, const std::string& thread_id,
                                      const std::string& run_id) const {
    for (const char* sql :
         {"DELETE FROM cubepi_hitl_answers WHERE thread_id = $1 AND run_id = $2",
          "DELETE FROM cubepi_native_exact WHERE thread_id = $1 AND item = 'answer'"
          " AND run_id = $2"}) {
        writes.add(sql).text(thread_id).text(run_id);
    }
}

void ThreadSchema::add_shared_read(SqlBatch& reads, const std::string& thread_id,
                                   bool for_update) const {
    reads
        .add(std::string("SELECT {text pending_request}, run_id, {epoch updated_at}"
                         " FROM cubepi_threads WHERE thread_id = $1") +
             (for_update ? " FOR UPDATE" : ""))
        .text(thread_id);
}

void ThreadSchema::write_shared(SqlBatch& writes, const std::string& thread_id,
                                const std::optional<SharedRequest>& stored,
                                const PendingRow* first) const {
    if (!first) {
        if (!stored) return;
        writes
            .add(
                "UPDATE cubepi_threads SET pending_request = NULL, run_id = NULL,"
                " updated_at = now() WHERE thread_id = $1")
            .text(thread_id);
        return;
    }
    const Json json = shared_json(*first);
    const bool same = stored && stored->row.run_id == first->run_id &&
                      is_server_json_of(parse_lenient(stored->row.request_json), json);
    if (same) return;
    writes
        .add(
            "UPDATE cubepi_threads SET pending_request = $2, run_id = $3, updated_at = now()"
            " WHERE thread_id = $1")
        .text(thread_id)
        .json(server_json_text(json))
        .text_or_null(first->run_id);
}

SameRequest ThreadSchema::same_request() const { return same_json; }

}  // namespace cubepi::detail
