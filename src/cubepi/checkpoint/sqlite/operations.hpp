#pragma once

#include <optional>
#include <string>
#include <vector>

#include <cubepi/agent/batch_store.hpp>
#include <cubepi/agent/checkpointer.hpp>
#include <cubepi/agent/question_store.hpp>
#include <cubepi/checkpoint/sqlite/database.hpp>

// The functions of the store, executed on the thread of the database in a transaction. See agent/checkpointer.hpp.

namespace cubepi::detail {

// threads.cpp
std::optional<CheckpointData> load_thread(SqliteDatabase& database, const std::string& thread_id);
std::int64_t append_messages(SqliteDatabase& database, const std::string& thread_id,
                             const MessageList& messages, const AppendOptions& options);
void save_extra(SqliteDatabase& database, const std::string& thread_id, const JsonObject& extra);
std::optional<Message> find_message(SqliteDatabase& database, const std::string& thread_id,
                                    const std::string& message_id);
/// Returns the message of the row. Throws CheckpointCorruptionError naming the row if it is unreadable.
Message read_message(SqliteDatabase& database, const std::string& thread_id, std::int64_t row,
                     std::string_view json);
MessageList snapshot_thread(SqliteDatabase& database, const std::string& thread_id,
                            const std::string& after_run_id);
void fork_thread(SqliteDatabase& database, const std::string& source, const std::string& target,
                 const std::string& after_run_id, const std::optional<JsonObject>& metadata);
std::vector<ThreadInfo> list_threads(SqliteDatabase& database);
void delete_thread(SqliteDatabase& database, const std::string& thread_id);

// runs.cpp
ClaimResult claim_run(SqliteDatabase& database, const std::string& thread_id,
                      const std::string& run_id, const ClaimOwner& owner, ClaimKind kind);
void renew_claim(SqliteDatabase& database, const std::string& thread_id, const std::string& run_id,
                 const std::string& owner_id);
void release_claim(SqliteDatabase& database, const std::string& thread_id,
                   const std::string& run_id, const std::string& owner_id);
void mark_run_complete(SqliteDatabase& database, const std::string& thread_id,
                       const std::string& run_id);
void complete_run(SqliteDatabase& database, const std::string& thread_id, const std::string& run_id,
                  const std::string& owner_id);
bool is_run_complete(SqliteDatabase& database, const std::string& thread_id,
                     const std::string& run_id);
/// Throws StaleAppendError if `owner_id` does not hold the claim any more.
void require_claim(SqliteDatabase& database, const std::string& thread_id,
                   const std::string& run_id, const std::string& owner_id);
void mark_batch_started(SqliteDatabase& database, const std::string& thread_id,
                        const BatchStart& start);
std::optional<StartedBatch> load_started_batch(SqliteDatabase& database,
                                               const std::string& thread_id,
                                               const std::string& run_id);
/// Removes the requests and answers of these questions, the used answers too.
void settle_questions(SqliteDatabase& database, const std::string& thread_id,
                      const std::string& run_id, const std::vector<std::string>& question_ids);
/// Removes the mark and all answers of a run that completes.
void remove_answers_of_run(SqliteDatabase& database, const std::string& thread_id,
                           const std::string& run_id);

// requests.cpp
void save_pending_request(SqliteDatabase& database, const std::string& thread_id,
                          const std::string& run_id, const HitlRequest& request);
std::vector<PendingRequest> load_pending_requests(SqliteDatabase& database,
                                                  const std::string& thread_id);
bool clear_pending_request(SqliteDatabase& database, const std::string& thread_id,
                           const std::string& run_id, const std::string& question_id);
void save_hitl_answer(SqliteDatabase& database, const std::string& thread_id,
                      const HitlAnswer& answer);
std::optional<Json> load_hitl_answer(SqliteDatabase& database, const std::string& thread_id,
                                     const std::string& run_id, const std::string& question_id);
void clear_hitl_answers(SqliteDatabase& database, const std::string& thread_id,
                        const std::string& run_id, const std::vector<std::string>& question_ids);

/// Returns nothing if changes of CubePi must be adopted first, which writes: see adopt_all_changes().
std::optional<QuestionPage> list_requests(SqliteDatabase& database, const QuestionQuery& query);
std::vector<QuestionEntry> expire_due(SqliteDatabase& database, double now, std::size_t limit);
void answer_request(SqliteDatabase& database, const std::string& thread_id,
                    const AnswerRecord& record);
std::vector<AnswerRecord> load_answer_records(SqliteDatabase& database,
                                              const std::string& thread_id);
std::size_t discard_requests(SqliteDatabase& database, const std::string& thread_id);

}  // namespace cubepi::detail
