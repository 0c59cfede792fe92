#include <string>
#include <utility>
#include <vector>

#include <cubepi/checkpoint/claim_rules.hpp>
#include <cubepi/checkpoint/sqlite/operations.hpp>
#include <cubepi/checkpoint/sqlite/worker.hpp>
#include <cubepi/checkpoint/sqlite_checkpointer.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/schema/python_json.hpp>

// The claims of runs, and the mark of a started batch: one row per call. The answers of a batch are moved from the table of
// CubePi to one of this library, so that CubePi does not use them a second time.

namespace cubepi::detail {

namespace {

void run_on_run(SqliteDatabase& database, std::string_view sql, const std::string& thread_id,
                const std::string& run_id) {
    database.prepare(sql).bind(thread_id).bind(run_id).run();
}

/// Removes the mark and all answers of a run that completes.
void remove_answers_of_run(SqliteDatabase& database, const std::string& thread_id,
                           const std::string& run_id) {
    for (const std::string_view sql :
         {"DELETE FROM cubepi_native_started WHERE thread_id = ? AND run_id = ?",
          "DELETE FROM cubepi_native_used_answers WHERE thread_id = ? AND run_id = ?",
          "DELETE FROM thread_hitl_answers WHERE thread_id = ? AND run_id = ?"}) {
        run_on_run(database, sql, thread_id, run_id);
    }
}

/// The runs and claims of a thread, in the transaction of the caller.
class SqliteClaims final : public ClaimTable {
public:
    SqliteClaims(SqliteDatabase& database, const std::string& thread_id)
        : database_(database), thread_id_(thread_id) {}

    RunState run_state(const std::string& run_id) const override {
        SqliteStatement statement = database_.prepare(
            "SELECT completed_at IS NOT NULL FROM runs WHERE thread_id = ? AND run_id = ?");
        if (!statement.bind(thread_id_).bind(run_id).step()) return RunState::unknown;
        return statement.integer(0) != 0 ? RunState::complete : RunState::open;
    }
    std::vector<HeldClaim> claims() const override {
        SqliteStatement rows = database_.prepare(
            "SELECT run_id, owner_id, host, boot_id, pid, process_start, description, lease_until"
            " FROM cubepi_native_claims WHERE thread_id = ?");
        rows.bind(thread_id_);
        std::vector<HeldClaim> claims;
        while (rows.step()) {
            HeldClaim claim;
            claim.run_id = rows.text(0);
            claim.owner.owner_id = rows.text(1);
            claim.owner.host = rows.text(2);
            claim.owner.boot_id = rows.text(3);
            claim.owner.pid = rows.integer(4);
            claim.owner.process_start = rows.integer(5);
            claim.owner.description = rows.text(6);
            claim.lease_until = rows.number(7);
            claims.push_back(std::move(claim));
        }
        return claims;
    }
    void open_run(const std::string& run_id) override {
        database_.prepare("INSERT INTO runs (thread_id, run_id) VALUES (?, ?)")
            .bind(thread_id_)
            .bind(run_id)
            .run();
    }
    void complete_run(const std::string& run_id) override {
        database_
            .prepare(
                "UPDATE runs SET completed_at = julianday('now'), completion_seq ="
                " (SELECT coalesce(max(completion_seq), 0) + 1 FROM runs WHERE thread_id = ?1)"
                " WHERE thread_id = ?1 AND run_id = ?2")
            .bind(thread_id_)
            .bind(run_id)
            .run();
        remove_answers_of_run(database_, thread_id_, run_id);
    }
    void put_claim(const HeldClaim& claim) override {
        database_
            .prepare(
                "INSERT OR REPLACE INTO cubepi_native_claims (thread_id, run_id, owner_id, host, "
                "boot_id, pid,"
                " process_start, description, lease_until) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)")
            .bind(thread_id_)
            .bind(claim.run_id)
            .bind(claim.owner.owner_id)
            .bind(claim.owner.host)
            .bind(claim.owner.boot_id)
            .bind(claim.owner.pid)
            .bind(claim.owner.process_start)
            .bind(claim.owner.description)
            .bind(claim.lease_until)
            .run();
    }
    void remove_claim(const std::string& run_id) override {
        database_.prepare("DELETE FROM cubepi_native_claims WHERE thread_id = ? AND run_id = ?")
            .bind(thread_id_)
            .bind(run_id)
            .run();
    }

private:
    SqliteDatabase& database_;
    const std::string& thread_id_;
};

ClaimTime time_of(const SqliteDatabase& database) {
    return ClaimTime{database.now(), database.options().lease};
}

void run_on_question(SqliteDatabase& database, std::string_view sql, const std::string& thread_id,
                     const std::string& run_id, const std::string& question_id) {
    database.prepare(sql).bind(thread_id).bind(run_id).bind(question_id).run();
}

/// Removes the mark of another batch of the run.
void remove_former_batch(SqliteDatabase& database, const std::string& thread_id,
                         const BatchStart& start) {
    bool same = false;
    {
        SqliteStatement row = database.prepare(
            "SELECT 1 FROM cubepi_native_started WHERE thread_id = ? AND run_id = ? AND batch_id = "
            "?");
        same = row.bind(thread_id).bind(start.run_id).bind(start.batch_id).step();
    }
    if (same) return;
    run_on_run(database, "DELETE FROM cubepi_native_started WHERE thread_id = ? AND run_id = ?",
               thread_id, start.run_id);
    run_on_run(database,
               "DELETE FROM cubepi_native_used_answers WHERE thread_id = ? AND run_id = ?",
               thread_id, start.run_id);
}

Json read_used_answer(SqliteDatabase& database, const std::string& thread_id,
                      const std::string& question_id, std::string_view text) {
    std::string why;
    try {
        return parse_lenient(text);
    } catch (const Error& error) {
        why = error.what();
    }
    database.fail_row(thread_id, "cubepi_native_used_answers.question_id=" + question_id, why);
}

}  // namespace

void require_claim(SqliteDatabase& database, const std::string& thread_id,
                   const std::string& run_id, const std::string& owner_id) {
    SqliteClaims claims(database, thread_id);
    ClaimRules(claims, thread_id).require_claim(run_id, owner_id);
}

bool is_run_complete(SqliteDatabase& database, const std::string& thread_id,
                     const std::string& run_id) {
    return SqliteClaims(database, thread_id).run_state(run_id) == RunState::complete;
}

void settle_questions(SqliteDatabase& database, const std::string& thread_id,
                      const std::string& run_id, const std::vector<std::string>& question_ids) {
    if (question_ids.empty()) return;
    clear_hitl_answers(database, thread_id, run_id, question_ids);
    for (const std::string& question_id : question_ids) {
        run_on_question(database,
                        "DELETE FROM cubepi_native_used_answers"
                        " WHERE thread_id = ? AND run_id = ? AND question_id = ?",
                        thread_id, run_id, question_id);
        (void)clear_pending_request(database, thread_id, run_id, question_id);
    }
}

namespace {

ClaimResult claim_run(SqliteDatabase& database, const std::string& thread_id,
                      const std::string& run_id, const ClaimOwner& owner, ClaimKind kind) {
    SqliteClaims claims(database, thread_id);
    return ClaimRules(claims, thread_id, time_of(database)).claim(run_id, owner, kind);
}

void renew_claim(SqliteDatabase& database, const std::string& thread_id, const std::string& run_id,
                 const std::string& owner_id) {
    SqliteClaims claims(database, thread_id);
    ClaimRules(claims, thread_id, time_of(database)).renew(run_id, owner_id);
}

void release_claim(SqliteDatabase& database, const std::string& thread_id,
                   const std::string& run_id, const std::string& owner_id) {
    SqliteClaims claims(database, thread_id);
    ClaimRules(claims, thread_id).release(run_id, owner_id);
}

void mark_run_complete(SqliteDatabase& database, const std::string& thread_id,
                       const std::string& run_id) {
    SqliteClaims claims(database, thread_id);
    ClaimRules(claims, thread_id).mark_complete(run_id);
}

void complete_run(SqliteDatabase& database, const std::string& thread_id, const std::string& run_id,
                  const std::string& owner_id) {
    SqliteClaims claims(database, thread_id);
    ClaimRules(claims, thread_id).complete(run_id, owner_id);
}

void mark_batch_started(SqliteDatabase& database, const std::string& thread_id,
                        const BatchStart& start) {
    if (!start.owner_id.empty()) require_claim(database, thread_id, start.run_id, start.owner_id);
    remove_former_batch(database, thread_id, start);
    for (const std::string& call_id : start.tool_call_ids) {
        database
            .prepare(
                "INSERT OR IGNORE INTO cubepi_native_started (thread_id, run_id, batch_id, "
                "tool_call_id) VALUES (?, ?, ?, ?)")
            .bind(thread_id)
            .bind(start.run_id)
            .bind(start.batch_id)
            .bind(call_id)
            .run();
    }
    for (const std::string& question_id : start.question_ids) {
        run_on_question(database,
                        "INSERT OR REPLACE INTO cubepi_native_used_answers (thread_id, run_id,"
                        " question_id, answer_json) SELECT thread_id, run_id, question_id,"
                        " answer_json FROM thread_hitl_answers"
                        " WHERE thread_id = ? AND run_id = ? AND question_id = ?",
                        thread_id, start.run_id, question_id);
        run_on_question(database,
                        "DELETE FROM thread_hitl_answers"
                        " WHERE thread_id = ? AND run_id = ? AND question_id = ?",
                        thread_id, start.run_id, question_id);
    }
}

std::optional<StartedBatch> load_started_batch(SqliteDatabase& database,
                                               const std::string& thread_id,
                                               const std::string& run_id) {
    std::optional<StartedBatch> started;
    SqliteStatement calls = database.prepare(
        "SELECT batch_id, tool_call_id FROM cubepi_native_started WHERE thread_id = ? AND run_id = "
        "? ORDER BY id");
    calls.bind(thread_id).bind(run_id);
    while (calls.step()) {
        if (!started) started.emplace();
        started->batch_id = calls.text(0);
        started->tool_call_ids.emplace_back(calls.text(1));
    }
    if (!started) return started;
    SqliteStatement answers = database.prepare(
        "SELECT question_id, answer_json FROM cubepi_native_used_answers WHERE thread_id = ? AND "
        "run_id = ? ORDER BY question_id");
    answers.bind(thread_id).bind(run_id);
    while (answers.step()) {
        HitlAnswer answer;
        answer.run_id = run_id;
        answer.question_id = answers.text(0);
        answer.answer = read_used_answer(database, thread_id, answer.question_id, answers.text(1));
        started->used_answers.push_back(std::move(answer));
    }
    return started;
}

}  // namespace

}  // namespace cubepi::detail

namespace cubepi {

using namespace detail;

Task<ClaimResult> SQLiteCheckpointer::claim_run(std::string thread_id, std::string run_id,
                                                ClaimOwner owner, ClaimKind kind) {
    return call_sqlite(worker_, SqliteAccess::write, detail::claim_run, std::move(thread_id),
                       std::move(run_id), std::move(owner), kind);
}

Task<void> SQLiteCheckpointer::renew_claim(std::string thread_id, std::string run_id,
                                           std::string owner_id) {
    return call_sqlite(worker_, SqliteAccess::write, detail::renew_claim, std::move(thread_id),
                       std::move(run_id), std::move(owner_id));
}

Task<void> SQLiteCheckpointer::release_claim(std::string thread_id, std::string run_id,
                                             std::string owner_id) {
    return call_sqlite(worker_, SqliteAccess::write, detail::release_claim, std::move(thread_id),
                       std::move(run_id), std::move(owner_id));
}

Task<void> SQLiteCheckpointer::mark_run_complete(std::string thread_id, std::string run_id) {
    return call_sqlite(worker_, SqliteAccess::write, detail::mark_run_complete,
                       std::move(thread_id), std::move(run_id));
}

Task<void> SQLiteCheckpointer::complete_run(std::string thread_id, std::string run_id,
                                            std::string owner_id) {
    return call_sqlite(worker_, SqliteAccess::write, detail::complete_run, std::move(thread_id),
                       std::move(run_id), std::move(owner_id));
}

Task<bool> SQLiteCheckpointer::is_run_complete(std::string thread_id, std::string run_id) {
    return call_sqlite(worker_, SqliteAccess::read, detail::is_run_complete, std::move(thread_id),
                       std::move(run_id));
}

Task<void> SQLiteCheckpointer::mark_batch_started(std::string thread_id, BatchStart start) {
    return call_sqlite(worker_, SqliteAccess::write, detail::mark_batch_started,
                       std::move(thread_id), std::move(start));
}

Task<std::optional<StartedBatch>> SQLiteCheckpointer::load_started_batch(std::string thread_id,
                                                                         std::string run_id) {
    return call_sqlite(worker_, SqliteAccess::read, detail::load_started_batch,
                       std::move(thread_id), std::move(run_id));
}

}  // namespace cubepi
