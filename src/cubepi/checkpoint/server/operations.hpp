#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <cubepi/agent/batch_store.hpp>
#include <cubepi/agent/checkpointer.hpp>
#include <cubepi/agent/question_store.hpp>
#include <cubepi/checkpoint/server/store.hpp>

// The functions of the store. See agent/checkpointer.hpp.

namespace cubepi::detail {

using SqlStorePtr = std::shared_ptr<SqlStore>;

// threads.cpp
Task<std::optional<CheckpointData>> load_thread(SqlStorePtr store, std::string thread_id);
Task<std::int64_t> append_messages(SqlStorePtr store, std::string thread_id, MessageList messages,
                                   AppendOptions options);
Task<void> save_extra(SqlStorePtr store, std::string thread_id, JsonObject extra);
Task<std::optional<Message>> find_message(SqlStorePtr store, std::string thread_id,
                                          std::string message_id);
Task<MessageList> snapshot_thread(SqlStorePtr store, std::string thread_id,
                                  std::string after_run_id);
Task<void> fork_thread(SqlStorePtr store, std::string source, std::string target,
                       std::string after_run_id, std::optional<JsonObject> metadata);
Task<std::vector<ThreadInfo>> list_threads(SqlStorePtr store);
Task<void> delete_thread(SqlStorePtr store, std::string thread_id);

// runs.cpp
Task<ClaimResult> claim_run(SqlStorePtr store, std::string thread_id, std::string run_id,
                            ClaimOwner owner, ClaimKind kind);
Task<void> renew_claim(SqlStorePtr store, std::string thread_id, std::string run_id,
                       std::string owner_id);
Task<void> release_claim(SqlStorePtr store, std::string thread_id, std::string run_id,
                         std::string owner_id);
Task<void> mark_run_complete(SqlStorePtr store, std::string thread_id, std::string run_id);
Task<void> complete_run(SqlStorePtr store, std::string thread_id, std::string run_id,
                        std::string owner_id);
Task<bool> is_run_complete(SqlStorePtr store, std::string thread_id, std::string run_id);
Task<void> mark_batch_started(SqlStorePtr store, std::string thread_id, BatchStart start);
Task<std::optional<StartedBatch>> load_started_batch(SqlStorePtr store, std::string thread_id,
                                                     std::string run_id);

// requests.cpp
Task<void> save_pending_request(SqlStorePtr store, std::string thread_id, std::string run_id,
                                HitlRequest request);
Task<std::vector<PendingRequest>> load_pending_requests(SqlStorePtr store, std::string thread_id);
Task<bool> clear_pending_request(SqlStorePtr store, std::string thread_id, std::string run_id,
                                 std::string question_id);
Task<void> save_hitl_answer(SqlStorePtr store, std::string thread_id, HitlAnswer answer);
Task<std::optional<Json>> load_hitl_answer(SqlStorePtr store, std::string thread_id,
                                           std::string run_id, std::string question_id);
Task<void> clear_hitl_answers(SqlStorePtr store, std::string thread_id, std::string run_id,
                              std::vector<std::string> question_ids);

Task<QuestionPage> list_requests(SqlStorePtr store, QuestionQuery query);
Task<std::vector<QuestionEntry>> expire_due(SqlStorePtr store, double now, std::size_t limit);
Task<void> answer_request(SqlStorePtr store, std::string thread_id, AnswerRecord record);
Task<std::vector<AnswerRecord>> load_answer_records(SqlStorePtr store, std::string thread_id);
Task<std::size_t> discard_requests(SqlStorePtr store, std::string thread_id);

}  // namespace cubepi::detail
