#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <cubepi/checkpoint/claims/claim_sheet.hpp>
#include <cubepi/checkpoint/format/message_row_reader.hpp>
#include <cubepi/checkpoint/format/stored_json.hpp>
#include <cubepi/checkpoint/inbox/pending_row.hpp>
#include <cubepi/checkpoint/server/store.hpp>
#include <cubepi/core/message.hpp>
#include <cubepi/core/message_list.hpp>

// Rows that several operations read and write. A function add_..._reads() returns the place of its first result.

namespace cubepi::detail {

/// Rows that refer to the thread require its row.
void write_thread_row(ServerBatch& writes, const std::string& thread_id);

// Extra.
std::size_t add_extra_reads(ServerBatch& reads, const std::string& thread_id, bool for_update);
JsonObject read_extra(const ServerStore& store, const std::string& thread_id,
                      const ServerResults& results, std::size_t at);
void write_extra(const ServerStore& store, ServerBatch& writes, const std::string& thread_id,
                 const ExtraChange& change);
/// Stores the exact text of the extra, or removes it if the column has the value as it is.
void write_exact_extra(ServerBatch& writes, const std::string& thread_id, const JsonObject& extra);

// Messages.
/// Collects the messages of rows with the columns seq, metadata, payload.
class MessageRows final : public ServerRowSink {
public:
    MessageRows(std::shared_ptr<const ServerStore> store, std::string thread_id)
        : store_(std::move(store)), thread_id_(std::move(thread_id)) {}

    void start() noexcept override;
    void receive(const ServerResult& rows, int row) noexcept override;

    /// Returns the messages, once. Throws CheckpointCorruptionError that names the first unreadable row.
    MessageList take();
    /// The number of the last row; 0 if there is none.
    std::int64_t position() const noexcept { return position_; }

private:
    Message read(const ServerResult& rows, int row);

    std::shared_ptr<const ServerStore> store_;
    std::string thread_id_;
    MessageRowReader reader_;
    MessageList messages_;
    std::int64_t position_ = 0;
    std::exception_ptr failure_;
};

// Runs and claims.
std::size_t add_claim_reads(ServerBatch& reads, const std::string& thread_id,
                            const std::string& run_id);
ClaimSheet read_claims(const ServerResults& results, std::size_t at);
void write_claims(ServerBatch& writes, const std::string& thread_id, const ClaimSheet& claims);

// Answers.
std::size_t add_answer_reads(ServerBatch& reads, const std::string& thread_id,
                             const std::string& run_id, const std::vector<std::string>& questions);
struct AnswerRow {
    std::string question_id = {};
    Json answer = {};
};
std::vector<AnswerRow> read_answers(const ServerResults& results, std::size_t at);
void write_answer(ServerBatch& writes, const std::string& thread_id, const std::string& run_id,
                  const std::string& question_id, const Json& answer);
void remove_answers(ServerBatch& writes, const std::string& thread_id, const std::string& run_id,
                    const std::vector<std::string>& questions);
void remove_all_answers(ServerBatch& writes, const std::string& thread_id,
                        const std::string& run_id);

/// The pending requests of a thread in a transaction. Starts with what both tables say (inbox/pending_row.hpp), and writes the
/// differences, including those that CubePi has made.
class PendingRequests {
public:
    static std::size_t add_reads(ServerBatch& reads, const std::string& thread_id, bool for_update);
    PendingRequests(std::string thread_id, const ServerResults& results, std::size_t at);

    const std::vector<PendingRow>& rows() const noexcept { return rows_; }
    const PendingRow* find(const std::string& run_id, const std::string& question_id) const;
    /// Adds the request, or replaces the one with the same key.
    void put(PendingRow row);
    bool remove(const std::string& run_id, const std::string& question_id);
    void clear() { rows_.clear(); }
    void write(ServerBatch& writes) const;

private:
    void write_first(ServerBatch& writes) const;

    std::string thread_id_;
    std::vector<PendingRow> stored_;
    std::vector<PendingRow> rows_;
    std::optional<SharedRequest> shared_;
};

extern const char* const pending_columns;
/// Reads a row with pending_columns.
PendingRow read_pending_row(const ServerResult& rows, int row);
/// The name of the row in errors.
std::string pending_row_ref(const PendingRow& row);
/// Throws CheckpointCorruptionError naming the row if the request is unreadable.
PendingRequest to_pending_request(const ServerStore& store, const PendingRow& row);

}  // namespace cubepi::detail
