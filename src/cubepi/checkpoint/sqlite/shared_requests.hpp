#pragma once

#include <string>
#include <vector>

#include <cubepi/checkpoint/sqlite/database.hpp>
#include <cubepi/checkpoint/sqlite/pending_rows.hpp>

// See inbox/pending_row.hpp for the relation of the two tables.
//
// Triggers note the threads whose row of theirs changes in cubepi_native_changed_pending, in whatever process, so that
// an inbox can adopt these changes without comparing the two tables. Each write of ours removes its note.

namespace cubepi::detail {

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
