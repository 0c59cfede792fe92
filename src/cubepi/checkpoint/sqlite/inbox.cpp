#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include <cubepi/checkpoint/inbox/inbox_cursor.hpp>
#include <cubepi/checkpoint/sqlite/operations.hpp>
#include <cubepi/checkpoint/sqlite/pending_rows.hpp>
#include <cubepi/checkpoint/sqlite/shared_requests.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/schema/python_json.hpp>

// The requests of all threads, by partial indexes on the rows that have not expired.

namespace cubepi::detail {

namespace {

std::int64_t row_limit(std::size_t limit) {
    constexpr std::size_t most = std::numeric_limits<std::int32_t>::max();
    return static_cast<std::int64_t>(std::min(limit, most));
}

std::string_view page_sql(InboxOrder order) {
    // Threads with a note are read by both tables.
    if (order == InboxOrder::age) {
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
std::vector<InboxEntry> entries_after(SqliteDatabase& database, const InboxKey& after,
                                      InboxOrder order, std::int64_t limit) {
    const auto& [time, thread_id, run_id, question_id] = after;
    SqliteStatement rows = database.prepare(page_sql(order));
    rows.bind(time).bind(thread_id).bind(run_id).bind(question_id).bind(limit);
    std::vector<InboxEntry> entries;
    while (rows.step()) entries.push_back(to_inbox_entry(read_pending_row(rows)));
    return entries;
}

/// Adds the entries of the threads with a note, which a read-only store cannot adopt.
void add_changed(SqliteDatabase& database, std::vector<InboxEntry>& entries) {
    for (const std::string& thread_id : changed_threads(database)) {
        for (const PendingRow& row : pending_rows(database, thread_id)) {
            if (!row.expired) entries.push_back(to_inbox_entry(row));
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
    try {
        record.request = hitl_request_from_json(parse_lenient(row.text(3)));
        record.answer = parse_lenient(row.text(4));
    } catch (const Error& error) {
        record.damage = "row cubepi_native_answers.id=" + std::to_string(row.integer(0)) +
                        " cannot be read: " + error.what();
    }
    return record;
}

}  // namespace

std::optional<InboxPage> list_requests(SqliteDatabase& database, const InboxQuery& query) {
    const InboxKey after = read_inbox_cursor(query);
    const bool changed = has_changed_threads(database);
    if (changed && !database.is_read_only()) return std::nullopt;
    // One more shows whether there is another page.
    const std::int64_t limit = row_limit(query.limit()) + 1;
    std::vector<InboxEntry> entries = entries_after(database, after, query.order(), limit);
    if (changed) add_changed(database, entries);
    return inbox_page(std::move(entries), query);
}

std::vector<InboxEntry> expire_due(SqliteDatabase& database, double now, std::size_t limit) {
    adopt_all_changes(database);
    std::vector<InboxEntry> entries;
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
            entries.push_back(to_inbox_entry(row));
        }
    }
    for (const std::int64_t id : ids) {
        database.prepare("UPDATE cubepi_native_pending SET expired = 1 WHERE id = ?")
            .bind(id)
            .run();
    }
    return entries;
}

void answer_request(SqliteDatabase& database, const std::string& thread_id,
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

}  // namespace cubepi::detail
