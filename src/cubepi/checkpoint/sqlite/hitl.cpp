#include <algorithm>
#include <string>
#include <utility>

#include <cubepi/checkpoint/sqlite/operations.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/schema/python_json.hpp>

// Python CubePi has one pending request per thread, in thread_pending_request. Ours are all in
// cubepi_native_pending, and theirs repeats the first of them. Where theirs is not the first of ours, CubePi has
// worked on the file since, and theirs is right: what stood before it is answered, and if it is none of ours, or there
// is none, nothing of ours is pending any more.

namespace cubepi::detail {

namespace {

constexpr std::string_view digest_key = "approval_digest";

struct StoredRequest {
    std::int64_t id = 0;  ///< 0: in CubePi's table only
    PendingRequest pending = {};
};

HitlRequest read_request(SqliteDatabase& database, const std::string& thread_id,
                         const std::string& row_ref, std::string_view text) {
    std::string why;
    try {
        return hitl_request_from_json(parse_lenient(text));
    } catch (const Error& error) {
        why = error.what();
    }
    database.fail_row(thread_id, row_ref, why);
}

/// The request as CubePi knows it, without the keys of ours.
std::string shared_text(HitlRequest request) {
    request.extra.clear();
    return to_python_json(to_json(request));
}

std::optional<StoredRequest> read_theirs(SqliteDatabase& database, const std::string& thread_id) {
    SqliteStatement row = database.prepare(
        "SELECT request_json, run_id FROM thread_pending_request WHERE thread_id = ?");
    std::optional<StoredRequest> stored;
    if (row.bind(thread_id).step()) {
        stored.emplace();
        stored->pending.request = read_request(
            database, thread_id, "thread_pending_request.thread_id=" + thread_id, row.text(0));
        stored->pending.run_id = row.text(1);
    }
    return stored;
}

std::vector<StoredRequest> read_ours(SqliteDatabase& database, const std::string& thread_id) {
    SqliteStatement rows = database.prepare(
        "SELECT id, run_id, request_json, approval_digest FROM cubepi_native_pending WHERE "
        "thread_id = ? ORDER BY id");
    rows.bind(thread_id);
    std::vector<StoredRequest> list;
    while (rows.step()) {
        StoredRequest stored;
        stored.id = rows.integer(0);
        stored.pending.run_id = rows.text(1);
        stored.pending.request =
            read_request(database, thread_id,
                         "cubepi_native_pending.id=" + std::to_string(stored.id), rows.text(2));
        if (!rows.is_null(3)) stored.pending.request.extra[digest_key] = rows.text(3);
        list.push_back(std::move(stored));
    }
    return list;
}

bool is_same(const PendingRequest& a, const PendingRequest& b) {
    return a.run_id == b.run_id && a.request.question_id == b.request.question_id &&
           shared_text(a.request) == shared_text(b.request);
}

/// Returns the pending requests in order, from both tables.
std::vector<StoredRequest> read_pending(SqliteDatabase& database, const std::string& thread_id) {
    std::optional<StoredRequest> theirs = read_theirs(database, thread_id);
    if (!theirs) return {};
    std::vector<StoredRequest> ours = read_ours(database, thread_id);
    const auto first = std::find_if(ours.begin(), ours.end(), [&](const StoredRequest& one) {
        return is_same(one.pending, theirs->pending);
    });
    std::vector<StoredRequest> pending;
    if (first == ours.end()) {
        pending.push_back(std::move(*theirs));
    } else {
        pending.assign(std::make_move_iterator(first), std::make_move_iterator(ours.end()));
    }
    return pending;
}

/// Rewrites both tables.
void write_pending(SqliteDatabase& database, const std::string& thread_id,
                   const std::vector<StoredRequest>& pending) {
    database.prepare("DELETE FROM cubepi_native_pending WHERE thread_id = ?").bind(thread_id).run();
    for (const StoredRequest& stored : pending) {
        HitlRequest request = stored.pending.request;
        std::string digest;
        if (const Json* value = request.extra.if_contains(digest_key);
            value && value->is_string()) {
            digest = std::string(value->get_string());
            request.extra.erase(digest_key);
        }
        const JsonObject json = to_json(request);
        refuse_too_deep(thread_id, "a request", json);
        const std::string text = to_python_json(json);
        database
            .prepare(
                "INSERT INTO cubepi_native_pending (thread_id, run_id, question_id, request_json,"
                " approval_digest) VALUES (?, ?, ?, ?, ?)")
            .bind(thread_id)
            .bind(stored.pending.run_id)
            .bind(request.question_id)
            .bind(text)
            .bind_or_null(digest)
            .run();
    }
    if (pending.empty()) {
        database.prepare("DELETE FROM thread_pending_request WHERE thread_id = ?")
            .bind(thread_id)
            .run();
        return;
    }
    const PendingRequest& first = pending.front().pending;
    const std::string text = shared_text(first.request);
    database
        .prepare(
            "INSERT INTO thread_pending_request (thread_id, request_json, run_id) VALUES (?, ?, ?)"
            " ON CONFLICT (thread_id) DO UPDATE SET request_json = excluded.request_json,"
            " run_id = excluded.run_id, created_at = excluded.created_at"
            " WHERE request_json <> excluded.request_json OR run_id IS NOT excluded.run_id")
        .bind(thread_id)
        .bind(text)
        .bind_or_null(first.run_id)
        .run();
}

auto find_question(std::vector<StoredRequest>& pending, const std::string& run_id,
                   const std::string& question_id) {
    return std::find_if(pending.begin(), pending.end(), [&](const StoredRequest& one) {
        return one.pending.run_id == run_id && one.pending.request.question_id == question_id;
    });
}

}  // namespace

void save_pending_request(SqliteDatabase& database, const std::string& thread_id,
                          const std::string& run_id, const HitlRequest& request) {
    std::vector<StoredRequest> pending = read_pending(database, thread_id);
    StoredRequest entry;
    entry.pending.request = request;
    entry.pending.run_id = run_id;
    const auto same = find_question(pending, run_id, request.question_id);
    if (same != pending.end()) {
        *same = std::move(entry);
    } else {
        pending.push_back(std::move(entry));
    }
    write_pending(database, thread_id, pending);
}

std::vector<PendingRequest> load_pending_requests(SqliteDatabase& database,
                                                  const std::string& thread_id) {
    std::vector<PendingRequest> list;
    for (StoredRequest& stored : read_pending(database, thread_id))
        list.push_back(std::move(stored.pending));
    return list;
}

bool clear_pending_request(SqliteDatabase& database, const std::string& thread_id,
                           const std::string& run_id, const std::string& question_id) {
    std::vector<StoredRequest> pending = read_pending(database, thread_id);
    const auto found = find_question(pending, run_id, question_id);
    if (found == pending.end()) return false;
    pending.erase(found);
    write_pending(database, thread_id, pending);
    return true;
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
