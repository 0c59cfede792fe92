#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/checkpoint/format/stored_json.hpp>
#include <cubepi/checkpoint/server_checkpointer.hpp>
#include <cubepi/checkpoint/server_schema.hpp>
#include <cubepi/checkpoint/store_report.hpp>
#include <cubepi/checkpoint/tables/thread_tables.hpp>
#include <cubepi/core/json.hpp>
#include <cubepi/sql/support/driver.hpp>
#include <cubepi/sql/support/migration.hpp>
#include <cubepi/sql/support/transaction.hpp>

namespace cubepi::detail {

/// A fork of a thread after the runs that completed up to a position.
struct SqlFork {
    std::string source = {};
    std::string target = {};
    std::int64_t cutoff = 0;
};

/// The tables of threads on a database server: CubePi's and this library's own. Its functions are what differs between the
/// servers beyond the words of their SQL.
class ThreadSchema : public SqlSchema, public RunSchema {
public:
    SqlBatch settings(const SqlDriver& driver) const override;
    SqlBatch session() const override;
    void check(const std::string& where, const SqlResults& results) const override;
    SqlWriteIds write_ids() const override;

    void write_thread_row(SqlBatch& writes, const std::string& thread_id) const override;
    void write_answer(SqlBatch& writes, const std::string& thread_id,
                      const HitlAnswer& answer) const override;
    std::size_t add_answer_reads(SqlBatch& reads, const std::string& thread_id,
                                 const std::string& run_id,
                                 const std::vector<std::string>& questions) const override;
    std::vector<AnswerRow> read_answers(const SqlResults& results, std::size_t at) const override;
    void remove_answers(SqlBatch& writes, const std::string& thread_id, const std::string& run_id,
                        const std::vector<std::string>& questions) const override;
    void remove_all_answers(SqlBatch& writes, const std::string& thread_id,
                            const std::string& run_id) const override;
    void add_shared_read(SqlBatch& reads, const std::string& thread_id,
                         bool for_update) const override;
    void write_shared(SqlBatch& writes, const std::string& thread_id,
                      const std::optional<SharedRequest>& stored,
                      const PendingRow* first) const override;
    SameRequest same_request() const override;

    /// Merges a change into the column `extra`.
    virtual void write_extra(SqlBatch& batch, const std::string& thread_id,
                             const ExtraChange& change) const = 0;
    /// Inserts the row of a fork, with `added` merged into the extra of its source, which makes `merged`.
    virtual void write_fork_row(SqlBatch& batch, const SqlFork& fork, const JsonObject& added,
                                const JsonObject& merged) const = 0;
    /// Selects all threads: id, number of messages and date of the last one, which is NULL for a thread without messages.
    virtual std::string listing_sql() const = 0;
    /// The tables whose rows the server does not delete with those of their thread.
    virtual std::vector<std::string> dependent_tables() const = 0;

protected:
    /// Says how older tables are migrated.
    virtual std::string migration_hint() const = 0;
};

/// These tables on a server. Thread-safe.
class SqlThreadStore final : public ThreadTables {
public:
    SqlThreadStore(SqlOptions options, std::shared_ptr<const SqlDriver> driver,
                   std::shared_ptr<const ThreadSchema> schema);

    const ThreadSchema& schema() const noexcept { return *schema_; }
    Task<SqlResults> read(SqlBatch reads) override { return store_->read(std::move(reads)); }
    Task<> write(SqlPlan plan, SqlDecide decide) override {
        return store_->write(std::move(plan), std::move(decide));
    }
    Task<bool> adopt_changes(std::vector<std::string> threads) override;

    Task<std::optional<CheckpointData>> read_thread(ThreadQuery query) override;
    Task<std::int64_t> change_thread(std::string thread_id, ThreadChange change) override;
    Task<std::vector<ThreadInfo>> list_threads() override;

private:
    /// For tasks that may outlive the store.
    std::shared_ptr<SqlThreadStore> self() {
        return std::static_pointer_cast<SqlThreadStore>(shared_from_this());
    }

    const std::shared_ptr<const ThreadSchema> schema_;
    const std::shared_ptr<SqlStore> store_;
};

using SqlStatements = std::vector<std::string>;

/// Throws CheckpointerError(schema_mismatch) if the tables are newer than this library. `where` names the database.
void refuse_newer_tables(const std::string& where, const SqlSchemaStatus& found);
/// Reads the versions of the tables. Throws CheckpointerError.
Task<SqlSchemaStatus> thread_schema_status(const SqlOptions& options,
                                           std::shared_ptr<const SqlDriver> driver);
/// Migrates the tables under the lock with the name, and returns the status from before.
Task<SqlSchemaStatus> apply_thread_schema(const SqlOptions& options,
                                          std::shared_ptr<const SqlDriver> driver, std::string lock,
                                          SqlStatements (*statements)(const SqlSchemaStatus& from));

/// Checks the tables and what they hold. `store` uses the same database.
Task<StoreReport> check_thread_store(SqlOptions options, std::shared_ptr<const SqlDriver> driver,
                                     std::shared_ptr<const ThreadSchema> schema,
                                     std::shared_ptr<SqlCheckpointer> store);

}  // namespace cubepi::detail
