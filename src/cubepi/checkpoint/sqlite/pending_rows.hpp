#pragma once

#include <optional>
#include <string>

#include <cubepi/agent/hitl_inbox.hpp>
#include <cubepi/checkpoint/inbox/pending_row.hpp>
#include <cubepi/checkpoint/sqlite/database.hpp>

// The table cubepi_native_pending.

namespace cubepi::detail {

/// Reads a row with the columns id, thread_id, run_id, question_id, request_json, approval_digest, created_at,
/// expires_at, expired.
PendingRow read_pending_row(const SqliteStatement& row);

/// Throws CheckpointCorruptionError naming the row if the request is unreadable.
PendingRequest to_pending_request(const SqliteDatabase& database, const PendingRow& row);
/// An unreadable request becomes an entry with `damage`.
InboxEntry to_inbox_entry(const PendingRow& row);

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

}  // namespace cubepi::detail
