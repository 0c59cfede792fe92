#include <string>
#include <utility>

#include <cubepi/checkpoint/claim_rules.hpp>
#include <cubepi/checkpoint/server/operations.hpp>
#include <cubepi/schema/python_json.hpp>

// The claims of runs, and the mark of a started batch: one row per call. The answers of a batch are moved from the table of
// CubePi to one of this library, so that CubePi does not use them a second time.

namespace cubepi::detail {

namespace {

/// Applies `change(ClaimRules&)` to the runs and claims of a thread.
template <class F>
auto change_claims(SqlStorePtr store, std::string thread_id, std::string run_id, F change)
    -> Task<std::invoke_result_t<F&, ClaimRules&>> {
    SqlPlan plan;
    plan.threads.push_back(thread_id);
    (void)add_claim_reads(plan.reads, thread_id, run_id);
    const std::chrono::seconds lease = store->options().lease;
    auto decide = [thread_id, change, lease](const SqlView& view, SqlBatch& writes) {
        ClaimSheet claims = read_claims(view.results, 0);
        ClaimRules rules(claims, thread_id, ClaimTime{view.now, lease});
        if constexpr (std::is_void_v<std::invoke_result_t<F&, ClaimRules&>>) {
            change(rules);
            write_claims(writes, thread_id, claims);
        } else {
            auto result = change(rules);
            write_claims(writes, thread_id, claims);
            return result;
        }
    };
    return server_write(std::move(store), std::move(plan), std::move(decide));
}

void write_started(SqlBatch& writes, const std::string& thread_id, const BatchStart& start) {
    write_thread_row(writes, thread_id);
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
        .text(to_python_json(answer.answer));
}

}  // namespace

Task<ClaimResult> claim_run(SqlStorePtr store, std::string thread_id, std::string run_id,
                            ClaimOwner owner, ClaimKind kind) {
    auto change = [run_id, owner, kind](ClaimRules& rules) {
        return rules.claim(run_id, owner, kind);
    };
    return change_claims(std::move(store), std::move(thread_id), run_id, std::move(change));
}

Task<void> renew_claim(SqlStorePtr store, std::string thread_id, std::string run_id,
                       std::string owner_id) {
    auto change = [run_id, owner_id](ClaimRules& rules) { rules.renew(run_id, owner_id); };
    return change_claims(std::move(store), std::move(thread_id), run_id, std::move(change));
}

Task<void> release_claim(SqlStorePtr store, std::string thread_id, std::string run_id,
                         std::string owner_id) {
    auto change = [run_id, owner_id](ClaimRules& rules) { rules.release(run_id, owner_id); };
    return change_claims(std::move(store), std::move(thread_id), run_id, std::move(change));
}

Task<void> mark_run_complete(SqlStorePtr store, std::string thread_id, std::string run_id) {
    auto change = [run_id](ClaimRules& rules) { rules.mark_complete(run_id); };
    return change_claims(std::move(store), std::move(thread_id), run_id, std::move(change));
}

Task<void> complete_run(SqlStorePtr store, std::string thread_id, std::string run_id,
                        std::string owner_id) {
    auto change = [run_id, owner_id](ClaimRules& rules) { rules.complete(run_id, owner_id); };
    return change_claims(std::move(store), std::move(thread_id), run_id, std::move(change));
}

Task<bool> is_run_complete(SqlStorePtr store, std::string thread_id, std::string run_id) {
    SqlBatch reads;
    reads
        .add(
            "SELECT 1 FROM cubepi_runs WHERE thread_id = $1 AND run_id = $2"
            " AND completed_at IS NOT NULL")
        .text(thread_id)
        .text(run_id);
    auto convert = [](const SqlResults& results) { return results[0].rows() > 0; };
    return server_read(std::move(store), std::move(reads), std::move(convert));
}

Task<void> mark_batch_started(SqlStorePtr store, std::string thread_id, BatchStart start) {
    SqlPlan plan;
    plan.threads.push_back(thread_id);
    const std::size_t claims = add_claim_reads(plan.reads, thread_id, start.run_id);
    const std::size_t answers =
        add_answer_reads(plan.reads, thread_id, start.run_id, start.question_ids);
    const std::size_t same = plan.reads.size();
    plan.reads
        .add(
            "SELECT 1 FROM cubepi_native_started WHERE thread_id = $1 AND run_id = $2"
            " AND batch_id = $3 LIMIT 1")
        .text(thread_id)
        .text(start.run_id)
        .text(start.batch_id);
    auto decide = [=](const SqlView& view, SqlBatch& writes) {
        if (!start.owner_id.empty()) {
            ClaimSheet sheet = read_claims(view.results, claims);
            ClaimRules(sheet, thread_id).require_claim(start.run_id, start.owner_id);
        }
        if (view.results[same].rows() == 0) remove_batch(writes, thread_id, start.run_id);
        write_started(writes, thread_id, start);
        for (const AnswerRow& answer : read_answers(view.results, answers))
            write_used(writes, thread_id, start.run_id, answer);
        remove_answers(writes, thread_id, start.run_id, start.question_ids);
    };
    return server_write(std::move(store), std::move(plan), std::move(decide));
}

Task<std::optional<StartedBatch>> load_started_batch(SqlStorePtr store, std::string thread_id,
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
    const SqlResults results = co_await store->read(std::move(reads));
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
        // Written by this library only.
        answer.answer = parse_lenient(results[1].text(row, 1));
        started->used_answers.push_back(std::move(answer));
    }
    co_return started;
}

}  // namespace cubepi::detail
