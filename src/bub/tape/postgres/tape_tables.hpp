#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <bub/tape/tape_store.hpp>
#include <cubepi/sql/postgres_options.hpp>
#include <cubepi/sql/support/transaction.hpp>
#include <cubepi/sql/support/versioned_tables.hpp>

// The tables of tapes in a database: connections to them, their rows, and the turns in progress.

namespace bub::detail {

using cubepi::detail::SqlBatch;
using cubepi::detail::SqlResult;

const cubepi::detail::VersionedTables& tape_tables();

/// The tables of tapes. A transaction locks tapes.
class TapeSchema final : public cubepi::detail::SqlSchema {
public:
    /// `owner`: its sessions show that the owner of turns is alive (PgTapeTurns); 0: they do not.
    explicit TapeSchema(std::int64_t owner = 0) : owner_(owner) {}

    SqlBatch session(const cubepi::detail::SqlDriver& driver) const override;
    void check(const std::string& where, const cubepi::detail::SqlResults& results) const override;
    void lock(SqlBatch& batch, const std::vector<std::string>& tapes) const override;
    cubepi::detail::SqlWriteIds write_ids() const override;
    cubepi::detail::SqlRemedy remedy(const cubepi::detail::SqlFailure& failure,
                                     cubepi::detail::SqlRemedy general) const override;

private:
    const std::int64_t owner_;
};

/// Returns the transactions on these tables.
std::shared_ptr<cubepi::detail::SqlStore> tape_transactions(const cubepi::PostgresOptions& options,
                                                            std::int64_t owner = 0);

/// A row of bub_tapes.
struct TapeRow {
    bool exists = false;
    TapePosition end = {};
    TapeInfo info = {};
    JsonObject state = {};
    std::int64_t bytes = 0;  ///< of the entries as lines
};

/// Selects the row of a tape.
void select_tape(SqlBatch& batch, const std::string& tape);
/// Throws CheckpointCorruptionError for JSON that cannot be read.
TapeRow read_tape_row(const std::string& tape, const SqlResult& result);

/// Reads the column `state`. Throws as above.
JsonObject read_state_of(const std::string& tape, std::string_view text);

void write_state(SqlBatch& batch, const std::string& tape, const JsonObject& state);
/// Adds the statements of an append to a tape that is locked, and changes `row` accordingly. Returns the new end of the tape. Throws what
/// prepare_append() throws.
TapePosition write_append(SqlBatch& batch, const std::string& tape, TapeRow& row,
                          std::vector<TapeEntry> entries, const TapeAppend& options,
                          std::chrono::system_clock::time_point now);

/// Reads the lines of the first column. Leaves out lines that cannot be read as entries, as a file does.
std::vector<TapeEntry> read_entries(const SqlResult& result);

/// The value by which a name or an id is found.
std::string key_of(std::string_view name);

/// Visits the matching entries, page by page. They are those of one moment, that of the first page: later appends are left out.
/// If the tape is reset in between, calls `restart`, which returns true if the entries so far are forgotten, and begins again;
/// or throws CheckpointerError(storage).
Task<void> visit_pages(std::shared_ptr<cubepi::detail::SqlStore> store, std::string tape,
                       TapeQuery query, std::function<bool(const TapeEntry&)> visit,
                       std::function<bool()> restart);

/// The journals of turns in the table bub_turns. Each belongs to an owner: a store in one process. The owner is alive while a
/// session of the server holds its advisory lock, which ends with the process. A turn whose owner is dead is closed by the next
/// process that uses its tape. An owner that only lost its session (a restart of the server) is fenced: if its turn has been
/// closed meanwhile, the next write of its journal and its append fail. A turn whose journal was destroyed without being removed
/// (its merge has failed) is dead too: its owner closes it like another's. Thread-safe.
class PgTapeTurns : public std::enable_shared_from_this<PgTapeTurns> {
public:
    PgTapeTurns(const cubepi::PostgresOptions& options,
                std::shared_ptr<cubepi::detail::SqlStore> store);

    /// Closes the turns of dead owners before a use of the tape. Does not throw where the tape can still be read.
    Task<> look(std::string tape);
    /// `also_lapsed`: turns of live processes whose runs may be superseded by the rules of claims, too (D50): they were frozen, or have
    /// lost what they were about to write.
    Task<> close_dead_turns(std::string tape, bool also_lapsed = false);
    /// Returns true if turns are in progress, after close_dead_turns() with those that have lapsed.
    Task<bool> has_open_turn(std::string tape);
    std::shared_ptr<TurnJournal> open_journal(const std::string& tape, const std::string& turn_id);

    /// Adds the read by which check_open() knows whether the turn belongs to this owner.
    void select_turn(SqlBatch& reads, const std::string& tape, const std::string& turn_id) const;
    /// Throws StaleAppendError if another process has closed the turn, which has a journal.
    void check_open(const std::string& tape, const std::string& turn_id,
                    const SqlResult& result) const;
    /// Notes that the journal was removed with an append.
    void note_removed(const std::string& tape, const std::string& turn_id);

    /// Marks the tape as open until the result is destroyed.
    Task<std::shared_ptr<const void>> open_tape(std::string tape);

private:
    friend class PgTurnJournal;
    class OpenMark;
    using Turn = std::pair<std::string, std::string>;  // tape and id

    bool has_journal(const Turn& turn) const;
    void note_opened(const Turn& turn);
    /// Notes the end of a journal, and that the tape has to be looked at again if it was not removed.
    void note_ended(const Turn& turn, bool is_removed) noexcept;
    /// Returns true if a journal of this object writes the turn.
    bool is_live(const std::string& tape, const std::string& turn_key) const;
    /// Returns true if the turn has ended and only its rows could not be removed.
    bool is_removed(const std::string& tape, const std::string& turn_key) const;
    /// Does the same as close_dead_turns() if a turn of another process is dead.
    Task<> close_others(std::string tape);
    /// Ensures that a session of the server shows that the owner is alive.
    Task<> be_present();
    /// Stores lines as the part `seq` of the journal, which is created with part 1.
    Task<> write_lines(Turn turn, std::int64_t seq, std::string head, std::string lines);
    Task<> remove_journal(Turn turn);
    Task<> remove_mark(std::string tape, std::int64_t mark);
    /// Calls the function on a worker thread without waiting for it. Failures are ignored.
    void post(std::function<void()> work) const noexcept;

    const std::shared_ptr<cubepi::detail::SqlStore> store_;
    const std::int64_t owner_;
    const std::shared_ptr<cubepi::detail::SqlStore> presence_;
    std::atomic<std::int64_t> marks_ = 0;
    mutable std::mutex mutex_;
    std::set<Turn> journals_;       ///< that are stored
    std::multiset<Turn> live_;      ///< journals that have not ended
    std::set<Turn> removed_;        ///< whose rows may still be stored
    std::set<std::string> looked_;  ///< tapes
};

/// An SQL condition: the owner in this expression is alive.
std::string is_alive_sql(const std::string& owner);

/// Adds the statement that removes a turn with its journal.
void delete_turn(SqlBatch& writes, const std::string& tape, const std::string& turn_key);

}  // namespace bub::detail
