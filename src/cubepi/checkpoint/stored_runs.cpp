#include <cubepi/checkpoint/stored_runs.hpp>

#include <utility>

namespace cubepi {

namespace {

using Step = ClaimChange::Step;
using BackendPtr = std::shared_ptr<RunBackend>;

Task<void> change_claim(BackendPtr runs, std::string thread_id, Step step, std::string run_id,
                        std::string owner_id) {
    ClaimChange change;
    change.step = step;
    change.run_id = std::move(run_id);
    change.owner.owner_id = std::move(owner_id);
    (void)co_await runs->change_claim(std::move(thread_id), std::move(change));
}

Task<void> change_questions(BackendPtr runs, std::string thread_id, QuestionChange change) {
    (void)co_await runs->change_questions(std::move(thread_id), std::move(change));
}

Task<bool> remove_request(BackendPtr runs, std::string thread_id, RequestRemoval removal) {
    QuestionChange change = std::move(removal);
    const std::size_t removed =
        co_await runs->change_questions(std::move(thread_id), std::move(change));
    co_return removed > 0;
}

}  // namespace

StoredRuns::StoredRuns(std::shared_ptr<RunBackend> runs) : runs_(std::move(runs)) {}

StoredRuns::~StoredRuns() = default;

Task<ClaimResult> StoredRuns::claim_run(std::string thread_id, std::string run_id, ClaimOwner owner,
                                        ClaimKind kind) {
    ClaimChange change;
    change.run_id = std::move(run_id);
    change.owner = std::move(owner);
    change.kind = kind;
    return runs_->change_claim(std::move(thread_id), std::move(change));
}

Task<void> StoredRuns::renew_claim(std::string thread_id, std::string run_id,
                                   std::string owner_id) {
    return change_claim(runs_, std::move(thread_id), Step::renew, std::move(run_id),
                        std::move(owner_id));
}

Task<void> StoredRuns::release_claim(std::string thread_id, std::string run_id,
                                     std::string owner_id) {
    return change_claim(runs_, std::move(thread_id), Step::release, std::move(run_id),
                        std::move(owner_id));
}

Task<void> StoredRuns::mark_run_complete(std::string thread_id, std::string run_id) {
    return change_claim(runs_, std::move(thread_id), Step::mark_complete, std::move(run_id), {});
}

Task<void> StoredRuns::complete_run(std::string thread_id, std::string run_id,
                                    std::string owner_id) {
    return change_claim(runs_, std::move(thread_id), Step::complete, std::move(run_id),
                        std::move(owner_id));
}

Task<bool> StoredRuns::is_run_complete(std::string thread_id, std::string run_id) {
    return runs_->is_run_complete(std::move(thread_id), std::move(run_id));
}

Task<void> StoredRuns::save_pending_request(std::string thread_id, std::string run_id,
                                            HitlRequest request) {
    PendingRequest pending;
    pending.run_id = std::move(run_id);
    pending.request = std::move(request);
    return change_questions(runs_, std::move(thread_id), std::move(pending));
}

Task<std::vector<PendingRequest>> StoredRuns::load_pending_requests(std::string thread_id) {
    return runs_->load_pending_requests(std::move(thread_id));
}

Task<bool> StoredRuns::clear_pending_request(std::string thread_id, std::string run_id,
                                             std::string question_id) {
    RequestRemoval removal;
    removal.run_id = std::move(run_id);
    removal.question_id = std::move(question_id);
    return remove_request(runs_, std::move(thread_id), std::move(removal));
}

Task<void> StoredRuns::save_hitl_answer(std::string thread_id, HitlAnswer answer) {
    return change_questions(runs_, std::move(thread_id), std::move(answer));
}

Task<std::optional<Json>> StoredRuns::load_hitl_answer(std::string thread_id, std::string run_id,
                                                       std::string question_id) {
    return runs_->load_hitl_answer(std::move(thread_id), std::move(run_id), std::move(question_id));
}

Task<void> StoredRuns::clear_hitl_answers(std::string thread_id, std::string run_id,
                                          std::vector<std::string> question_ids) {
    AnswerRemoval removal;
    removal.run_id = std::move(run_id);
    removal.question_ids = std::move(question_ids);
    return change_questions(runs_, std::move(thread_id), std::move(removal));
}

Task<void> StoredRuns::mark_batch_started(std::string thread_id, BatchStart start) {
    return change_questions(runs_, std::move(thread_id), std::move(start));
}

Task<std::optional<StartedBatch>> StoredRuns::load_started_batch(std::string thread_id,
                                                                 std::string run_id) {
    return runs_->load_started_batch(std::move(thread_id), std::move(run_id));
}

Task<QuestionPage> StoredRuns::list_requests(QuestionQuery query) {
    return runs_->list_requests(std::move(query));
}

Task<std::vector<QuestionEntry>> StoredRuns::expire_due(double now, std::size_t limit) {
    return runs_->expire_due(now, limit);
}

Task<void> StoredRuns::answer_request(std::string thread_id, AnswerRecord record) {
    return change_questions(runs_, std::move(thread_id), std::move(record));
}

Task<std::vector<AnswerRecord>> StoredRuns::load_answer_records(std::string thread_id) {
    return runs_->load_answer_records(std::move(thread_id));
}

Task<std::size_t> StoredRuns::discard_requests(std::string thread_id) {
    RequestRemoval removal;
    removal.all = true;
    return runs_->change_questions(std::move(thread_id), std::move(removal));
}

}  // namespace cubepi
