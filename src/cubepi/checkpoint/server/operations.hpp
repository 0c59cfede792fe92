#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <cubepi/agent/batch_store.hpp>
#include <cubepi/agent/checkpointer.hpp>
#include <cubepi/agent/question_store.hpp>
#include <cubepi/checkpoint/claim_rules.hpp>
#include <cubepi/checkpoint/common/requests.hpp>
#include <cubepi/checkpoint/format/message_row.hpp>
#include <cubepi/checkpoint/format/stored_json.hpp>
#include <cubepi/checkpoint/server/store.hpp>
#include <cubepi/core/message.hpp>
#include <cubepi/core/message_list.hpp>

// The rows that several operations read and write (rows.cpp), and the operations of the store (see agent/checkpointer.hpp). A
// function add_..._reads() returns the place of its first result.

namespace cubepi::detail {

/// The runs and claims of a thread as read from a database server, and the changes that ClaimRules makes to them, which the
/// store writes afterwards.
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

/// Rows that refer to the thread require its row.
void write_thread_row(SqlBatch& writes, const std::string& thread_id);

// Extra.
std::size_t add_extra_reads(SqlBatch& reads, const std::string& thread_id, bool for_update);
JsonObject read_extra(const SqlStore& store, const std::string& thread_id,
                      const SqlResults& results, std::size_t at);
void write_extra(const SqlStore& store, SqlBatch& writes, const std::string& thread_id,
                 const ExtraChange& change);
/// Stores the exact text of the extra, or removes it if the column has the value as it is.
void write_exact_extra(SqlBatch& writes, const std::string& thread_id, const JsonObject& extra);

// Messages.
/// Collects the messages of rows with the columns seq, metadata, payload.
class MessageRows final : public SqlRowSink {
public:
    MessageRows(std::shared_ptr<const SqlStore> store, std::string thread_id)
        : store_(std::move(store)), thread_id_(std::move(thread_id)) {}

    void start() noexcept override;
    void receive(const SqlResult& rows, int row) noexcept override;

    /// Returns the messages, once. Throws CheckpointCorruptionError that names the first unreadable row.
    MessageList take();
    /// The number of the last row; 0 if there is none.
    std::int64_t position() const noexcept { return position_; }

private:
    Message read(const SqlResult& rows, int row);

    std::shared_ptr<const SqlStore> store_;
    std::string thread_id_;
    MessageRowReader reader_;
    MessageList messages_;
    std::int64_t position_ = 0;
    std::exception_ptr failure_;
};

// Runs and claims.
std::size_t add_claim_reads(SqlBatch& reads, const std::string& thread_id,
                            const std::string& run_id);
ClaimSheet read_claims(const SqlResults& results, std::size_t at);
void write_claims(SqlBatch& writes, const std::string& thread_id, const ClaimSheet& claims);

// Answers.
std::size_t add_answer_reads(SqlBatch& reads, const std::string& thread_id,
                             const std::string& run_id, const std::vector<std::string>& questions);
struct AnswerRow {
    std::string question_id = {};
    Json answer = {};
};
std::vector<AnswerRow> read_answers(const SqlResults& results, std::size_t at);
void write_answer(SqlBatch& writes, const std::string& thread_id, const std::string& run_id,
                  const std::string& question_id, const Json& answer);
void remove_answers(SqlBatch& writes, const std::string& thread_id, const std::string& run_id,
                    const std::vector<std::string>& questions);
/// Removes the mark of the started batch of a run, and the answers that it used.
void remove_batch(SqlBatch& writes, const std::string& thread_id, const std::string& run_id);
void remove_all_answers(SqlBatch& writes, const std::string& thread_id, const std::string& run_id);

/// The pending requests of a thread in a transaction. Starts with what both tables say (common/requests.hpp), and writes the
/// differences, including those that CubePi has made.
class PendingRequests {
public:
    static std::size_t add_reads(SqlBatch& reads, const std::string& thread_id, bool for_update);
    PendingRequests(std::string thread_id, const SqlResults& results, std::size_t at);

    const std::vector<PendingRow>& rows() const noexcept { return rows_; }
    const PendingRow* find(const std::string& run_id, const std::string& question_id) const;
    /// Adds the request, or replaces the one with the same key.
    void put(PendingRow row);
    bool remove(const std::string& run_id, const std::string& question_id);
    void clear() { rows_.clear(); }
    void write(SqlBatch& writes) const;

private:
    void write_first(SqlBatch& writes) const;

    std::string thread_id_;
    std::vector<PendingRow> stored_;
    std::vector<PendingRow> rows_;
    std::optional<SharedRequest> shared_;
};

extern const char* const pending_columns;
/// Reads a row with pending_columns.
PendingRow read_pending_row(const SqlResult& rows, int row);
/// The name of the row in errors.
std::string pending_row_ref(const PendingRow& row);
/// Throws CheckpointCorruptionError naming the row if the request is unreadable.
PendingRequest to_pending_request(const SqlStore& store, const PendingRow& row);

using SqlStorePtr = std::shared_ptr<SqlStore>;

// threads.cpp
Task<std::optional<CheckpointData>> load_thread(SqlStorePtr store, std::string thread_id);
Task<std::int64_t> append_messages(SqlStorePtr store, std::string thread_id, MessageList messages,
                                   AppendOptions options);
Task<void> save_extra(SqlStorePtr store, std::string thread_id, JsonObject extra);
Task<std::optional<Message>> find_message(SqlStorePtr store, std::string thread_id,
                                          std::string message_id);
Task<MessageList> snapshot_thread(SqlStorePtr store, std::string thread_id,
                                  std::string after_run_id);
Task<void> fork_thread(SqlStorePtr store, std::string source, std::string target,
                       std::string after_run_id, std::optional<JsonObject> metadata);
Task<std::vector<ThreadInfo>> list_threads(SqlStorePtr store);
Task<void> delete_thread(SqlStorePtr store, std::string thread_id);

// runs.cpp
Task<ClaimResult> claim_run(SqlStorePtr store, std::string thread_id, std::string run_id,
                            ClaimOwner owner, ClaimKind kind);
Task<void> renew_claim(SqlStorePtr store, std::string thread_id, std::string run_id,
                       std::string owner_id);
Task<void> release_claim(SqlStorePtr store, std::string thread_id, std::string run_id,
                         std::string owner_id);
Task<void> mark_run_complete(SqlStorePtr store, std::string thread_id, std::string run_id);
Task<void> complete_run(SqlStorePtr store, std::string thread_id, std::string run_id,
                        std::string owner_id);
Task<bool> is_run_complete(SqlStorePtr store, std::string thread_id, std::string run_id);
Task<void> mark_batch_started(SqlStorePtr store, std::string thread_id, BatchStart start);
Task<std::optional<StartedBatch>> load_started_batch(SqlStorePtr store, std::string thread_id,
                                                     std::string run_id);

// requests.cpp
Task<void> save_pending_request(SqlStorePtr store, std::string thread_id, std::string run_id,
                                HitlRequest request);
Task<std::vector<PendingRequest>> load_pending_requests(SqlStorePtr store, std::string thread_id);
Task<bool> clear_pending_request(SqlStorePtr store, std::string thread_id, std::string run_id,
                                 std::string question_id);
Task<void> save_hitl_answer(SqlStorePtr store, std::string thread_id, HitlAnswer answer);
Task<std::optional<Json>> load_hitl_answer(SqlStorePtr store, std::string thread_id,
                                           std::string run_id, std::string question_id);
Task<void> clear_hitl_answers(SqlStorePtr store, std::string thread_id, std::string run_id,
                              std::vector<std::string> question_ids);

Task<QuestionPage> list_requests(SqlStorePtr store, QuestionQuery query);
Task<std::vector<QuestionEntry>> expire_due(SqlStorePtr store, double now, std::size_t limit);
Task<void> answer_request(SqlStorePtr store, std::string thread_id, AnswerRecord record);
Task<std::vector<AnswerRecord>> load_answer_records(SqlStorePtr store, std::string thread_id);
Task<std::size_t> discard_requests(SqlStorePtr store, std::string thread_id);

}  // namespace cubepi::detail
