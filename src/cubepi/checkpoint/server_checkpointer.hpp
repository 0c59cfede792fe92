#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <cubepi/agent/batch_store.hpp>
#include <cubepi/agent/checkpointer.hpp>
#include <cubepi/agent/question_store.hpp>
#include <cubepi/sql/options.hpp>

namespace cubepi {

namespace detail {
class SqlDriver;
class SqlThreadStore;
class ThreadSchema;
}  // namespace detail

/// The abilities of the stores on a database server. Use PostgresCheckpointer or MySQLCheckpointer, which describe the errors
/// and the thread rules.
class SqlCheckpointer : public Checkpointer,
                        public RunStore,
                        public MessageIndex,
                        public HitlStore,
                        public BatchStore,
                        public QuestionStore,
                        public ForkStore,
                        public ThreadStore {
public:
    ~SqlCheckpointer() override;
    SqlCheckpointer(const SqlCheckpointer&) = delete;
    SqlCheckpointer& operator=(const SqlCheckpointer&) = delete;

    /// Connects and checks the tables now, to detect errors early. Optional.
    Task<void> open();

    Task<std::optional<CheckpointData>> load(std::string thread_id) override;
    Task<std::int64_t> append(std::string thread_id, MessageList messages,
                              AppendOptions options) override;
    Task<void> save_extra(std::string thread_id, JsonObject extra) override;

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

    Task<std::optional<Message>> find_message(std::string thread_id,
                                              std::string message_id) override;

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

    Task<MessageList> snapshot(std::string thread_id, std::string after_run_id) override;
    Task<void> fork(std::string source_thread_id, std::string new_thread_id,
                    std::string after_run_id, std::optional<JsonObject> metadata) override;

    Task<std::vector<ThreadInfo>> list_threads() override;
    Task<void> delete_thread(std::string thread_id) override;

protected:
    SqlCheckpointer(SqlOptions options, std::shared_ptr<const detail::SqlDriver> driver,
                    std::shared_ptr<const detail::ThreadSchema> schema);

private:
    std::shared_ptr<detail::SqlThreadStore> store_;
};

}  // namespace cubepi
