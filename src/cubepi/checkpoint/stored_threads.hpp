#pragma once

#include <cstddef>
#include <cstdint>
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

/// The messages of a thread that are read, oldest first.
enum class ThreadPart : std::uint8_t {
    all,      ///< all, with extra and position
    message,  ///< the one with an id, or none
    completed,  ///< those without a run, and those of runs that completed no later than a run (ForkStore::snapshot)
};

/// A reading operation on a thread: load(), find_message() or snapshot().
struct ThreadQuery {
    std::string thread_id = {};
    ThreadPart part = ThreadPart::all;
    std::string id = {};  ///< of the message or run
};

/// Stores messages, extra, or both. Extra alone is save_extra().
struct ThreadAppend {
    MessageList messages = {};
    AppendOptions options = {};
};

/// Copies the messages that ThreadPart::completed selects, with the runs and extra, to a new thread.
struct ThreadFork {
    std::string new_thread_id = {};
    std::string after_run_id = {};
    std::optional<JsonObject> metadata = {};
};

/// Deletes the thread.
struct ThreadRemoval {};

/// A change of a thread and its messages: an operation of Checkpointer, ForkStore or ThreadStore, by its argument.
using ThreadChange = std::variant<ThreadAppend, ThreadFork, ThreadRemoval>;

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

/// The place in which StoredThreads stores threads: a database, a JSON object for each thread, or tapes. Thread-safe. The
/// functions whose names are those of operations are these operations.
class ThreadBackend {
public:
    virtual ~ThreadBackend() = default;
    /// Returns the messages; with ThreadPart::all as load() does, with ThreadPart::completed or its errors as snapshot() does.
    virtual Task<std::optional<CheckpointData>> read_thread(ThreadQuery query) = 0;
    /// Executes the change atomically. Returns the new position after an append.
    virtual Task<std::int64_t> change_thread(std::string thread_id, ThreadChange change) = 0;
    virtual Task<std::vector<ThreadInfo>> list_threads() = 0;

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
    virtual Task<std::vector<AnswerRecord>> load_answer_records(std::string thread_id,
                                                                std::string run_id) = 0;
    virtual Task<QuestionPage> list_requests(QuestionQuery query) = 0;
    virtual Task<std::vector<QuestionEntry>> expire_due(double now, std::size_t limit) = 0;
};

/// The operations of all stores of this library (D228). The stores describe the errors and the thread rules.
class StoredThreads : public Checkpointer,
                      public MessageIndex,
                      public ForkStore,
                      public ThreadStore,
                      public RunStore,
                      public HitlStore,
                      public BatchStore,
                      public QuestionStore {
public:
    explicit StoredThreads(std::shared_ptr<ThreadBackend> backend);
    ~StoredThreads() override;
    StoredThreads(const StoredThreads&) = delete;
    StoredThreads& operator=(const StoredThreads&) = delete;
    /// For a store that adds something to this one, and must not outlive it.
    const std::shared_ptr<ThreadBackend>& backend() const noexcept { return backend_; }

    Task<std::optional<CheckpointData>> load(std::string thread_id) override;
    Task<std::int64_t> append(std::string thread_id, MessageList messages,
                              AppendOptions options) override;
    Task<void> save_extra(std::string thread_id, JsonObject extra) override;

    Task<std::optional<Message>> find_message(std::string thread_id,
                                              std::string message_id) override;

    Task<MessageList> snapshot(std::string thread_id, std::string after_run_id) override;
    Task<void> fork(std::string source_thread_id, std::string new_thread_id,
                    std::string after_run_id, std::optional<JsonObject> metadata) override;

    Task<std::vector<ThreadInfo>> list_threads() override;
    Task<void> delete_thread(std::string thread_id) override;

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
    Task<std::vector<AnswerRecord>> load_answer_records(std::string thread_id,
                                                        std::string run_id) override;
    Task<std::size_t> discard_requests(std::string thread_id) override;

private:
    const std::shared_ptr<ThreadBackend> backend_;
};

}  // namespace cubepi
