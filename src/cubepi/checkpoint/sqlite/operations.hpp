#pragma once

#include <optional>
#include <string>
#include <vector>

#include <cubepi/agent/batch_store.hpp>
#include <cubepi/agent/checkpointer.hpp>
#include <cubepi/agent/question_store.hpp>
#include <cubepi/checkpoint/common/requests.hpp>
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

// The table cubepi_native_pending (requests.cpp), and its relation to the table of CubePi, which common/requests.hpp explains.
// Triggers note the threads whose row of theirs changes in cubepi_native_changed_pending, in whatever process, so that an inbox
// can adopt these changes without comparing the two tables. Each write of ours removes its note.

/// Reads a row with the columns id, thread_id, run_id, question_id, request_json, approval_digest, created_at,
/// expires_at, expired.
PendingRow read_pending_row(const SqliteStatement& row);

/// Throws CheckpointCorruptionError naming the row if the request is unreadable.
PendingRequest to_pending_request(const SqliteDatabase& database, const PendingRow& row);
/// An unreadable request becomes an entry with `damage`.
QuestionEntry to_question_entry(const PendingRow& row);

/// Inserts the row, or replaces the one with the same key.
void insert_row(SqliteDatabase& database, const PendingRow& row);
/// Inserts the request, or replaces the one with the same key.
void store_pending(SqliteDatabase& database, const std::string& thread_id,
                   const std::string& run_id, const HitlRequest& request);
std::optional<PendingRow> find_pending(SqliteDatabase& database, const std::string& thread_id,
                                       const std::string& run_id, const std::string& question_id);
/// Returns false if there is no such row. A row is removed by its key, so that it may be unreadable.
bool remove_pending(SqliteDatabase& database, const std::string& thread_id,
                    const std::string& run_id, const std::string& question_id);

/// Fills the columns of the times of a file whose tables had none.
void fill_times(SqliteDatabase& database);

/// Returns the pending requests of the thread in order, by both tables. Writes nothing.
std::vector<PendingRow> pending_rows(SqliteDatabase& database, const std::string& thread_id);

/// Makes our table agree with pending_rows(). Precedes each change of our table.
void adopt_changes(SqliteDatabase& database, const std::string& thread_id);
/// Repeats the first of our rows in CubePi's table. Follows each change of our table.
void publish_first(SqliteDatabase& database, const std::string& thread_id);

/// Returns the threads with a note, in order.
std::vector<std::string> changed_threads(SqliteDatabase& database);
bool has_changed_threads(SqliteDatabase& database);
/// Calls adopt_changes() for all threads with a note.
void adopt_all_changes(SqliteDatabase& database);

}  // namespace cubepi::detail
