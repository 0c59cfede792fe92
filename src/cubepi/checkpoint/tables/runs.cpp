#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <cubepi/checkpoint/claim_rules.hpp>
#include <cubepi/checkpoint/tables/rows.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/schema/python_json.hpp>

// The claims of runs, and the mark of a started batch: one row per call. The answers of a batch are moved from the table of
// CubePi to one of this library, so that CubePi does not use them a second time.

namespace cubepi::detail {

namespace {

/// Removes the mark of the started batch of a run, and the answers that it used.
void remove_batch(SqlBatch& writes, const std::string& thread_id, const std::string& run_id) {
    for (const char* sql :
         {"DELETE FROM cubepi_native_started WHERE thread_id = $1 AND run_id = $2",
          "DELETE FROM cubepi_native_used_answers WHERE thread_id = $1 AND run_id = $2"}) {
        writes.add(sql).text(thread_id).text(run_id);
    }
}

void complete_run_row(SqlBatch& writes, const RunSchema& schema, const std::string& thread_id,
                      const std::string& run_id) {
    const TableWords words = schema.words();
    writes
        .add("UPDATE " + words.runs + " SET completed_at = " + words.now +
             ", completion_seq = (SELECT next FROM"
             " (SELECT coalesce(max(completion_seq), 0) + 1 AS next FROM " +
             words.runs + " WHERE thread_id = $1) AS last) WHERE thread_id = $1 AND run_id = $2")
        .text(thread_id)
        .text(run_id);
    remove_batch(writes, thread_id, run_id);
    schema.remove_all_answers(writes, thread_id, run_id);
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

void write_claims(SqlBatch& writes, const RunSchema& schema, const std::string& thread_id,
                  const ClaimSheet& claims) {
    if (!claims.removed().empty()) {
        writes
            .add(
                "DELETE FROM cubepi_native_claims WHERE thread_id = $1"
                " AND run_id {any $2}")
            .text(thread_id)
            .texts(claims.removed());
    }
    for (const std::string& run_id : claims.opened()) {
        schema.write_thread_row(writes, thread_id);
        writes.add("INSERT INTO " + schema.words().runs + " (thread_id, run_id) VALUES ($1, $2)")
            .text(thread_id)
            .text(run_id);
    }
    for (const std::string& run_id : claims.completed())
        complete_run_row(writes, schema, thread_id, run_id);
    for (const HeldClaim& claim : claims.put()) put_claim_row(writes, thread_id, claim);
}

void write_started(SqlBatch& writes, const std::string& thread_id, const BatchStart& start) {
    for (const std::string& call_id : start.tool_call_ids) {
        writes
            .add(
                "INSERT INTO cubepi_native_started (thread_id, run_id, batch_id, tool_call_id)"
                " VALUES ($1, $2, $3, $4) {skip}")
            .text(thread_id)
            .text(start.run_id)
            .text(start.batch_id)
            .text(call_id);
    }
}

void write_used(SqlBatch& writes, const std::string& thread_id, const std::string& run_id,
                const AnswerRow& answer) {
    writes
        .add(
            "INSERT INTO cubepi_native_used_answers (thread_id, run_id, question_id, answer_json)"
            " VALUES ($1, $2, $3, $4) {replace thread_id, run_id, question_id: answer_json}")
        .text(thread_id)
        .text(run_id)
        .text(answer.question_id)
        .text(answer.text);
}

}  // namespace

Task<ClaimResult> ThreadTables::change_claim(std::string thread_id, ClaimChange change) {
    SqlPlan plan;
    plan.locks.push_back(thread_id);
    (void)add_claim_reads(plan.reads, *run_schema_, thread_id, change.run_id);
    auto decide = [schema = run_schema_, thread_id, change, lease = lease_](const SqlView& view,
                                                                            SqlBatch& writes) {
        ClaimSheet claims = read_claims(view.results, 0);
        ClaimRules rules(claims, thread_id, ClaimTime{view.now, lease});
        ClaimResult result = rules.apply(change);
        write_claims(writes, *schema, thread_id, claims);
        return result;
    };
    return server_write(shared_from_this(), std::move(plan), std::move(decide));
}

Task<bool> ThreadTables::is_run_complete(std::string thread_id, std::string run_id) {
    SqlBatch reads;
    reads
        .add("SELECT 1 FROM " + run_schema_->words().runs +
             " WHERE thread_id = $1 AND run_id = $2 AND completed_at IS NOT NULL")
        .text(thread_id)
        .text(run_id);
    auto convert = [](const SqlResults& results) { return results[0].rows() > 0; };
    return server_read(shared_from_this(), std::move(reads), std::move(convert));
}

std::size_t add_claim_reads(SqlBatch& reads, const RunSchema& schema, const std::string& thread_id,
                            const std::string& run_id) {
    const std::size_t at = reads.size();
    reads
        .add(
            "SELECT run_id, owner_id, host, boot_id, pid, process_start, description, lease_until"
            " FROM cubepi_native_claims WHERE thread_id = $1 ORDER BY run_id")
        .text(thread_id);
    // Not one condition with OR, for which databases read all runs of the thread.
    reads
        .add(
            "SELECT runs.run_id, runs.completed_at IS NOT NULL FROM (SELECT $2 AS run_id UNION"
            " SELECT run_id FROM cubepi_native_claims WHERE thread_id = $1) AS wanted JOIN " +
            schema.words().runs + " AS runs ON runs.thread_id = $1 AND runs.run_id = wanted.run_id")
        .text(thread_id)
        .text(run_id);
    return at;
}

HeldClaim read_claim(const SqlResult& rows, int row) {
    HeldClaim claim;
    claim.run_id = rows.string(row, 0);
    claim.owner.owner_id = rows.string(row, 1);
    claim.owner.host = rows.string(row, 2);
    claim.owner.boot_id = rows.string(row, 3);
    claim.owner.pid = rows.integer(row, 4);
    claim.owner.process_start = rows.integer(row, 5);
    claim.owner.description = rows.string(row, 6);
    claim.lease_until = rows.number(row, 7);
    return claim;
}

ClaimSheet read_claims(const SqlResults& results, std::size_t at) {
    ClaimSheet sheet;
    const SqlResult& rows = results[at];
    for (int row = 0; row < rows.rows(); ++row) sheet.add_claim(read_claim(rows, row));
    const SqlResult& runs = results[at + 1];
    for (int row = 0; row < runs.rows(); ++row)
        sheet.add_run(runs.string(row, 0), runs.boolean(row, 1));
    return sheet;
}

void settle_questions(SqlBatch& writes, const RunSchema& schema, const std::string& thread_id,
                      const AppendOptions& options, const SqlResults& results, std::size_t at) {
    const std::string& run_id = options.settled_run_id();
    const std::vector<std::string>& questions = options.settled_questions();
    schema.remove_answers(writes, thread_id, run_id, questions);
    writes
        .add(
            "DELETE FROM cubepi_native_used_answers WHERE thread_id = $1 AND run_id = $2"
            " AND question_id {any $3}")
        .text(thread_id)
        .text(run_id)
        .texts(questions);
    PendingRequests pending(schema, thread_id, results, at);
    for (const std::string& question : questions) (void)pending.remove(run_id, question);
    pending.write(writes);
}

Task<std::size_t> mark_batch(TablesPtr tables, std::string thread_id, BatchStart start) {
    const RunSchemaPtr schema = tables->run_schema();
    SqlPlan plan;
    plan.locks.push_back(thread_id);
    const std::size_t claims = add_claim_reads(plan.reads, *schema, thread_id, start.run_id);
    const std::size_t answers =
        schema->add_answer_reads(plan.reads, thread_id, start.run_id, start.question_ids);
    const std::size_t same = plan.reads.size();
    plan.reads
        .add(
            "SELECT 1 FROM cubepi_native_started WHERE thread_id = $1 AND run_id = $2"
            " AND batch_id = $3 LIMIT 1")
        .text(thread_id)
        .text(start.run_id)
        .text(start.batch_id);
    auto decide = [schema, thread_id, start, claims, answers, same](const SqlView& view,
                                                                    SqlBatch& writes) {
        if (!start.owner_id.empty()) {
            ClaimSheet sheet = read_claims(view.results, claims);
            ClaimRules(sheet, thread_id).require_claim(start.run_id, start.owner_id);
        }
        if (view.results[same].rows() == 0) remove_batch(writes, thread_id, start.run_id);
        schema->write_thread_row(writes, thread_id);
        write_started(writes, thread_id, start);
        for (const AnswerRow& answer : schema->read_answers(view.results, answers))
            write_used(writes, thread_id, start.run_id, answer);
        schema->remove_answers(writes, thread_id, start.run_id, start.question_ids);
    };
    co_await server_write(std::move(tables), std::move(plan), std::move(decide));
    co_return 0;
}

Task<std::optional<StartedBatch>> ThreadTables::load_started_batch(std::string thread_id,
                                                                   std::string run_id) {
    SqlBatch reads;
    reads
        .add(
            "SELECT batch_id, tool_call_id FROM cubepi_native_started WHERE thread_id = $1"
            " AND run_id = $2 ORDER BY id")
        .text(thread_id)
        .text(run_id);
    reads
        .add(
            "SELECT question_id, answer_json FROM cubepi_native_used_answers WHERE thread_id = $1"
            " AND run_id = $2 ORDER BY question_id")
        .text(thread_id)
        .text(run_id);
    auto convert = [name = name_, thread_id, run_id](const SqlResults& results) {
        std::optional<StartedBatch> started;
        const SqlResult& calls = results[0];
        for (int row = 0; row < calls.rows(); ++row) {
            if (!started) started.emplace();
            started->batch_id = calls.string(row, 0);
            started->tool_call_ids.push_back(calls.string(row, 1));
        }
        for (int row = 0; started && row < results[1].rows(); ++row) {
            HitlAnswer answer;
            answer.run_id = run_id;
            answer.question_id = results[1].string(row, 0);
            try {
                answer.answer = parse_lenient(results[1].text(row, 1));
            } catch (const Error& error) {
                name.fail_row(thread_id,
                              "cubepi_native_used_answers.question_id=" + answer.question_id,
                              error.what());
            }
            started->used_answers.push_back(std::move(answer));
        }
        return started;
    };
    return server_read(shared_from_this(), std::move(reads), std::move(convert));
}

}  // namespace cubepi::detail
