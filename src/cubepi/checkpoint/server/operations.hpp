#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <cubepi/agent/batch_store.hpp>
#include <cubepi/agent/checkpointer.hpp>
#include <cubepi/agent/hitl_inbox.hpp>
#include <cubepi/checkpoint/server/store.hpp>

// The functions of the store. See agent/checkpointer.hpp.

namespace cubepi::detail {

using ServerStorePtr = std::shared_ptr<ServerStore>;

// threads.cpp
Task<std::optional<CheckpointData>> load_thread(ServerStorePtr store, std::string thread_id);
Task<std::int64_t> append_messages(ServerStorePtr store, std::string thread_id,
                                   MessageList messages, AppendOptions options);
Task<void> save_extra(ServerStorePtr store, std::string thread_id, JsonObject extra);
Task<std::optional<Message>> find_message(ServerStorePtr store, std::string thread_id,
                                          std::string message_id);
Task<MessageList> snapshot_thread(ServerStorePtr store, std::string thread_id,
                                  std::string after_run_id);
Task<void> fork_thread(ServerStorePtr store, std::string source, std::string target,
                       std::string after_run_id, std::optional<JsonObject> metadata);
Task<std::vector<ThreadInfo>> list_threads(ServerStorePtr store);
Task<void> delete_thread(ServerStorePtr store, std::string thread_id);

// runs.cpp
Task<ClaimResult> claim_run(ServerStorePtr store, std::string thread_id, std::string run_id,
                            ClaimOwner owner, ClaimKind kind);
Task<void> renew_claim(ServerStorePtr store, std::string thread_id, std::string run_id,
                       std::string owner_id);
Task<void> release_claim(ServerStorePtr store, std::string thread_id, std::string run_id,
                         std::string owner_id);
Task<void> mark_run_complete(ServerStorePtr store, std::string thread_id, std::string run_id);
Task<void> complete_run(ServerStorePtr store, std::string thread_id, std::string run_id,
                        std::string owner_id);
Task<bool> is_run_complete(ServerStorePtr store, std::string thread_id, std::string run_id);
Task<void> mark_batch_started(ServerStorePtr store, std::string thread_id, BatchStart start);
Task<std::optional<StartedBatch>> load_started_batch(ServerStorePtr store, std::string thread_id,
                                                     std::string run_id);

// requests.cpp
Task<void> save_pending_request(ServerStorePtr store, std::string thread_id, std::string run_id,
                                HitlRequest request);
Task<std::vector<PendingRequest>> load_pending_requests(ServerStorePtr store,
                                                        std::string thread_id);
Task<bool> clear_pending_request(ServerStorePtr store, std::string thread_id, std::string run_id,
                                 std::string question_id);
Task<void> save_hitl_answer(ServerStorePtr store, std::string thread_id, HitlAnswer answer);
Task<std::optional<Json>> load_hitl_answer(ServerStorePtr store, std::string thread_id,
                                           std::string run_id, std::string question_id);
Task<void> clear_hitl_answers(ServerStorePtr store, std::string thread_id, std::string run_id,
                              std::vector<std::string> question_ids);

Task<InboxPage> list_requests(ServerStorePtr store, InboxQuery query);
Task<std::vector<InboxEntry>> expire_due(ServerStorePtr store, double now, std::size_t limit);
Task<void> answer_request(ServerStorePtr store, std::string thread_id, AnswerRecord record);
Task<std::vector<AnswerRecord>> load_answer_records(ServerStorePtr store, std::string thread_id);
Task<std::size_t> discard_requests(ServerStorePtr store, std::string thread_id);

}  // namespace cubepi::detail
