#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/agent/hitl_inbox.hpp>
#include <cubepi/checkpoint/sqlite/database.hpp>

// Pending requests in SQLite.
//
// Python CubePi has one pending request per thread, in thread_pending_request. Ours are all in cubepi_native_pending, and
// theirs repeats the first of them. If theirs is not the first of ours, CubePi has worked on the file since, and theirs
// is right: the requests before it are answered, and if it is none of ours, or there is none, no other is pending. An
// unreadable row of theirs is taken for the repetition that it normally is, as long as there are rows of ours.
//
// Triggers note the threads whose row of theirs changes in cubepi_native_changed_pending, in whatever process, so that
// an inbox can adopt these changes without comparing the two tables. Each write of ours removes its note.

namespace cubepi::detail {

/// A row of a pending request. The times are those of the request, in columns with indexes.
struct PendingRow {
    std::int64_t id = 0;  ///< 0: in CubePi's table only
    std::string thread_id = {};
    std::string run_id = {};
    std::string question_id = {};  ///< empty in an unreadable row of CubePi's
    std::string request_json = {};
    std::string approval_digest = {};
    double created_at = 0;
    double expires_at = std::numeric_limits<double>::infinity();  ///< infinite: does not expire
    bool expired = false;
};

/// Reads a row with the columns id, thread_id, run_id, question_id, request_json, approval_digest, created_at,
/// expires_at, expired.
PendingRow read_pending_row(const SqliteStatement& row);

/// Throws CheckpointCorruptionError naming the row if the request is unreadable.
PendingRequest to_pending_request(const SqliteDatabase& database, const PendingRow& row);
/// An unreadable request becomes an entry with `damage`.
InboxEntry to_inbox_entry(const PendingRow& row);

/// Returns the pending requests of the thread in order, by both tables. Writes nothing.
std::vector<PendingRow> pending_rows(SqliteDatabase& database, const std::string& thread_id);

/// Makes our table agree with pending_rows(). The functions below use our table only.
void adopt_changes(SqliteDatabase& database, const std::string& thread_id);
/// Repeats the first of our rows in CubePi's table.
void publish_first(SqliteDatabase& database, const std::string& thread_id);

/// Inserts the request, or replaces the one with the same key.
void store_pending(SqliteDatabase& database, const std::string& thread_id,
                   const std::string& run_id, const HitlRequest& request);
std::optional<PendingRow> find_pending(SqliteDatabase& database, const std::string& thread_id,
                                       const std::string& run_id, const std::string& question_id);
/// Returns false if there is no such row. A row is removed by its key, so that it may be unreadable.
bool remove_pending(SqliteDatabase& database, const std::string& thread_id,
                    const std::string& run_id, const std::string& question_id);

/// Returns the threads with a note, in order.
std::vector<std::string> changed_threads(SqliteDatabase& database);
bool has_changed_threads(SqliteDatabase& database);
/// Calls adopt_changes() for all threads with a note.
void adopt_all_changes(SqliteDatabase& database);

/// Fills the columns of the times of a file whose tables had none.
void fill_times(SqliteDatabase& database);

}  // namespace cubepi::detail
