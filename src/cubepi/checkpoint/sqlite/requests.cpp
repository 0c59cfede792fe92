#include <cubepi/checkpoint/sqlite/operations.hpp>
#include <cubepi/checkpoint/sqlite/worker.hpp>
#include <cubepi/checkpoint/sqlite_checkpointer.hpp>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <cubepi/checkpoint/common/requests.hpp>
#include <cubepi/checkpoint/format/stored_json.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/schema/python_json.hpp>

// The pending requests of a thread, their answers, and the requests of all threads, which are read by partial indexes on the
// rows that have not expired.

// The table cubepi_native_pending, and its relation to the table of CubePi, which common/requests.hpp explains.
// Triggers note the threads whose row of theirs changes in cubepi_native_changed_pending, in whatever process, so that an inbox
// can adopt these changes without comparing the two tables. Each write of ours removes its note.

namespace cubepi::detail {

namespace {

constexpr std::string_view remedy =
    "discard the requests of the thread with QuestionStore::discard_requests()";

std::string row_ref(const PendingRow& row) {
    if (row.id == 0) return "thread_pending_request.thread_id=" + row.thread_id;
    return "cubepi_native_pending.id=" + std::to_string(row.id);
}

std::string shared_text(HitlRequest request) {
    return to_python_json(shared_request_json(std::move(request)));
}

bool same_text(const HitlRequest& shared, const HitlRequest& ours) {
    return shared_text(ours) == shared_text(shared);
}

/// Reads a row with the columns id, thread_id, run_id, question_id, request_json, approval_digest, created_at,
/// expires_at, expired.
PendingRow read_pending_row(const SqliteStatement& row) {
    PendingRow read;
    read.id = row.integer(0);
    read.thread_id = row.text(1);
    read.run_id = row.text(2);
    read.question_id = row.text(3);
    read.request_json = row.text(4);
    read.approval_digest = row.text(5);
    read.created_at = row.number(6);
    read.expires_at = row.number(7);
    read.expired = row.integer(8) != 0;
    return read;
}

/// Throws CheckpointCorruptionError naming the row if the request is unreadable.
PendingRequest to_pending_request(const SqliteDatabase& database, const PendingRow& row) {
    std::string damage;
    std::optional<HitlRequest> request = parse_request(row, damage);
    if (!request) database.fail_row(row.thread_id, row_ref(row), damage, remedy);
    return to_pending_request(row, std::move(*request));
}

/// An unreadable request becomes an entry with `damage`.
QuestionEntry to_question_entry(const PendingRow& row) {
    return to_question_entry(row, row_ref(row));
}

std::optional<SharedRequest> read_shared(SqliteDatabase& database, const std::string& thread_id) {
    // The column created_at is a Julian day.
    SqliteStatement statement = database.prepare(
        "SELECT request_json, run_id, (created_at - 2440587.5) * 86400 FROM thread_pending_request"
        " WHERE thread_id = ?");
    std::optional<SharedRequest> shared;
    if (!statement.bind(thread_id).step()) return shared;
    shared.emplace();
    shared->row.thread_id = thread_id;
    shared->row.request_json = statement.text(0);
    shared->row.run_id = statement.text(1);
    shared->row.created_at = statement.number(2);
    read_shared_request(*shared);
    return shared;
}

std::vector<PendingRow> read_ours(SqliteDatabase& database, const std::string& thread_id) {
    SqliteStatement rows = database.prepare(
        "SELECT id, thread_id, run_id, question_id, request_json, approval_digest, created_at,"
        " expires_at, expired FROM cubepi_native_pending WHERE thread_id = ? ORDER BY id");
    rows.bind(thread_id);
    std::vector<PendingRow> list;
    while (rows.step()) list.push_back(read_pending_row(rows));
    return list;
}

void remove_before(SqliteDatabase& database, const std::string& thread_id, std::int64_t id) {
    database.prepare("DELETE FROM cubepi_native_pending WHERE thread_id = ? AND id < ?")
        .bind(thread_id)
        .bind(id)
        .run();
}

void remove_note(SqliteDatabase& database, const std::string& thread_id) {
    database.prepare("DELETE FROM cubepi_native_changed_pending WHERE thread_id = ?")
        .bind(thread_id)
        .run();
}

std::optional<PendingRow> first_of_ours(SqliteDatabase& database, const std::string& thread_id) {
    SqliteStatement row = database.prepare(
        "SELECT id, thread_id, run_id, question_id, request_json, approval_digest, created_at,"
        " expires_at, expired FROM cubepi_native_pending WHERE thread_id = ? ORDER BY id LIMIT 1");
    std::optional<PendingRow> first;
    if (row.bind(thread_id).step()) first = read_pending_row(row);
    return first;
}

std::string_view page_sql(QuestionOrder order) {
    // Threads with a note are read by both tables.
    if (order == QuestionOrder::age) {
        return "SELECT id, thread_id, run_id, question_id, request_json, approval_digest,"
               " created_at, expires_at, expired FROM cubepi_native_pending AS p"
               " WHERE expired = 0"
               " AND (created_at, thread_id, run_id, question_id) > (?, ?, ?, ?)"
               " AND NOT EXISTS (SELECT 1 FROM cubepi_native_changed_pending AS c"
               " WHERE c.thread_id = p.thread_id)"
               " ORDER BY created_at, thread_id, run_id, question_id LIMIT ?";
    }
    return "SELECT id, thread_id, run_id, question_id, request_json, approval_digest,"
           " created_at, expires_at, expired FROM cubepi_native_pending AS p"
           " WHERE expired = 0"
           " AND (expires_at, thread_id, run_id, question_id) > (?, ?, ?, ?)"
           " AND NOT EXISTS (SELECT 1 FROM cubepi_native_changed_pending AS c"
           " WHERE c.thread_id = p.thread_id)"
           " ORDER BY expires_at, thread_id, run_id, question_id LIMIT ?";
}

/// Returns at most `limit` entries after the place.
std::vector<QuestionEntry> entries_after(SqliteDatabase& database, const InboxKey& after,
                                         QuestionOrder order, std::int64_t limit) {
    const auto& [time, thread_id, run_id, question_id] = after;
    SqliteStatement rows = database.prepare(page_sql(order));
    rows.bind(time).bind(thread_id).bind(run_id).bind(question_id).bind(limit);
    std::vector<QuestionEntry> entries;
    while (rows.step()) entries.push_back(to_question_entry(read_pending_row(rows)));
    return entries;
}

/// Returns the pending requests of the thread in order, by both tables. Writes nothing.
std::vector<PendingRow> pending_rows(SqliteDatabase& database, const std::string& thread_id) {
    std::optional<SharedRequest> shared = read_shared(database, thread_id);
    if (!shared) return {};
    return pending_by_both(std::move(shared), read_ours(database, thread_id), same_text);
}

/// Returns the threads with a note, in order.
std::vector<std::string> changed_threads(SqliteDatabase& database) {
    SqliteStatement rows = database.prepare(
        "SELECT thread_id FROM cubepi_native_changed_pending WHERE thread_id >= ''"
        " ORDER BY thread_id");
    std::vector<std::string> threads;
    while (rows.step()) threads.emplace_back(rows.text(0));
    return threads;
}

/// Adds the entries of the threads with a note, which a read-only store cannot adopt.
void add_changed(SqliteDatabase& database, std::vector<QuestionEntry>& entries) {
    for (const std::string& thread_id : changed_threads(database)) {
        for (const PendingRow& row : pending_rows(database, thread_id)) {
            if (!row.expired) entries.push_back(to_question_entry(row));
        }
    }
}

void insert_record(SqliteDatabase& database, const std::string& thread_id,
                   const AnswerRecord& record, HitlRequest request) {
    // The schema of the tool (D63) may be large, and has been used to check the answer.
    request.extra.erase("input_schema");
    const std::string asked = to_python_json(to_json(request));
    const std::string answer = to_python_json(record.answer);
    database
        .prepare(
            "INSERT INTO cubepi_native_answers (thread_id, run_id, question_id, request_json,"
            " answer_json, answered_at, user, channel) VALUES (?, ?, ?, ?, ?, ?, ?, ?)")
        .bind(thread_id)
        .bind(record.run_id)
        .bind(record.question_id)
        .bind(asked)
        .bind(answer)
        .bind(record.answered_at)
        .bind(record.user)
        .bind(record.channel)
        .run();
}

/// Reads a row with the columns id, run_id, question_id, request_json, answer_json, answered_at, user, channel.
AnswerRecord read_record(const SqliteStatement& row) {
    AnswerRecord record;
    record.run_id = row.text(1);
    record.question_id = row.text(2);
    record.answered_at = row.number(5);
    record.user = row.text(6);
    record.channel = row.text(7);
    read_answer_texts(record, row.integer(0), row.text(3), row.text(4));
    return record;
}

/// Inserts the row, or replaces the one with the same key.
void insert_row(SqliteDatabase& database, const PendingRow& row) {
    database
        .prepare(
            "INSERT INTO cubepi_native_pending (thread_id, run_id, question_id, request_json,"
            " approval_digest, created_at, expires_at) VALUES (?, ?, ?, ?, ?, ?, ?)"
            " ON CONFLICT (thread_id, run_id, question_id) DO UPDATE SET"
            " request_json = excluded.request_json, approval_digest = excluded.approval_digest,"
            " created_at = excluded.created_at, expires_at = excluded.expires_at, expired = 0")
        .bind(row.thread_id)
        .bind(row.run_id)
        .bind(row.question_id)
        .bind(row.request_json)
        .bind_or_null(row.approval_digest)
        .bind(row.created_at)
        .bind(row.expires_at)
        .run();
}

/// Inserts the request, or replaces the one with the same key.
void store_pending(SqliteDatabase& database, const std::string& thread_id,
                   const std::string& run_id, const HitlRequest& request) {
    insert_row(database, make_pending_row(thread_id, run_id, request));
}

std::optional<PendingRow> find_pending(SqliteDatabase& database, const std::string& thread_id,
                                       const std::string& run_id, const std::string& question_id) {
    SqliteStatement row = database.prepare(
        "SELECT id, thread_id, run_id, question_id, request_json, approval_digest, created_at,"
        " expires_at, expired FROM cubepi_native_pending"
        " WHERE thread_id = ? AND run_id = ? AND question_id = ?");
    std::optional<PendingRow> found;
    if (row.bind(thread_id).bind(run_id).bind(question_id).step()) found = read_pending_row(row);
    return found;
}

/// Returns false if there is no such row. A row is removed by its key, so that it may be unreadable.
bool remove_pending(SqliteDatabase& database, const std::string& thread_id,
                    const std::string& run_id, const std::string& question_id) {
    database
        .prepare(
            "DELETE FROM cubepi_native_pending"
            " WHERE thread_id = ? AND run_id = ? AND question_id = ?")
        .bind(thread_id)
        .bind(run_id)
        .bind(question_id)
        .run();
    return database.changes() > 0;
}

/// Makes our table agree with pending_rows(). Precedes each change of our table.
void adopt_changes(SqliteDatabase& database, const std::string& thread_id) {
    const std::vector<PendingRow> rows = pending_rows(database, thread_id);
    const bool from_shared = rows.empty() || rows.front().id == 0;
    const std::int64_t first =
        from_shared ? std::numeric_limits<std::int64_t>::max() : rows.front().id;
    remove_before(database, thread_id, first);
    if (!rows.empty() && from_shared) insert_row(database, rows.front());
    remove_note(database, thread_id);
}

/// Repeats the first of our rows in CubePi's table. Follows each change of our table.
void publish_first(SqliteDatabase& database, const std::string& thread_id) {
    const std::optional<PendingRow> first = first_of_ours(database, thread_id);
    if (first) {
        std::string damage;
        std::optional<HitlRequest> request = parse_request(*first, damage);
        // An unreadable request is repeated as it is: the row must not name one that is not pending.
        const std::string text = request ? shared_text(std::move(*request)) : first->request_json;
        database
            .prepare(
                "INSERT INTO thread_pending_request (thread_id, request_json, run_id)"
                " VALUES (?, ?, ?)"
                " ON CONFLICT (thread_id) DO UPDATE SET request_json = excluded.request_json,"
                " run_id = excluded.run_id, created_at = excluded.created_at"
                " WHERE request_json <> excluded.request_json OR run_id IS NOT excluded.run_id")
            .bind(thread_id)
            .bind(text)
            .bind_or_null(first->run_id)
            .run();
    } else {
        database.prepare("DELETE FROM thread_pending_request WHERE thread_id = ?")
            .bind(thread_id)
            .run();
    }
    remove_note(database, thread_id);
}

bool has_changed_threads(SqliteDatabase& database) {
    return database.prepare("SELECT 1 FROM cubepi_native_changed_pending WHERE thread_id >= ''")
        .step();
}

void save_pending_request(SqliteDatabase& database, const std::string& thread_id,
                          const std::string& run_id, const HitlRequest& request) {
    adopt_changes(database, thread_id);
    store_pending(database, thread_id, run_id, request);
    publish_first(database, thread_id);
}

std::vector<PendingRequest> load_pending_requests(SqliteDatabase& database,
                                                  const std::string& thread_id) {
    std::vector<PendingRequest> list;
    for (const PendingRow& row : pending_rows(database, thread_id))
        list.push_back(to_pending_request(database, row));
    return list;
}

void save_hitl_answer(SqliteDatabase& database, const std::string& thread_id,
                      const HitlAnswer& answer) {
    refuse_too_deep(thread_id, "an answer", answer.answer);
    const std::string text = to_python_json(answer.answer);
    database
        .prepare(
            "INSERT OR REPLACE INTO thread_hitl_answers (thread_id, run_id, question_id, "
            "answer_json)"
            " VALUES (?, ?, ?, ?)")
        .bind(thread_id)
        .bind(answer.run_id)
        .bind(answer.question_id)
        .bind(text)
        .run();
}

std::optional<Json> load_hitl_answer(SqliteDatabase& database, const std::string& thread_id,
                                     const std::string& run_id, const std::string& question_id) {
    SqliteStatement row = database.prepare(
        "SELECT answer_json FROM thread_hitl_answers WHERE thread_id = ? AND run_id = ? AND "
        "question_id = ?");
    if (!row.bind(thread_id).bind(run_id).bind(question_id).step()) return std::nullopt;
    std::string why;
    try {
        return parse_lenient(row.text(0));
    } catch (const Error& error) {
        why = error.what();
    }
    database.fail_row(thread_id, "thread_hitl_answers.question_id=" + question_id, why);
}

std::optional<QuestionPage> list_requests(SqliteDatabase& database, const QuestionQuery& query) {
    const InboxKey after = read_inbox_cursor(query);
    const bool changed = has_changed_threads(database);
    if (changed && !database.is_read_only()) return std::nullopt;
    // One more shows whether there is another page.
    const std::int64_t limit = row_limit(query.limit()) + 1;
    std::vector<QuestionEntry> entries = entries_after(database, after, query.order(), limit);
    if (changed) add_changed(database, entries);
    return inbox_page(std::move(entries), query);
}

std::vector<QuestionEntry> expire_due(SqliteDatabase& database, double now, std::size_t limit) {
    adopt_all_changes(database);
    std::vector<QuestionEntry> entries;
    std::vector<std::int64_t> ids;
    {
        SqliteStatement rows = database.prepare(
            "SELECT id, thread_id, run_id, question_id, request_json, approval_digest, created_at,"
            " expires_at, expired FROM cubepi_native_pending WHERE expired = 0 AND expires_at <= ?"
            " ORDER BY expires_at, thread_id, run_id, question_id LIMIT ?");
        // Requests without a timeout are at infinity.
        rows.bind(std::min(now, std::numeric_limits<double>::max())).bind(row_limit(limit));
        while (rows.step()) {
            const PendingRow row = read_pending_row(rows);
            ids.push_back(row.id);
            entries.push_back(to_question_entry(row));
        }
    }
    for (const std::int64_t id : ids) {
        database.prepare("UPDATE cubepi_native_pending SET expired = 1 WHERE id = ?")
            .bind(id)
            .run();
    }
    return entries;
}

void record_answer(SqliteDatabase& database, const std::string& thread_id,
                   const AnswerRecord& record) {
    adopt_changes(database, thread_id);
    const std::optional<PendingRow> row =
        find_pending(database, thread_id, record.run_id, record.question_id);
    if (!row) throw_stale_answer(thread_id, record);
    PendingRequest pending = to_pending_request(database, *row);
    if (has_expired(pending, record.answered_at)) throw_stale_answer(thread_id, record);
    HitlAnswer answer;
    answer.run_id = record.run_id;
    answer.question_id = record.question_id;
    answer.answer = record.answer;
    save_hitl_answer(database, thread_id, answer);
    insert_record(database, thread_id, record, std::move(pending.request));
    (void)remove_pending(database, thread_id, record.run_id, record.question_id);
    publish_first(database, thread_id);
}

std::vector<AnswerRecord> load_answer_records(SqliteDatabase& database,
                                              const std::string& thread_id) {
    SqliteStatement rows = database.prepare(
        "SELECT id, run_id, question_id, request_json, answer_json, answered_at, user, channel"
        " FROM cubepi_native_answers WHERE thread_id = ? ORDER BY id");
    rows.bind(thread_id);
    std::vector<AnswerRecord> records;
    while (rows.step()) records.push_back(read_record(rows));
    return records;
}

std::size_t discard_requests(SqliteDatabase& database, const std::string& thread_id) {
    adopt_changes(database, thread_id);
    database.prepare("DELETE FROM cubepi_native_pending WHERE thread_id = ?").bind(thread_id).run();
    const auto count = static_cast<std::size_t>(database.changes());
    publish_first(database, thread_id);
    return count;
}

}  // namespace

void fill_times(SqliteDatabase& database) {
    std::vector<std::int64_t> ids;
    {
        SqliteStatement rows = database.prepare("SELECT id FROM cubepi_native_pending ORDER BY id");
        while (rows.step()) ids.push_back(rows.integer(0));
    }
    for (const std::int64_t id : ids) {
        PendingRow row;
        row.created_at = database.now();
        {
            SqliteStatement text =
                database.prepare("SELECT request_json FROM cubepi_native_pending WHERE id = ?");
            if (text.bind(id).step()) row.request_json = text.text(0);
        }
        std::string damage;
        const std::optional<HitlRequest> request = parse_request(row, damage);
        if (request) set_times(row, *request);
        database
            .prepare("UPDATE cubepi_native_pending SET created_at = ?, expires_at = ? WHERE id = ?")
            .bind(row.created_at)
            .bind(row.expires_at)
            .bind(id)
            .run();
    }
}

void adopt_all_changes(SqliteDatabase& database) {
    for (const std::string& thread_id : changed_threads(database))
        adopt_changes(database, thread_id);
}

bool clear_pending_request(SqliteDatabase& database, const std::string& thread_id,
                           const std::string& run_id, const std::string& question_id) {
    adopt_changes(database, thread_id);
    const bool removed = remove_pending(database, thread_id, run_id, question_id);
    publish_first(database, thread_id);
    return removed;
}

void clear_hitl_answers(SqliteDatabase& database, const std::string& thread_id,
                        const std::string& run_id, const std::vector<std::string>& question_ids) {
    if (question_ids.empty()) {
        database.prepare("DELETE FROM thread_hitl_answers WHERE thread_id = ? AND run_id = ?")
            .bind(thread_id)
            .bind(run_id)
            .run();
    }
    for (const std::string& question_id : question_ids) {
        database
            .prepare(
                "DELETE FROM thread_hitl_answers WHERE thread_id = ? AND run_id = ? AND "
                "question_id = ?")
            .bind(thread_id)
            .bind(run_id)
            .bind(question_id)
            .run();
    }
}

}  // namespace cubepi::detail

namespace cubepi {

using namespace detail;

Task<void> SQLiteCheckpointer::save_pending_request(std::string thread_id, std::string run_id,
                                                    HitlRequest request) {
    return call_sqlite(worker_, SqliteAccess::write, detail::save_pending_request,
                       std::move(thread_id), std::move(run_id), std::move(request));
}

Task<std::vector<PendingRequest>> SQLiteCheckpointer::load_pending_requests(std::string thread_id) {
    return call_sqlite(worker_, SqliteAccess::read, detail::load_pending_requests,
                       std::move(thread_id));
}

Task<bool> SQLiteCheckpointer::clear_pending_request(std::string thread_id, std::string run_id,
                                                     std::string question_id) {
    return call_sqlite(worker_, SqliteAccess::write, detail::clear_pending_request,
                       std::move(thread_id), std::move(run_id), std::move(question_id));
}

Task<void> SQLiteCheckpointer::save_hitl_answer(std::string thread_id, HitlAnswer answer) {
    return call_sqlite(worker_, SqliteAccess::write, detail::save_hitl_answer, std::move(thread_id),
                       std::move(answer));
}

Task<std::optional<Json>> SQLiteCheckpointer::load_hitl_answer(std::string thread_id,
                                                               std::string run_id,
                                                               std::string question_id) {
    return call_sqlite(worker_, SqliteAccess::read, detail::load_hitl_answer, std::move(thread_id),
                       std::move(run_id), std::move(question_id));
}

Task<void> SQLiteCheckpointer::clear_hitl_answers(std::string thread_id, std::string run_id,
                                                  std::vector<std::string> question_ids) {
    return call_sqlite(worker_, SqliteAccess::write, detail::clear_hitl_answers,
                       std::move(thread_id), std::move(run_id), std::move(question_ids));
}

Task<QuestionPage> SQLiteCheckpointer::list_requests(QuestionQuery query) {
    const std::shared_ptr<detail::SqliteWorker> worker = worker_;
    auto list = [query](SqliteDatabase& database) {
        return detail::list_requests(database, query);
    };
    std::optional<QuestionPage> page =
        co_await call_sqlite(worker, SqliteAccess::read, std::move(list));
    if (page) co_return std::move(*page);
    auto adopt_and_list = [query](SqliteDatabase& database) {
        detail::adopt_all_changes(database);
        return detail::list_requests(database, query).value();
    };
    co_return co_await call_sqlite(worker, SqliteAccess::write, std::move(adopt_and_list));
}

Task<std::vector<QuestionEntry>> SQLiteCheckpointer::expire_due(double now, std::size_t limit) {
    return call_sqlite(worker_, SqliteAccess::write, detail::expire_due, now, limit);
}

Task<void> SQLiteCheckpointer::answer_request(std::string thread_id, AnswerRecord record) {
    return call_sqlite(worker_, SqliteAccess::write, record_answer, std::move(thread_id),
                       std::move(record));
}

Task<std::vector<AnswerRecord>> SQLiteCheckpointer::load_answer_records(std::string thread_id) {
    return call_sqlite(worker_, SqliteAccess::read, detail::load_answer_records,
                       std::move(thread_id));
}

Task<std::size_t> SQLiteCheckpointer::discard_requests(std::string thread_id) {
    return call_sqlite(worker_, SqliteAccess::write, detail::discard_requests,
                       std::move(thread_id));
}

}  // namespace cubepi
