#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <cubepi/agent/checkpointer.hpp>
#include <cubepi/checkpoint/stored_threads.hpp>
#include <cubepi/checkpoint/support/requests.hpp>
#include <cubepi/checkpoint/support/store_errors.hpp>
#include <cubepi/sql/support/transaction.hpp>

// The tables of runs, claims, requests and answers in a database, for the operations that all databases share: tables/runs.cpp
// and tables/requests.cpp.

namespace cubepi::detail {

/// The words in which these tables differ between databases.
struct TableWords {
    std::string runs = "cubepi_runs";
    std::string answers = "cubepi_hitl_answers";
    std::string shared_request = "cubepi_threads";  ///< the table with CubePi's pending request
    std::string user = "user_name";                 ///< the column of cubepi_native_answers
    std::string now = "now()";  ///< the value of a column of CubePi's with a time
    std::string yes = "true";
    std::string no = "false";
    bool has_json_null =
        true;  ///< CubePi's column of the pending request may be the JSON null, which is none
    /// A condition that is true for all ids of threads, if the database uses the index only with one. An id that begins with a
    /// control character is less than '' where trailing spaces do not count.
    std::string all_threads = {};
    std::string lock = " FOR UPDATE";  ///< the end of a SELECT of rows that the transaction changes
};

/// A stored answer.
struct AnswerRow {
    std::string question_id = {};
    std::string text = {};  ///< JSON
};

/// The differences between databases in these tables beyond the words of their SQL. Immutable; thread-safe.
class RunSchema {
public:
    virtual ~RunSchema() = default;

    virtual TableWords words() const { return {}; }
    /// Adds the row of a thread, which rows that refer to the thread may require.
    virtual void write_thread_row(SqlBatch& writes, const std::string& thread_id) const = 0;

    // The answers, which are in a table of CubePi.
    virtual void write_answer(SqlBatch& writes, const std::string& thread_id,
                              const HitlAnswer& answer) const = 0;
    /// Returns the place of the first result.
    virtual std::size_t add_answer_reads(SqlBatch& reads, const std::string& thread_id,
                                         const std::string& run_id,
                                         const std::vector<std::string>& questions) const = 0;
    /// Throws Error (parse) for an unreadable row.
    virtual std::vector<AnswerRow> read_answers(const SqlResults& results,
                                                std::size_t at) const = 0;
    virtual void remove_answers(SqlBatch& writes, const std::string& thread_id,
                                const std::string& run_id,
                                const std::vector<std::string>& questions) const = 0;
    virtual void remove_all_answers(SqlBatch& writes, const std::string& thread_id,
                                    const std::string& run_id) const = 0;

    // CubePi's pending request of a thread.
    /// Selects its text, its run and its time of creation in Unix seconds. There is no request if there is no row, or no text.
    virtual void add_shared_read(SqlBatch& reads, const std::string& thread_id,
                                 bool for_update) const = 0;
    /// Makes it repeat `first`, or removes it if `first` is null.
    virtual void write_shared(SqlBatch& writes, const std::string& thread_id,
                              const std::optional<SharedRequest>& stored,
                              const PendingRow* first) const = 0;
    virtual SameRequest same_request() const = 0;
    /// Selects a page of the inbox: the rows after $2, $3, $4 at the time $1, at most $5.
    virtual std::string page_sql(const std::string& columns, const std::string& time) const = 0;
};

/// The tables, and the transactions on them. Thread-safe. What decides a transaction may outlive the tables.
class ThreadTables : public SqlTransactions,
                     public ThreadBackend,
                     public std::enable_shared_from_this<ThreadTables> {
public:
    ThreadTables(std::shared_ptr<const RunSchema> schema, StoreName name,
                 std::chrono::seconds lease)
        : run_schema_(std::move(schema)), name_(std::move(name)), lease_(lease) {}

    const std::shared_ptr<const RunSchema>& run_schema() const noexcept { return run_schema_; }
    const StoreName& name() const noexcept { return name_; }
    /// The time after which a claim expires.
    std::chrono::seconds lease() const noexcept { return lease_; }
    /// Makes our table agree with CubePi's pending requests of these threads. Returns false, without effect, if nothing can be
    /// written.
    virtual Task<bool> adopt_changes(std::vector<std::string> threads) = 0;

    Task<ClaimResult> change_claim(std::string thread_id, ClaimChange change) override;
    Task<bool> is_run_complete(std::string thread_id, std::string run_id) override;
    Task<std::size_t> change_questions(std::string thread_id, QuestionChange change) override;
    Task<std::vector<PendingRequest>> load_pending_requests(std::string thread_id) override;
    Task<std::optional<Json>> load_hitl_answer(std::string thread_id, std::string run_id,
                                               std::string question_id) override;
    Task<std::optional<StartedBatch>> load_started_batch(std::string thread_id,
                                                         std::string run_id) override;
    Task<std::vector<AnswerRecord>> load_answer_records(std::string thread_id,
                                                        std::string run_id) override;
    Task<QuestionPage> list_requests(QuestionQuery query) override;
    Task<std::vector<QuestionEntry>> expire_due(double now, std::size_t limit) override;

private:
    const std::shared_ptr<const RunSchema> run_schema_;
    const StoreName name_;
    const std::chrono::seconds lease_;
};

using TablesPtr = std::shared_ptr<ThreadTables>;
using RunSchemaPtr = std::shared_ptr<const RunSchema>;

}  // namespace cubepi::detail
