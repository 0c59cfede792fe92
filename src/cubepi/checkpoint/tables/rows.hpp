#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <cubepi/agent/checkpointer.hpp>
#include <cubepi/checkpoint/claim_rules.hpp>
#include <cubepi/checkpoint/support/requests.hpp>
#include <cubepi/checkpoint/tables/thread_tables.hpp>

// The rows that several operations of the store read and write. A function add_..._reads() returns the place of its first
// result.

namespace cubepi::detail {

/// The runs and claims of a thread as read from a database, and the changes that ClaimRules makes to them, which the store
/// writes afterwards.
class ClaimSheet final : public ClaimTable {
public:
    // The state as read.
    void add_run(std::string run_id, bool complete) {
        runs_[std::move(run_id)] = complete ? RunState::complete : RunState::open;
    }
    void add_claim(HeldClaim claim) { claims_.push_back(std::move(claim)); }

    RunState run_state(const std::string& run_id) const override {
        const auto run = runs_.find(run_id);
        return run == runs_.end() ? RunState::unknown : run->second;
    }
    std::vector<HeldClaim> claims() const override { return claims_; }
    void open_run(const std::string& run_id) override {
        runs_[run_id] = RunState::open;
        opened_.push_back(run_id);
    }
    void complete_run(const std::string& run_id) override {
        runs_[run_id] = RunState::complete;
        completed_.push_back(run_id);
    }
    void put_claim(const HeldClaim& claim) override {
        erase(claim.run_id);
        claims_.push_back(claim);
        put_.push_back(claim);
    }
    void remove_claim(const std::string& run_id) override {
        if (erase(run_id)) removed_.push_back(run_id);
    }

    // The changes, in the order in which they must be written.
    const std::vector<std::string>& removed() const noexcept { return removed_; }
    const std::vector<std::string>& opened() const noexcept { return opened_; }
    const std::vector<std::string>& completed() const noexcept { return completed_; }
    const std::vector<HeldClaim>& put() const noexcept { return put_; }

private:
    bool erase(const std::string& run_id) {
        return std::erase_if(claims_,
                             [&](const HeldClaim& claim) { return claim.run_id == run_id; }) > 0;
    }

    std::map<std::string, RunState> runs_;
    std::vector<HeldClaim> claims_;
    std::vector<std::string> removed_;
    std::vector<std::string> opened_;
    std::vector<std::string> completed_;
    std::vector<HeldClaim> put_;
};

// Runs and claims.
std::size_t add_claim_reads(SqlBatch& reads, const RunSchema& schema, const std::string& thread_id,
                            const std::string& run_id);
ClaimSheet read_claims(const SqlResults& results, std::size_t at);
/// Reads a row whose first columns are run_id, the members of the owner and lease_until.
HeldClaim read_claim(const SqlResult& rows, int row);

/// The pending requests of a thread in a transaction. Starts with what both tables say (support/requests.hpp), and writes the
/// differences, including those that CubePi has made.
class PendingRequests {
public:
    static std::size_t add_reads(SqlBatch& reads, const RunSchema& schema,
                                 const std::string& thread_id, bool for_update);
    /// `schema` must outlive the object.
    PendingRequests(const RunSchema& schema, std::string thread_id, const SqlResults& results,
                    std::size_t at);

    const std::vector<PendingRow>& rows() const noexcept { return rows_; }
    const PendingRow* find(const std::string& run_id, const std::string& question_id) const;
    /// Adds the request, or replaces the one with the same key.
    void put(PendingRow row);
    bool remove(const std::string& run_id, const std::string& question_id);
    void clear() { rows_.clear(); }
    void write(SqlBatch& writes) const;

private:
    const RunSchema& schema_;
    std::string thread_id_;
    std::vector<PendingRow> stored_;
    std::vector<PendingRow> rows_;
    std::optional<SharedRequest> shared_;
};

/// Returns the SELECT of the threads with a note that CubePi has changed their request.
inline std::string changed_threads_sql(const RunSchema& schema) {
    return "SELECT thread_id FROM cubepi_native_changed_pending" + schema.words().all_threads +
           " ORDER BY thread_id";
}

/// Marks a batch as started. The result has no meaning.
Task<std::size_t> mark_batch(TablesPtr tables, std::string thread_id, BatchStart start);

/// ThreadTables::adopt_changes() with a transaction for each thread.
Task<bool> adopt_by_thread(TablesPtr tables, std::vector<std::string> threads);

/// Removes the requests and answers of the questions, the used answers too. PendingRequests::add_reads() has added the reads
/// whose first result is at `at`.
void settle_questions(SqlBatch& writes, const RunSchema& schema, const std::string& thread_id,
                      const AppendOptions& options, const SqlResults& results, std::size_t at);

}  // namespace cubepi::detail
