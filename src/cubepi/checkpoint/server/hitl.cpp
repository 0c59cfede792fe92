#include <string>
#include <utility>

#include <cubepi/checkpoint/server/operations.hpp>
#include <cubepi/checkpoint/server/rows.hpp>
#include <cubepi/core/error.hpp>

namespace cubepi::detail {

namespace {

ServerPlan plan_for(const std::string& thread_id) {
    ServerPlan plan;
    plan.threads.push_back(thread_id);
    return plan;
}

}  // namespace

Task<void> save_pending_request(ServerStorePtr store, std::string thread_id, std::string run_id,
                                HitlRequest request) {
    const PendingRow row = make_pending_row(thread_id, run_id, request);
    ServerPlan plan = plan_for(thread_id);
    (void)PendingRequests::add_reads(plan.reads, thread_id, true);
    auto decide = [thread_id, row](const ServerView& view, ServerBatch& writes) {
        PendingRequests pending(thread_id, view.results, 0);
        pending.put(row);
        pending.write(writes);
    };
    co_await server_write(std::move(store), std::move(plan), std::move(decide));
}

Task<std::vector<PendingRequest>> load_pending_requests(ServerStorePtr store,
                                                        std::string thread_id) {
    ServerBatch reads;
    (void)PendingRequests::add_reads(reads, thread_id, false);
    const ServerResults results = co_await store->read(std::move(reads));
    const PendingRequests pending(thread_id, results, 0);
    std::vector<PendingRequest> list;
    for (const PendingRow& row : pending.rows()) list.push_back(to_pending_request(*store, row));
    co_return list;
}

Task<bool> clear_pending_request(ServerStorePtr store, std::string thread_id, std::string run_id,
                                 std::string question_id) {
    ServerPlan plan = plan_for(thread_id);
    (void)PendingRequests::add_reads(plan.reads, thread_id, true);
    auto decide = [thread_id, run_id, question_id](const ServerView& view, ServerBatch& writes) {
        PendingRequests pending(thread_id, view.results, 0);
        const bool removed = pending.remove(run_id, question_id);
        pending.write(writes);
        return removed;
    };
    return server_write(std::move(store), std::move(plan), std::move(decide));
}

Task<void> save_hitl_answer(ServerStorePtr store, std::string thread_id, HitlAnswer answer) {
    refuse_too_deep(thread_id, "an answer", answer.answer);
    ServerPlan plan = plan_for(thread_id);
    auto decide = [thread_id, answer](const ServerView&, ServerBatch& writes) {
        write_answer(writes, thread_id, answer.run_id, answer.question_id, answer.answer);
    };
    co_await server_write(std::move(store), std::move(plan), std::move(decide));
}

Task<std::optional<Json>> load_hitl_answer(ServerStorePtr store, std::string thread_id,
                                           std::string run_id, std::string question_id) {
    ServerBatch reads;
    const std::vector<std::string> questions(1, question_id);
    (void)add_answer_reads(reads, thread_id, run_id, questions);
    const ServerResults results = co_await store->read(std::move(reads));
    std::string why;
    try {
        const std::vector<AnswerRow> answers = read_answers(results, 0);
        if (answers.empty()) co_return std::nullopt;
        co_return answers.front().answer;
    } catch (const Error& error) {
        why = error.what();
    }
    store->fail_row(thread_id, "cubepi_hitl_answers.question_id=" + question_id, why);
}

Task<void> clear_hitl_answers(ServerStorePtr store, std::string thread_id, std::string run_id,
                              std::vector<std::string> question_ids) {
    ServerPlan plan = plan_for(thread_id);
    auto decide = [thread_id, run_id, question_ids](const ServerView&, ServerBatch& writes) {
        if (question_ids.empty()) {
            remove_all_answers(writes, thread_id, run_id);
        } else {
            remove_answers(writes, thread_id, run_id, question_ids);
        }
    };
    return server_write(std::move(store), std::move(plan), std::move(decide));
}

}  // namespace cubepi::detail
