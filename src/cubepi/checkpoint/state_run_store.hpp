#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <cubepi/agent/batch_store.hpp>
#include <cubepi/agent/checkpointer.hpp>
#include <cubepi/agent/question_store.hpp>
#include <cubepi/checkpoint/claimed_runs.hpp>
#include <cubepi/core/json.hpp>

namespace cubepi {

/// The runs of each thread, and a JSON object for each thread, in which StateRunStore stores requests, answers and batches.
/// Thread-safe.
class ThreadStates : public ClaimTransactions {
public:
    /// Calls `edit` with the object of the thread under its lock, stores the edited object atomically, and returns the result of
    /// `edit`, which throws only before it has changed anything but empty lists. It may be called again, and on another thread.
    virtual Task<Json> edit_state(std::string thread_id,
                                  std::function<Json(JsonObject& state)> edit) = 0;
    /// Calls `read` once with the object of the thread, perhaps under its lock.
    virtual Task<void> read_state(std::string thread_id,
                                  std::function<void(const JsonObject& state)> read) = 0;
    /// Returns a page of the requests in the objects of all threads, as QuestionStore::list_requests() does.
    virtual Task<QuestionPage> list_requests(QuestionQuery query) = 0;
    /// Throws StaleAppendError if the owner does not hold the claim on the run. Called in an edit.
    virtual void require_claim(const JsonObject& state, const std::string& thread_id,
                               const std::string& run_id, const std::string& owner_id) const = 0;
    /// Throws CheckpointCorruptionError for an unreadable request.
    [[noreturn]] virtual void throw_damaged(const QuestionEntry& request) const = 0;
    /// Returns true if the caller of a subagent asks the requests: they are stored, but not listed.
    virtual bool is_nested() const { return false; }
};

/// Claims, and pending requests, answers and started batches in a JSON object for each thread: {"pending", "answers", "batches",
/// "answered"}.
class StateRunStore : public ClaimedRuns,
                      public HitlStore,
                      public BatchStore,
                      public QuestionStore {
public:
    ~StateRunStore() override;
    StateRunStore(const StateRunStore&) = delete;
    StateRunStore& operator=(const StateRunStore&) = delete;

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
    explicit StateRunStore(std::shared_ptr<ThreadStates> states);

private:
    const std::shared_ptr<ThreadStates> states_;
};

}  // namespace cubepi
