#include <cubepi/checkpoint/sqlite/shared_requests.hpp>

#include <limits>
#include <utility>

#include <cubepi/schema/python_json.hpp>

namespace cubepi::detail {

namespace {

std::string shared_text(HitlRequest request) {
    return to_python_json(shared_request_json(std::move(request)));
}

bool same_text(const HitlRequest& shared, const HitlRequest& ours) {
    return shared_text(ours) == shared_text(shared);
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

}  // namespace

std::vector<PendingRow> pending_rows(SqliteDatabase& database, const std::string& thread_id) {
    std::optional<SharedRequest> shared = read_shared(database, thread_id);
    if (!shared) return {};
    return pending_by_both(std::move(shared), read_ours(database, thread_id), same_text);
}

void adopt_changes(SqliteDatabase& database, const std::string& thread_id) {
    const std::vector<PendingRow> rows = pending_rows(database, thread_id);
    const bool from_shared = rows.empty() || rows.front().id == 0;
    const std::int64_t first =
        from_shared ? std::numeric_limits<std::int64_t>::max() : rows.front().id;
    remove_before(database, thread_id, first);
    if (!rows.empty() && from_shared) insert_row(database, rows.front());
    remove_note(database, thread_id);
}

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

std::vector<std::string> changed_threads(SqliteDatabase& database) {
    SqliteStatement rows = database.prepare(
        "SELECT thread_id FROM cubepi_native_changed_pending WHERE thread_id >= ''"
        " ORDER BY thread_id");
    std::vector<std::string> threads;
    while (rows.step()) threads.emplace_back(rows.text(0));
    return threads;
}

bool has_changed_threads(SqliteDatabase& database) {
    return database.prepare("SELECT 1 FROM cubepi_native_changed_pending WHERE thread_id >= ''")
        .step();
}

void adopt_all_changes(SqliteDatabase& database) {
    for (const std::string& thread_id : changed_threads(database))
        adopt_changes(database, thread_id);
}

}  // namespace cubepi::detail
