#pragma once

#include <memory>
#include <string>
#include <vector>

#include <cubepi/agent/checkpointer.hpp>
#include <cubepi/checkpoint/claim_rules.hpp>
#include <cubepi/checkpoint/store_report.hpp>
#include <cubepi/checkpoint/tables/thread_tables.hpp>

// Checks the tables of threads in a database. Reads only.

namespace cubepi::detail {

/// A store whose tables are of this version, and what differs between databases.
struct CheckedStore {
    TablesPtr tables = {};
    std::shared_ptr<Checkpointer> messages = {};
    std::shared_ptr<ThreadStore> threads = {};
    std::string now = "{now}";  ///< SQL: the time of the database in Unix seconds
    /// True if the database numbers the messages of a thread: 1, 2, 3, ...
    bool has_positions = true;
    /// True if rows without their thread are possible.
    bool has_orphans = false;
    /// Columns with JSON that the database does not check: "TABLE.COLUMN".
    std::vector<std::string> json_columns = {"cubepi_native_used_answers.answer_json"};
};

/// Checks a conversation as it is loaded: calls without results, and results without calls. Returns true if calls at its end have
/// no result, which is damage only if no run is in progress.
bool check_conversation(const MessageList& messages, const std::string& where, StoreReport& report);
/// Reports calls at the end of a conversation that no run is going to answer.
void report_interrupted(const MessageList& messages, const std::string& where, StoreReport& report);
/// Reports the owner of a claim whose lease has ended.
void report_expired(const HeldClaim& claim, double now, const std::string& where,
                    StoreReport& report);

/// Throws CheckpointerError if the database fails; what it holds is reported.
Task<void> check_store(CheckedStore store, std::shared_ptr<StoreReport> report);

}  // namespace cubepi::detail
