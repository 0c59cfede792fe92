#include <cubepi/checkpoint/mysql/driver.hpp>

#include <algorithm>
#include <utility>

#include <cubepi/checkpoint/format/server_json.hpp>
#include <cubepi/checkpoint/mysql/connection.hpp>
#include <cubepi/checkpoint/mysql/failures.hpp>
#include <cubepi/checkpoint/mysql/schema.hpp>

namespace cubepi::detail {

MyDriver::MyDriver(const MySQLOptions& options, bool for_store)
    : parameters_(options.connection),
      description_(parameters_.description()),
      runtime_(options.runtime ? options.runtime : Runtime::standard()),
      for_store_(for_store),
      set_up_(session_set_up(options, for_store)) {}

std::string MyDriver::without_secrets(std::string text) const {
    return parameters_.without_secrets(std::move(text));
}

ServerRemedy MyDriver::remedy(const ServerFailure& failure) const { return my_remedy(failure); }

std::vector<std::string> MyDriver::names_to_resolve() const {
    std::vector<std::string> names;
    if (parameters_.has_name()) names.push_back(parameters_.host);
    return names;
}

bool MyDriver::is_reachable(const ServerAddresses& addresses) const {
    return !parameters_.has_name() || addresses.contains(parameters_.host);
}

std::unique_ptr<ServerConnection> MyDriver::connection() const {
    return std::make_unique<MyConnection>(parameters_, runtime_);
}

void MyDriver::check(const ServerResults& results) const {
    if (for_store_) check_session(description_, results);
}

void MyDriver::begin_read(ServerBatch& batch) const {
    batch.add("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ");
    batch.add("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY");
}

// The row of the thread in our table is locked first: it can be inserted when the thread does not exist. CubePi locks the row
// of the thread. The isolation level is READ COMMITTED, so that no locks of gaps cause deadlocks.
void MyDriver::begin_write(ServerBatch& batch, const std::vector<std::string>& threads) const {
    batch.add("START TRANSACTION");
    std::vector<std::string> sorted = threads;
    std::sort(sorted.begin(), sorted.end());
    sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
    for (const std::string& thread_id : sorted) {
        batch
            .add(
                "INSERT INTO cubepi_native_writes (thread_id, write_id) VALUES ($1, '')"
                " ON DUPLICATE KEY UPDATE write_id = write_id")
            .text(thread_id);
        batch.add("SELECT 1 FROM cubepi_threads WHERE thread_id = $1 FOR UPDATE").text(thread_id);
    }
}

void MyDriver::end_write(ServerBatch& batch, const std::vector<std::string>& threads) const {
    // Of threads that do not exist after all, or that are only read.
    for (const std::string& thread_id : threads) {
        batch.add("DELETE FROM cubepi_native_writes WHERE thread_id = $1 AND write_id = ''")
            .text(thread_id);
    }
}

void MyDriver::write_extra(ServerBatch& batch, const std::string& thread_id,
                           const ExtraChange& change) const {
    batch
        .add(
            "INSERT INTO cubepi_threads (thread_id, extra) VALUES ($1, $2)"
            " {replace thread_id: extra}, updated_at = now()")
        .text(thread_id)
        .json(server_json_text(change.merged));
}

void MyDriver::write_fork_row(ServerBatch& batch, const ServerFork& fork, const JsonObject& added,
                              const JsonObject& merged) const {
    if (added.empty()) {
        batch
            .add(
                "INSERT INTO cubepi_threads (thread_id, parent_thread_id, forked_at_seq, extra)"
                " SELECT $2, thread_id, $3, extra FROM cubepi_threads WHERE thread_id = $1")
            .text(fork.source)
            .text(fork.target)
            .integer(fork.cutoff);
        return;
    }
    batch
        .add(
            "INSERT INTO cubepi_threads (thread_id, parent_thread_id, forked_at_seq, extra)"
            " VALUES ($2, $1, $3, $4)")
        .text(fork.source)
        .text(fork.target)
        .integer(fork.cutoff)
        .json(server_json_text(merged));
}

// Both servers use an index for the first comparison only if it is not one of rows.
std::string MyDriver::page_sql(const std::string& columns, const std::string& time) const {
    const std::string key = time + ", thread_id, run_id, question_id";
    return "SELECT " + columns + " FROM cubepi_native_pending WHERE expired = false AND " + time +
           " >= $1 AND (" + key + ") > ($1, $2, $3, $4) ORDER BY " + key + " LIMIT $5";
}

// By thread: each lookup reads the index of one partition.
std::string MyDriver::listing_sql() const {
    return "SELECT thread_id, count, at FROM (SELECT t.thread_id, t.extra, t.parent_thread_id,"
           " (SELECT count(*) FROM cubepi_messages AS m WHERE m.thread_id = t.thread_id) AS count,"
           " (SELECT {epoch created_at} FROM cubepi_messages AS m"
           " WHERE m.thread_id = t.thread_id ORDER BY seq DESC LIMIT 1) AS at"
           " FROM cubepi_threads AS t) AS listed"
           " WHERE count > 0 OR {filled extra} OR parent_thread_id IS NOT NULL"
           " ORDER BY at DESC {nulls last}, thread_id";
}

std::vector<std::string> MyDriver::dependent_tables() const {
    std::vector<std::string> tables = {"cubepi_messages", "cubepi_runs", "cubepi_hitl_answers"};
    for (const char* name : {"claims", "message_ids", "writes", "exact", "pending",
                             "changed_pending", "answers", "started", "used_answers"})
        tables.push_back(std::string("cubepi_native_") + name);
    return tables;
}

}  // namespace cubepi::detail
