#pragma once

#include <optional>
#include <string>
#include <vector>

#include <cubepi/agent/batch_store.hpp>
#include <cubepi/agent/checkpointer.hpp>
#include <cubepi/agent/question_store.hpp>
#include <cubepi/checkpoint/common/requests.hpp>
#include <cubepi/checkpoint/sqlite/database.hpp>

// The functions that several operations of the store share. They are executed on the thread of the database in a transaction.

namespace cubepi::detail {

// runs.cpp
bool is_run_complete(SqliteDatabase& database, const std::string& thread_id,
                     const std::string& run_id);
/// Throws StaleAppendError if `owner_id` does not hold the claim any more.
void require_claim(SqliteDatabase& database, const std::string& thread_id,
                   const std::string& run_id, const std::string& owner_id);
/// Removes the requests and answers of these questions, the used answers too.
void settle_questions(SqliteDatabase& database, const std::string& thread_id,
                      const std::string& run_id, const std::vector<std::string>& question_ids);

// requests.cpp
bool clear_pending_request(SqliteDatabase& database, const std::string& thread_id,
                           const std::string& run_id, const std::string& question_id);
void clear_hitl_answers(SqliteDatabase& database, const std::string& thread_id,
                        const std::string& run_id, const std::vector<std::string>& question_ids);

/// Fills the columns of the times of a file whose tables had none.
void fill_times(SqliteDatabase& database);

/// Calls adopt_changes() for all threads with a note.
void adopt_all_changes(SqliteDatabase& database);

}  // namespace cubepi::detail
