#include <string>
#include <utility>

#include <cubepi/checkpoint/format/stored_json.hpp>
#include <cubepi/checkpoint/sqlite/operations.hpp>
#include <cubepi/checkpoint/sqlite/pending_rows.hpp>
#include <cubepi/checkpoint/sqlite/shared_requests.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/schema/python_json.hpp>

namespace cubepi::detail {

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

bool clear_pending_request(SqliteDatabase& database, const std::string& thread_id,
                           const std::string& run_id, const std::string& question_id) {
    adopt_changes(database, thread_id);
    const bool removed = remove_pending(database, thread_id, run_id, question_id);
    publish_first(database, thread_id);
    return removed;
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
