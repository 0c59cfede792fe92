#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <cubepi/agent/batch_store.hpp>
#include <cubepi/agent/checkpointer.hpp>
#include <cubepi/agent/question_store.hpp>
#include <cubepi/checkpoint/claimed_runs.hpp>

namespace cubepi {

namespace detail {
class ThreadTables;
}

/// The abilities that the stores in databases share: claims, pending requests, answers and started batches. Use
/// SQLiteCheckpointer, PostgresCheckpointer or MySQLCheckpointer, which describe the errors and the thread rules.
class SqlRunStore : public ClaimedRuns, public HitlStore, public BatchStore, public QuestionStore {
public:
    ~SqlRunStore() override;
    SqlRunStore(const SqlRunStore&) = delete;
    SqlRunStore& operator=(const SqlRunStore&) = delete;

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
    explicit SqlRunStore(std::shared_ptr<detail::ThreadTables> tables);

private:
    const std::shared_ptr<detail::ThreadTables> tables_;
};

}  // namespace cubepi
