#include <cubepi/checkpoint/server/operations.hpp>

#include <map>
#include <utility>

#include <cubepi/checkpoint/format/stored_json.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/schema/python_json.hpp>

namespace cubepi::detail {

void write_thread_row(SqlBatch& writes, const std::string& thread_id) {
    writes.add("INSERT INTO cubepi_threads (thread_id) VALUES ($1) {skip}").text(thread_id);
}

std::size_t add_extra_reads(SqlBatch& reads, const std::string& thread_id, bool for_update) {
    const std::size_t at = reads.size();
    reads
        .add(std::string("SELECT {text extra}, parent_thread_id FROM cubepi_threads"
                         " WHERE thread_id = $1") +
             (for_update ? " FOR UPDATE" : ""))
        .text(thread_id);
    reads
        .add(
            "SELECT json FROM cubepi_native_exact"
            " WHERE thread_id = $1 AND item = 'extra' AND run_id = '' AND question_id = ''")
        .text(thread_id);
    return at;
}

JsonObject read_extra(const SqlStore& store, const std::string& thread_id,
                      const SqlResults& results, std::size_t at) {
    if (results[at].rows() == 0) return {};
    std::optional<std::string> exact;
    if (results[at + 1].rows() > 0) exact = results[at + 1].string(0, 0);
    std::string why;
    try {
        Json extra = exact_json(parse_lenient(results[at].text(0, 0)), exact);
        if (extra.is_object()) return std::move(extra.get_object());
        why = "not a JSON object";
    } catch (const Error& error) {
        why = error.what();
    }
    store.fail_row(thread_id, "cubepi_threads.thread_id=" + thread_id, why);
}

void write_exact_extra(SqlBatch& writes, const std::string& thread_id, const JsonObject& extra) {
    if (survives_server_json(Json(extra))) {
        writes.add("DELETE FROM cubepi_native_exact WHERE thread_id = $1 AND item = 'extra'")
            .text(thread_id);
        return;
    }
    writes
        .add(
            "INSERT INTO cubepi_native_exact (thread_id, item, run_id, question_id, json)"
            " VALUES ($1, 'extra', '', '', $2)"
            " {replace thread_id, item, run_id, question_id: json}")
        .text(thread_id)
        .text(to_python_json(extra));
}

void write_extra(const SqlStore& store, SqlBatch& writes, const std::string& thread_id,
                 const ExtraChange& change) {
    store.driver().write_extra(writes, thread_id, change);
    write_exact_extra(writes, thread_id, change.merged);
}

void MessageRows::start() noexcept {
    messages_.clear();
    position_ = 0;
    failure_ = nullptr;
}

void MessageRows::receive(const SqlResult& rows, int row) noexcept {
    if (failure_) return;
    try {
        messages_.push_back(read(rows, row));
        position_ = rows.integer(row, 0);
    } catch (...) {
        failure_ = std::current_exception();
    }
}

Message MessageRows::read(const SqlResult& rows, int row) {
    std::string why;
    try {
        return reader_.read(rows.text(row, 2), rows.text(row, 1));
    } catch (const Error& error) {
        why = error.what();
    }
    store_->fail_row(thread_id_, "cubepi_messages.seq=" + std::to_string(rows.integer(row, 0)),
                     why);
}

MessageList MessageRows::take() {
    if (failure_) std::rethrow_exception(failure_);
    return std::move(messages_);
}

std::size_t add_claim_reads(SqlBatch& reads, const std::string& thread_id,
                            const std::string& run_id) {
    const std::size_t at = reads.size();
    reads
        .add(
            "SELECT run_id, owner_id, host, boot_id, pid, process_start, description, lease_until"
            " FROM cubepi_native_claims WHERE thread_id = $1 ORDER BY run_id")
        .text(thread_id);
    reads
        .add(
            "SELECT run_id, completed_at IS NOT NULL FROM cubepi_runs WHERE thread_id = $1"
            " AND (run_id = $2 OR run_id IN"
            " (SELECT run_id FROM cubepi_native_claims WHERE thread_id = $1))")
        .text(thread_id)
        .text(run_id);
    return at;
}

ClaimSheet read_claims(const SqlResults& results, std::size_t at) {
    ClaimSheet sheet;
    const SqlResult& rows = results[at];
    for (int row = 0; row < rows.rows(); ++row) {
        HeldClaim claim;
        claim.run_id = rows.string(row, 0);
        claim.owner.owner_id = rows.string(row, 1);
        claim.owner.host = rows.string(row, 2);
        claim.owner.boot_id = rows.string(row, 3);
        claim.owner.pid = rows.integer(row, 4);
        claim.owner.process_start = rows.integer(row, 5);
        claim.owner.description = rows.string(row, 6);
        claim.lease_until = rows.number(row, 7);
        sheet.add_claim(std::move(claim));
    }
    const SqlResult& runs = results[at + 1];
    for (int row = 0; row < runs.rows(); ++row)
        sheet.add_run(runs.string(row, 0), runs.boolean(row, 1));
    return sheet;
}

namespace {

void complete_run_row(SqlBatch& writes, const std::string& thread_id, const std::string& run_id) {
    writes
        .add(
            "UPDATE cubepi_runs SET completed_at = now(), completion_seq = (SELECT next FROM"
            " (SELECT coalesce(max(completion_seq), 0) + 1 AS next FROM cubepi_runs"
            " WHERE thread_id = $1) AS last)"
            " WHERE thread_id = $1 AND run_id = $2")
        .text(thread_id)
        .text(run_id);
    remove_batch(writes, thread_id, run_id);
    remove_all_answers(writes, thread_id, run_id);
}

void put_claim_row(SqlBatch& writes, const std::string& thread_id, const HeldClaim& claim) {
    writes
        .add(
            "INSERT INTO cubepi_native_claims (thread_id, run_id, owner_id, host, boot_id, pid,"
            " process_start, description, lease_until) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)"
            " {replace thread_id, run_id: owner_id, host, boot_id, pid, process_start, description,"
            " lease_until}")
        .text(thread_id)
        .text(claim.run_id)
        .text(claim.owner.owner_id)
        .text(claim.owner.host)
        .text(claim.owner.boot_id)
        .integer(claim.owner.pid)
        .integer(claim.owner.process_start)
        .text(claim.owner.description)
        .number(claim.lease_until);
}

}  // namespace

void write_claims(SqlBatch& writes, const std::string& thread_id, const ClaimSheet& claims) {
    if (!claims.removed().empty()) {
        writes
            .add(
                "DELETE FROM cubepi_native_claims WHERE thread_id = $1"
                " AND run_id {any $2}")
            .text(thread_id)
            .texts(claims.removed());
    }
    for (const std::string& run_id : claims.opened()) {
        write_thread_row(writes, thread_id);
        writes.add("INSERT INTO cubepi_runs (thread_id, run_id) VALUES ($1, $2)")
            .text(thread_id)
            .text(run_id);
    }
    for (const std::string& run_id : claims.completed())
        complete_run_row(writes, thread_id, run_id);
    for (const HeldClaim& claim : claims.put()) put_claim_row(writes, thread_id, claim);
}

std::size_t add_answer_reads(SqlBatch& reads, const std::string& thread_id,
                             const std::string& run_id, const std::vector<std::string>& questions) {
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

std::vector<AnswerRow> read_answers(const SqlResults& results, std::size_t at) {
    std::map<std::string, std::string> exact;
    const SqlResult& texts = results[at + 1];
    for (int row = 0; row < texts.rows(); ++row) exact[texts.string(row, 0)] = texts.string(row, 1);
    std::vector<AnswerRow> answers;
    const SqlResult& rows = results[at];
    for (int row = 0; row < rows.rows(); ++row) {
        AnswerRow answer;
        answer.question_id = rows.string(row, 0);
        const auto text = exact.find(answer.question_id);
        answer.answer =
            exact_json(parse_lenient(rows.text(row, 1)),
                       text == exact.end() ? std::nullopt : std::optional(text->second));
        answers.push_back(std::move(answer));
    }
    return answers;
}

void write_answer(SqlBatch& writes, const std::string& thread_id, const std::string& run_id,
                  const std::string& question_id, const Json& answer) {
    write_thread_row(writes, thread_id);
    writes
        .add(
            "INSERT INTO cubepi_hitl_answers (thread_id, run_id, question_id, answer)"
            " VALUES ($1, $2, $3, $4) {replace thread_id, run_id, question_id: answer},"
            " answered_at = now()")
        .text(thread_id)
        .text(run_id)
        .text(question_id)
        .json(server_json_text(answer));
    if (survives_server_json(answer)) return;
    writes
        .add(
            "INSERT INTO cubepi_native_exact (thread_id, item, run_id, question_id, json)"
            " VALUES ($1, 'answer', $2, $3, $4)"
            " {replace thread_id, item, run_id, question_id: json}")
        .text(thread_id)
        .text(run_id)
        .text(question_id)
        .text(to_python_json(answer));
}

void remove_answers(SqlBatch& writes, const std::string& thread_id, const std::string& run_id,
                    const std::vector<std::string>& questions) {
    for (const char* sql :
         {"DELETE FROM cubepi_hitl_answers WHERE thread_id = $1 AND run_id = $2"
          " AND question_id {any $3}",
          "DELETE FROM cubepi_native_exact WHERE thread_id = $1 AND item = 'answer'"
          " AND run_id = $2 AND question_id {any $3}"}) {
        writes.add(sql).text(thread_id).text(run_id).texts(questions);
    }
}

void remove_batch(SqlBatch& writes, const std::string& thread_id, const std::string& run_id) {
    for (const char* sql :
         {"DELETE FROM cubepi_native_started WHERE thread_id = $1 AND run_id = $2",
          "DELETE FROM cubepi_native_used_answers WHERE thread_id = $1 AND run_id = $2"}) {
        writes.add(sql).text(thread_id).text(run_id);
    }
}

void remove_all_answers(SqlBatch& writes, const std::string& thread_id, const std::string& run_id) {
    for (const char* sql :
         {"DELETE FROM cubepi_hitl_answers WHERE thread_id = $1 AND run_id = $2",
          "DELETE FROM cubepi_native_exact WHERE thread_id = $1 AND item = 'answer'"
          " AND run_id = $2"}) {
        writes.add(sql).text(thread_id).text(run_id);
    }
}

}  // namespace cubepi::detail
