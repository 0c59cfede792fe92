#include <cubepi/checkpoint/sqlite/pending_rows.hpp>

#include <cmath>
#include <utility>
#include <vector>

#include <cubepi/checkpoint/sqlite/operations.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/schema/python_json.hpp>

namespace cubepi::detail {

namespace {

constexpr std::string_view digest_key = "approval_digest";
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

std::optional<HitlRequest> parse_request(const PendingRow& row, std::string& damage) {
    std::optional<HitlRequest> request;
    try {
        request = hitl_request_from_json(parse_lenient(row.request_json));
    } catch (const Error& error) {
        damage = error.what();
        return request;
    }
    if (!row.approval_digest.empty()) request->extra[digest_key] = row.approval_digest;
    return request;
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

InboxEntry to_inbox_entry(const PendingRow& row) {
    InboxEntry entry;
    entry.thread_id = row.thread_id;
    entry.run_id = row.run_id;
    entry.question_id = row.question_id;
    entry.created_at = row.created_at;
    if (std::isfinite(row.expires_at)) entry.expires_at = row.expires_at;
    std::string damage;
    entry.request = parse_request(row, damage);
    if (!entry.request) entry.damage = "row " + row_ref(row) + " cannot be read: " + damage;
    return entry;
}

void set_times(PendingRow& row, const HitlRequest& request) {
    row.created_at = std::isfinite(request.created_at) ? request.created_at : 0;
    row.expires_at = row.created_at + request.timeout_seconds.value_or(INFINITY);
    if (std::isnan(row.expires_at)) row.expires_at = INFINITY;
}

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
    PendingRow row;
    row.thread_id = thread_id;
    row.run_id = run_id;
    row.question_id = request.question_id;
    set_times(row, request);
    HitlRequest stored = request;
    const Json* digest = stored.extra.if_contains(digest_key);
    if (digest && digest->is_string()) {
        row.approval_digest = std::string(digest->get_string());
        stored.extra.erase(digest_key);
    }
    const JsonObject json = to_json(stored);
    refuse_too_deep(thread_id, "a request", json);
    row.request_json = to_python_json(json);
    insert_row(database, row);
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
