#pragma once

#include <memory>
#include <string>
#include <vector>

#include <cubepi/agent/checkpointer.hpp>
#include <cubepi/checkpoint/sqlite/database.hpp>
#include <cubepi/checkpoint/sqlite/worker.hpp>
#include <cubepi/checkpoint/tables/thread_tables.hpp>

// The operations of tables/ on a file. The functions are executed on the thread of the database in a transaction.

namespace cubepi::detail {

/// The tables in a file. A transaction is a job of the worker, which others may share (D48).
class SqliteTables final : public ThreadTables {
public:
    explicit SqliteTables(std::shared_ptr<SqliteWorker> worker);

    Task<SqlResults> read(SqlBatch reads) override;
    Task<> write(SqlPlan plan, SqlDecide decide) override;

    Task<std::optional<CheckpointData>> read_thread(ThreadQuery query) override;
    Task<std::int64_t> change_thread(std::string thread_id, ThreadChange change) override;
    Task<std::vector<ThreadInfo>> list_threads() override;
    Task<bool> adopt_changes(std::vector<std::string> threads) override;

private:
    const std::shared_ptr<SqliteWorker> worker_;
};

/// Executes the statements with the escapes of SqlQuery, of which at most one parameter is a list of texts.
SqlResults execute(SqliteDatabase& database, const SqlBatch& batch);

bool is_run_complete(SqliteDatabase& database, const std::string& thread_id,
                     const std::string& run_id);
/// Throws StaleAppendError if the claim of the options has been superseded.
void require_claim(SqliteDatabase& database, const std::string& thread_id,
                   const AppendOptions& options);
/// Removes the requests and answers of AppendOptions::settle(), the used answers too.
void settle_questions(SqliteDatabase& database, const std::string& thread_id,
                      const AppendOptions& options);

/// Fills the columns of the times of a file whose tables had none.
void fill_times(SqliteDatabase& database);
/// Makes our table agree with CubePi's in all threads with a note.
void adopt_all_changes(SqliteDatabase& database);

}  // namespace cubepi::detail
