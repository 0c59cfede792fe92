#include <map>
#include <optional>
#include <utility>

#include <cubepi/checkpoint/format/stored_json.hpp>
#include <cubepi/checkpoint/server/schema.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/schema/python_json.hpp>

// The answers and the pending request of a thread in the tables of CubePi on a server. Their JSON columns do not hold every value:
// format/stored_json.hpp.

namespace cubepi::detail {

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
