#include <string>
#include <utility>

#include <cubepi/checkpoint/postgres/operations.hpp>
#include <cubepi/checkpoint/postgres/rows.hpp>
#include <cubepi/core/error.hpp>

namespace cubepi::detail {

namespace {

PgPlan plan_for(const std::string& thread_id) {
    PgPlan plan;
    plan.threads.push_back(thread_id);
    return plan;
}

}  // namespace

Task<void> save_pending_request(PgStorePtr store, std::string thread_id, std::string run_id,
                                HitlRequest request) {
    const PendingRow row = make_pending_row(thread_id, run_id, request);
    PgPlan plan = plan_for(thread_id);
    (void)PendingRequests::add_reads(plan.reads, thread_id, true);
    auto decide = [thread_id, row](const PgView& view, PgBatch& writes) {
        PendingRequests pending(thread_id, view.results, 0);
        pending.put(row);
        pending.write(writes);
    };
    co_await pg_write(std::move(store), std::move(plan), std::move(decide));
}

Task<std::vector<PendingRequest>> load_pending_requests(PgStorePtr store, std::string thread_id) {
    PgBatch reads;
    (void)PendingRequests::add_reads(reads, thread_id, false);
    const PgResults results = co_await store->read(std::move(reads));
    const PendingRequests pending(thread_id, results, 0);
    std::vector<PendingRequest> list;
    for (const PendingRow& row : pending.rows()) list.push_back(to_pending_request(*store, row));
    co_return list;
}

Task<bool> clear_pending_request(PgStorePtr store, std::string thread_id, std::string run_id,
                                 std::string question_id) {
    PgPlan plan = plan_for(thread_id);
    (void)PendingRequests::add_reads(plan.reads, thread_id, true);
    auto decide = [thread_id, run_id, question_id](const PgView& view, PgBatch& writes) {
        PendingRequests pending(thread_id, view.results, 0);
        const bool removed = pending.remove(run_id, question_id);
        pending.write(writes);
        return removed;
    };
    return pg_write(std::move(store), std::move(plan), std::move(decide));
}

Task<void> save_hitl_answer(PgStorePtr store, std::string thread_id, HitlAnswer answer) {
    refuse_too_deep(thread_id, "an answer", answer.answer);
    PgPlan plan = plan_for(thread_id);
    auto decide = [thread_id, answer](const PgView&, PgBatch& writes) {
        write_answer(writes, thread_id, answer.run_id, answer.question_id, answer.answer);
    };
    co_await pg_write(std::move(store), std::move(plan), std::move(decide));
}

Task<std::optional<Json>> load_hitl_answer(PgStorePtr store, std::string thread_id,
                                           std::string run_id, std::string question_id) {
    PgBatch reads;
    const std::vector<std::string> questions(1, question_id);
    (void)add_answer_reads(reads, thread_id, run_id, questions);
    const PgResults results = co_await store->read(std::move(reads));
    std::string why;
    try {
        const std::vector<StoredAnswer> answers = read_answers(results, 0);
        if (answers.empty()) co_return std::nullopt;
        co_return answers.front().answer;
    } catch (const Error& error) {
        why = error.what();
    }
    store->fail_row(thread_id, "cubepi_hitl_answers.question_id=" + question_id, why);
}

Task<void> clear_hitl_answers(PgStorePtr store, std::string thread_id, std::string run_id,
                              std::vector<std::string> question_ids) {
    PgPlan plan = plan_for(thread_id);
    auto decide = [thread_id, run_id, question_ids](const PgView&, PgBatch& writes) {
        if (question_ids.empty()) {
            remove_all_answers(writes, thread_id, run_id);
        } else {
            remove_answers(writes, thread_id, run_id, question_ids);
        }
    };
    return pg_write(std::move(store), std::move(plan), std::move(decide));
}

}  // namespace cubepi::detail
