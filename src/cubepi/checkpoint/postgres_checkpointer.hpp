#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <cubepi/agent/batch_store.hpp>
#include <cubepi/agent/checkpointer.hpp>
#include <cubepi/agent/hitl_inbox.hpp>
#include <cubepi/checkpoint/postgres_options.hpp>

namespace cubepi {

namespace detail {
class PgStore;
}

/// Threads in a PostgreSQL database, in the tables of Python CubePi 0.13 to CubeLoop 0.15 (version 5) and in tables of this
/// library (cubepi_native_*): both can use one database at the same time (D21, D71). The tables must exist:
/// cubepi/checkpoint/postgres_schema.hpp creates and migrates them.
///
/// The constructor does no I/O; it throws CheckpointerError(invalid_argument) if the connection string cannot be parsed.
/// Calls may come from any thread and several executors; each uses a connection of the pool, on the executor of its caller,
/// and never blocks it. Name resolution runs in Runtime::resolvers.
///
/// A write that is cancelled before its COMMIT was sent stores nothing; after that, the call waits for the result. If the
/// connection breaks, a read or a write that was not committed is repeated on another connection. A write whose COMMIT may or
/// may not have arrived is looked up. An executor must outlive the calls made on it. A store cannot be used after fork().
///
/// Throws, from every call, CheckpointerLockTimeoutError, CheckpointCorruptionError (with the row), or CheckpointerError with
/// ErrorCode::dns, connect, tls, auth, not_found (the database), disconnected, timeout (also when the pool is exhausted),
/// unavailable, permission_denied (also for a read-only server), schema_mismatch, storage_locked, storage_full or storage.
/// After `disconnected` with "unknown" in its text, load the thread to learn whether the write was stored.
class PostgresCheckpointer final : public Checkpointer,
                                   public RunStore,
                                   public MessageIndex,
                                   public HitlStore,
                                   public BatchStore,
                                   public HitlInbox,
                                   public ForkStore,
                                   public ThreadStore {
public:
    /// `connection` is PostgresOptions::connection.
    explicit PostgresCheckpointer(std::string connection);
    explicit PostgresCheckpointer(PostgresOptions options);
    ~PostgresCheckpointer() override;
    PostgresCheckpointer(const PostgresCheckpointer&) = delete;
    PostgresCheckpointer& operator=(const PostgresCheckpointer&) = delete;

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

    Task<InboxPage> list_requests(InboxQuery query) override;
    Task<std::vector<InboxEntry>> expire_due(double now, std::size_t limit) override;
    Task<void> answer_request(std::string thread_id, AnswerRecord record) override;
    Task<std::vector<AnswerRecord>> load_answer_records(std::string thread_id) override;
    Task<std::size_t> discard_requests(std::string thread_id) override;

    Task<MessageList> snapshot(std::string thread_id, std::string after_run_id) override;
    Task<void> fork(std::string source_thread_id, std::string new_thread_id,
                    std::string after_run_id, std::optional<JsonObject> metadata) override;

    Task<std::vector<ThreadInfo>> list_threads() override;
    Task<void> delete_thread(std::string thread_id) override;

private:
    std::shared_ptr<detail::PgStore> store_;
};

}  // namespace cubepi
