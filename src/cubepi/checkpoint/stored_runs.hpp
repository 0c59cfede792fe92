#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <cubepi/agent/batch_store.hpp>
#include <cubepi/agent/checkpointer.hpp>
#include <cubepi/agent/question_store.hpp>
#include <cubepi/checkpoint/claim_rules.hpp>

namespace cubepi {

/// Removes a pending request, or all of a thread, unreadable ones too.
struct RequestRemoval {
    std::string run_id = {};
    std::string question_id = {};
    bool all = false;
};

/// Removes answers of a run; all of them if `question_ids` is empty.
struct AnswerRemoval {
    std::string run_id = {};
    std::vector<std::string> question_ids = {};
};

/// A change of the requests, answers and batches of a thread: an operation of HitlStore, BatchStore or QuestionStore, by its
/// argument. A PendingRequest is saved, a HitlAnswer is stored, a BatchStart marks a batch, an AnswerRecord answers a request.
using QuestionChange = std::variant<PendingRequest, HitlAnswer, BatchStart, AnswerRecord,
                                    RequestRemoval, AnswerRemoval>;

/// The place in which StoredRuns stores runs: a database, or a JSON object for each thread. Thread-safe. The functions whose names
/// are those of operations are these operations.
class RunBackend {
public:
    virtual ~RunBackend() = default;
    /// Executes the change atomically by the rules of ClaimRules.
    virtual Task<ClaimResult> change_claim(std::string thread_id, ClaimChange change) = 0;
    virtual Task<bool> is_run_complete(std::string thread_id, std::string run_id) = 0;

    /// Executes the change in one write. Returns the number of requests that a RequestRemoval has removed.
    virtual Task<std::size_t> change_questions(std::string thread_id, QuestionChange change) = 0;
    virtual Task<std::vector<PendingRequest>> load_pending_requests(std::string thread_id) = 0;
    virtual Task<std::optional<Json>> load_hitl_answer(std::string thread_id, std::string run_id,
                                                       std::string question_id) = 0;
    virtual Task<std::optional<StartedBatch>> load_started_batch(std::string thread_id,
                                                                 std::string run_id) = 0;
    virtual Task<std::vector<AnswerRecord>> load_answer_records(std::string thread_id) = 0;
    virtual Task<QuestionPage> list_requests(QuestionQuery query) = 0;
    virtual Task<std::vector<QuestionEntry>> expire_due(double now, std::size_t limit) = 0;
};

/// The operations on claims, pending requests, answers and started batches of all stores of this library (D228). The stores
/// describe the errors and the thread rules.
class StoredRuns : public RunStore, public HitlStore, public BatchStore, public QuestionStore {
public:
    ~StoredRuns() override;
    StoredRuns(const StoredRuns&) = delete;
    StoredRuns& operator=(const StoredRuns&) = delete;

    Task<ClaimResult> claim_run(std::string thread_id, std::string run_id, ClaimOwner owner,
                                ClaimKind kind) override;
    Task<void> renew_claim(std::string thread_id, std::string run_id,
                           std::string owner_id) override;
    Task<void> release_claim(std::string thread_id, std::string run_id,
                             std::string owner_id) override;
    Task<void> mark_run_complete(std::string thread_id, std::string run_id) override;
    Task<void> complete_run(std::string thread_id, std::string run_id,
                            std::string owner_id) override;
    Task<bool> is_run_complete(std::string thread_id, std::string run_id) override;

    Task<void> save_pending_request(std::string thread_id, std::string run_id,
                                    HitlRequest request) override;
    Task<std::vector<PendingRequest>> load_pending_requests(std::string thread_id) override;
    Task<bool> clear_pending_request(std::string thread_id, std::string run_id,
                                     std::string question_id) override;
    Task<void> save_hitl_answer(std::string thread_id, HitlAnswer answer) override;
    Task<std::optional<Json>> load_hitl_answer(std::string thread_id, std::string run_id,
                                               std::string question_id) override;
    Task<void> clear_hitl_answers(std::string thread_id, std::string run_id,
                                  std::vector<std::string> question_ids) override;

    Task<void> mark_batch_started(std::string thread_id, BatchStart start) override;
    Task<std::optional<StartedBatch>> load_started_batch(std::string thread_id,
                                                         std::string run_id) override;

    Task<QuestionPage> list_requests(QuestionQuery query) override;
    Task<std::vector<QuestionEntry>> expire_due(double now, std::size_t limit) override;
    Task<void> answer_request(std::string thread_id, AnswerRecord record) override;
    Task<std::vector<AnswerRecord>> load_answer_records(std::string thread_id) override;
    Task<std::size_t> discard_requests(std::string thread_id) override;

protected:
    explicit StoredRuns(std::shared_ptr<RunBackend> runs);

private:
    const std::shared_ptr<RunBackend> runs_;
};

}  // namespace cubepi
