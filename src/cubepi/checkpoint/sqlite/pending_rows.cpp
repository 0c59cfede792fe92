#include <cubepi/checkpoint/sqlite/pending_rows.hpp>

#include <utility>
#include <vector>

#include <cubepi/core/error.hpp>

namespace cubepi::detail {

namespace {

constexpr std::string_view remedy =
    "discard the requests of the thread with HitlInbox::discard_requests()";

std::string row_ref(const PendingRow& row) {
    if (row.id == 0) return "thread_pending_request.thread_id=" + row.thread_id;
    return "cubepi_native_pending.id=" + std::to_string(row.id);
}

}  // namespace

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

PendingRequest to_pending_request(const SqliteDatabase& database, const PendingRow& row) {
    std::string damage;
    std::optional<HitlRequest> request = parse_request(row, damage);
    if (!request) database.fail_row(row.thread_id, row_ref(row), damage, remedy);
    PendingRequest pending;
    pending.request = std::move(*request);
    pending.run_id = row.run_id;
    pending.expired = row.expired;
    return pending;
}

InboxEntry to_inbox_entry(const PendingRow& row) { return to_inbox_entry(row, row_ref(row)); }

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

}  // namespace cubepi::detail
