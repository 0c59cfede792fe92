#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <bub/tape/session_tape_store.hpp>
#include <bub/tape/turn_lease.hpp>
#include <bub/tape/turn_reads.hpp>
#include <cubepi/sql/postgres_options.hpp>

namespace cubepi::detail {
class SqlPool;
class SqlStore;
}  // namespace cubepi::detail

namespace bub {

namespace detail {
class LateEdits;
class LeasedReads;
class PgTapeTurns;
class TapeUse;
}  // namespace detail

/// Tapes in a PostgreSQL database, for several processes or hosts that share them. The tables are those of
/// postgres_tape_tables().
///
/// A write holds a lock of its tape on the server until it is committed, so there is one writer at a time per tape. One whose
/// connection breaks is stored once or not at all: if its fate is unknown, it is looked up. Calls never block an event loop;
/// they may come from any thread and several executors. An executor must outlive the calls made on it. A store cannot be used
/// after fork().
///
/// `edit` of edit_state() and the guard of an append are called on the executor of the call; a copy of them is called again if
/// the transaction has to be repeated.
///
/// The journal of a turn is written to the server as the turn proceeds. One connection of its own, which opens with the first
/// journal or open_tape(), shows the other processes that this one is alive, through a pooler of transactions such as PgBouncer by a row
/// that a thread renews; when it ends, the next process that uses the tape closes the turn. A turn that was closed although its process lives (it had lost its connections, and its claim had expired) is rejected at
/// its merge. A turn under a lease (leased()) needs no such
/// connection: it belongs to the process that has its session, by the clock of the server.
///
/// Throws, from every call, what PostgresCheckpointer throws, and what TapeStore documents.
class PostgresTapeStore final : public SessionTapeStore,
                                public LeasableTapes,
                                public AppendsWithState,
                                public TurnReads {
public:
    /// `division`: the record that the database must have of the databases among which sessions are divided (DatabaseMap::record()), empty:
    /// none; absent: not checked.
    explicit PostgresTapeStore(cubepi::PostgresOptions options,
                               std::optional<std::string> division = {});
    ~PostgresTapeStore() override;
    PostgresTapeStore(const PostgresTapeStore&) = delete;
    PostgresTapeStore& operator=(const PostgresTapeStore&) = delete;

    /// Connects now, to detect errors early. Optional.
    Task<void> open();

    /// The tables of PostgresDeliveryLog must be in the same database and schema.
    std::shared_ptr<TapeStore> leased(TurnLease lease) override;

    /// Without a lease, nothing is read ahead.
    void expect(std::vector<TapeLookup> lookups, std::vector<std::string> tapes) override;
    Task<JsonObject> recent_state(std::string tape) override;

    std::string location() const override;
    using SessionTapeStore::newest_tapes_after;
    Task<std::vector<ListedTape>> newest_tapes_after(std::optional<ListedTape> last,
                                                     std::size_t limit,
                                                     std::string prefix) override;
    Task<void> remove_tape(std::string tape) override;
    Task<std::shared_ptr<const void>> open_tape(std::string tape) override;
    Task<std::shared_ptr<const void>> hold(std::string name) override;
    Task<bool> has_open_turn(std::string tape) override;
    std::shared_ptr<TurnJournal> open_journal(const std::string& tape,
                                              const std::string& turn_id) override;
    std::chrono::milliseconds text_interval() const override {
        return std::chrono::milliseconds(500);
    }

    Task<std::vector<std::string>> all_tapes() override;
    Task<std::vector<TapeEntry>> fetch(std::string tape, TapeQuery query) override;
    Task<void> visit(std::string tape, TapeQuery query,
                     std::function<bool(const TapeEntry&)> visit) override;
    Task<TapePosition> append(std::string tape, std::vector<TapeEntry> entries,
                              TapeAppend options) override;
    Task<TapePosition> append_and_edit(std::string tape, std::vector<TapeEntry> entries,
                                       TapeAppend options,
                                       std::function<void(JsonObject& state)> edit) override;
    Task<TapePosition> position(std::string tape) override;
    Task<TapeInfo> info(std::string tape) override;
    Task<std::vector<TapeEntry>> anchors(std::string tape, std::size_t limit) override;
    Task<Json> edit_state(std::string tape, std::function<Json(JsonObject& state)> edit) override;
    void edit_state_later(const std::string& tape,
                          std::function<void(JsonObject& state)> edit) override;
    Task<JsonObject> read_state(std::string tape) override;
    Task<cubepi::QuestionPage> list_requests(cubepi::QuestionQuery query) override;
    Task<std::optional<TapeEntry>> find(std::string tape, TapeKey key, std::string value) override;

    Task<std::string> put_media(std::string bytes) override;
    Task<std::optional<std::string>> get_media(std::string sha256) override;

private:
    PostgresTapeStore(const PostgresTapeStore& store, TurnLease lease);

    std::shared_ptr<cubepi::detail::SqlStore> store_;
    std::shared_ptr<detail::PgTapeTurns> turns_;
    std::shared_ptr<cubepi::detail::SqlPool> locks_;  ///< of hold()
    std::shared_ptr<detail::LateEdits> late_;
    std::shared_ptr<detail::TapeUse> use_;
    std::shared_ptr<detail::LeasedReads> reads_;  ///< null: without a lease
};

}  // namespace bub
