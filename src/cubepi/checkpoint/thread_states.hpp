#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <cubepi/checkpoint/stored_threads.hpp>
#include <cubepi/core/json.hpp>

namespace cubepi {

/// Runs whose requests, answers and batches are in a JSON object for each thread, {"pending", "answers", "batches", "answered"}: in
/// memory, and on tapes. Thread-safe.
class ThreadStates : public ThreadBackend, public std::enable_shared_from_this<ThreadStates> {
public:
    /// Calls `edit` with the object of the thread under its lock, stores the edited object atomically, and returns the result of
    /// `edit`, which throws only before it has changed anything but empty lists. It may be called again, and on another thread.
    virtual Task<Json> edit_state(std::string thread_id,
                                  std::function<Json(JsonObject& state)> edit) = 0;
    /// Calls `read` once with the object of the thread, perhaps under its lock.
    virtual Task<void> read_state(std::string thread_id,
                                  std::function<void(const JsonObject& state)> read) = 0;
    /// Throws StaleAppendError if the owner does not hold the claim on the run. Called in an edit.
    virtual void require_claim(const JsonObject& state, const std::string& thread_id,
                               const std::string& run_id, const std::string& owner_id) const = 0;
    /// Throws CheckpointCorruptionError for an unreadable request.
    [[noreturn]] virtual void throw_damaged(const QuestionEntry& request) const = 0;
    /// Returns true if the caller of a subagent asks the requests: they are stored, but not listed.
    virtual bool is_nested() const { return false; }

    Task<std::size_t> change_questions(std::string thread_id, QuestionChange change) override;
    Task<std::vector<PendingRequest>> load_pending_requests(std::string thread_id) override;
    Task<std::optional<Json>> load_hitl_answer(std::string thread_id, std::string run_id,
                                               std::string question_id) override;
    Task<std::optional<StartedBatch>> load_started_batch(std::string thread_id,
                                                         std::string run_id) override;
    Task<std::vector<AnswerRecord>> load_answer_records(std::string thread_id,
                                                        std::string run_id) override;
    Task<std::vector<QuestionEntry>> expire_due(double now, std::size_t limit) override;
};

}  // namespace cubepi
