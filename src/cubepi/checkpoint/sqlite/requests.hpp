#pragma once

#include <optional>
#include <string>
#include <vector>

#include <cubepi/agent/question_store.hpp>
#include <cubepi/checkpoint/common/requests.hpp>
#include <cubepi/checkpoint/sqlite/database.hpp>

// The table cubepi_native_pending, and its relation to the table of CubePi, which common/requests.hpp explains. Triggers note the threads whose row of theirs changes in cubepi_native_changed_pending, in whatever process, so that
// an inbox can adopt these changes without comparing the two tables. Each write of ours removes its note.

namespace cubepi::detail {

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
