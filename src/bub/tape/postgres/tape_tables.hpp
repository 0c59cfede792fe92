#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <bub/tape/postgres_tape_schema.hpp>
#include <bub/tape/tape_store.hpp>
#include <bub/tape/turn_lease.hpp>
#include <cubepi/core/task.hpp>
#include <cubepi/sql/postgres_options.hpp>
#include <cubepi/sql/support/postgres.hpp>
#include <cubepi/sql/support/transaction.hpp>

namespace bub::detail {

using cubepi::Task;

/// Shows other processes that an owner of turns is alive: by the advisory lock of a session of the server, which ends with the process.
/// Behind a pooler, whose sessions have no such locks, by a row that a thread renews, and that ends 10 s after the process (D257).
/// Thread-safe.
class OwnerPresence : public std::enable_shared_from_this<OwnerPresence> {
public:
    OwnerPresence(const cubepi::PostgresOptions& options, std::int64_t owner);
    ~OwnerPresence();
    OwnerPresence(const OwnerPresence&) = delete;
    OwnerPresence& operator=(const OwnerPresence&) = delete;

    /// Ensures that the server shows it.
    Task<> ensure();

private:
    struct Renewal;

    /// Returns true if the row was renewed a moment ago.
    bool is_fresh() const;
    Task<> beat();
    void renew();

    const std::int64_t owner_;
    const int process_;
    const std::shared_ptr<cubepi::detail::SqlStore> store_;
    std::unique_ptr<Renewal> renewal_;
};

/// An SQL condition: the owner in this expression is alive.
std::string is_alive_sql(const std::string& owner);
/// The same, or its process may only be frozen: its row, which it may renew again, exists for a day.
std::string may_be_alive_sql(const std::string& owner);

}  // namespace bub::detail

// The tables of tapes in a database: connections to them, their rows, and the turns in progress.

namespace bub::detail {

using cubepi::detail::SqlBatch;
using cubepi::detail::SqlResult;

/// The tables of tapes. A transaction locks tapes.
class TapeSchema final : public cubepi::detail::PostgresSchema {
public:
    /// `owner`: its sessions show that the owner of turns is alive (OwnerPresence); 0: they do not. `division`: the record that the database
    /// must have (DatabaseMap::record()), empty: none; absent: not checked.
    explicit TapeSchema(std::int64_t owner = 0, std::optional<std::string> division = {})
        : PostgresSchema(postgres_tape_tables(), "bub_tapes", "tape"),
          owner_(owner),
          division_(std::move(division)) {}

    SqlBatch session() const override;
    void check(const std::string& where, const cubepi::detail::SqlResults& results) const override;
    void lock(SqlBatch& batch, const std::vector<std::string>& tapes) const override;
    cubepi::detail::SqlRemedy remedy(const cubepi::detail::SqlFailure& failure,
                                     cubepi::detail::SqlRemedy general) const override;

private:
    const std::int64_t owner_;
    const std::optional<std::string> division_;
};

/// The code of the failure of a transaction whose lease has ended when it commits.
inline constexpr cubepi::ErrorCode lease_end_code = cubepi::ErrorCode::run_not_claimed;

/// Returns the transactions on these tables.
std::shared_ptr<cubepi::detail::SqlStore> tape_transactions(
    const cubepi::PostgresOptions& options, std::int64_t owner = 0,
    std::optional<std::string> division = {});

struct StoredTurn;
struct JournaledTurn;

/// A row of bub_tapes.
struct TapeRow {
    bool exists = false;
    std::string write_id =
        {};  ///< of the last transaction that wrote it, or of the one that decides
    TapePosition end = {};
    TapeInfo info = {};
    JsonObject state = {};
    std::int64_t bytes = 0;  ///< of the entries as lines
};

/// How tapes are used: under the lease of one turn, or by a process without one. Thread-safe.
class TapeUse {
public:
    TapeUse(std::shared_ptr<cubepi::detail::SqlStore> store, std::optional<TurnLease> lease);

    /// Under a lease, each transaction that writes checks the lease when it reads, and once more when it commits. Throws
    /// SessionTakenError if it has ended.
    const std::shared_ptr<cubepi::detail::SqlTransactions>& transactions() const noexcept {
        return transactions_;
    }
    /// Returns the plan of such a transaction on a tape. Its SqlView::object is a row of read_tape_row() and turn_owner().
    cubepi::detail::SqlPlan plan(const std::string& tape, const std::string& turn_id = {}) const;
    /// Under a lease, the row as the last read or write has left it, from which the next write can decide at once (SqlPlan::known): only
    /// processes without the lease write it in between. Null if there is none, and until another one is noted.
    std::shared_ptr<const TapeRow> take_row(const std::string& tape);
    void note_row(const std::string& tape, TapeRow row);
    const std::optional<TurnLease>& lease() const noexcept { return lease_; }

    /// The tapes whose dead turns were closed before.
    bool has_looked(const std::string& tape) const;
    void note_looked(const std::string& tape);
    void forget(const std::string& tape);
    /// The number of times that turns on the tape may have been closed: what was read before another number is old.
    std::uint64_t closings(const std::string& tape) const;
    void note_closing(const std::string& tape);

private:
    const std::shared_ptr<cubepi::detail::SqlTransactions> transactions_;
    const std::optional<TurnLease> lease_;
    mutable std::mutex mutex_;
    std::set<std::string> looked_;
    std::map<std::string, std::uint64_t> closings_;
    std::map<std::string, std::shared_ptr<const TapeRow>> rows_;
};

/// The fences of sessions, as read with the turns of a tape.
class SessionFences {
public:
    /// Adds the read of the sessions of these leases; none if there are none: there may be no table of them.
    static void select(SqlBatch& reads, const std::vector<TurnLease>& leases);
    SessionFences() = default;
    explicit SessionFences(const SqlResult& rows);

    /// Returns true if the lease has ended: its owner cannot write.
    bool has_ended(const TurnLease& lease) const;
    /// Returns true if the gateway that has the session has renewed its lease in time.
    bool is_served(const TurnLease& lease) const;

private:
    struct Session {
        std::int64_t fence = 0;
        bool is_served = false;
    };
    std::map<std::string, Session> sessions_;
};

/// Returns the SQL of a row for each tape of w(tape), whether the tape exists or not. It begins with the columns that SqlPlan::object
/// requires and those of read_tape_row(), which `more` follow. `names`: the source of w.
std::string tape_row_sql(const std::string& more, const std::string& names);
/// The source of the tape $1.
inline constexpr const char* one_tape = "(SELECT $1::text AS tape) AS w";
/// Selects the row of a tape.
cubepi::detail::SqlQuery select_tape(const std::string& tape);
/// Throws CheckpointCorruptionError for JSON that cannot be read.
TapeRow read_tape_row(const std::string& tape, const SqlResult& result, int at = 0);

/// Returns the row from which a write decides: `known`, or that of SqlView::object. Throws as above.
TapeRow row_in(const std::string& tape, const cubepi::detail::SqlView& view,
               const std::shared_ptr<const TapeRow>& known);
/// Returns the owner of the turn of TapeUse::plan(); nothing if the turn is not stored.
std::optional<std::int64_t> turn_owner(const SqlResult& object);

/// Reads the column `state`. Throws as above.
JsonObject read_state_of(const std::string& tape, std::string_view text);

/// `write_id`: SqlView::id.
void write_state(SqlBatch& batch, const std::string& tape, const JsonObject& state,
                 const std::string& write_id);
/// Adds the statements of an append to a tape that is locked, and changes `row` accordingly. Returns the new end of the tape. Throws what
/// prepare_append() throws. `edited`: the side state that is stored in the same step; null: it stays.
TapePosition write_append(SqlBatch& batch, const std::string& tape, TapeRow& row,
                          std::vector<TapeEntry> entries, const TapeAppend& options,
                          std::chrono::system_clock::time_point now,
                          const JsonObject* edited = nullptr);

/// Reads the lines of a column. Leaves out lines that cannot be read as entries, as a file does.
std::vector<TapeEntry> read_entries(const SqlResult& result, int column = 0);

/// The value by which a name or an id is found.
std::string key_of(std::string_view name);

/// The journals of turns in the table bub_turns. Each belongs to an owner: a store in one process. A turn that is written under a
/// lease is dead when the lease has ended: its owner cannot write, whether it is alive or not. The owner of another one is alive
/// while its OwnerPresence shows it. A dead turn is closed by the next process that uses its tape. An owner that only seemed to be
/// dead (it was frozen, or the server restarted) is fenced: if its turn has been closed meanwhile, the next write of its journal and
/// its append fail. A turn whose journal was destroyed without being removed (its
/// merge has failed) is dead too: its owner closes it like another's. Thread-safe.
class PgTapeTurns : public std::enable_shared_from_this<PgTapeTurns> {
public:
    using Turn = std::pair<std::string, std::string>;  // tape and id

    PgTapeTurns(const cubepi::PostgresOptions& options,
                std::shared_ptr<cubepi::detail::SqlStore> store);

    /// The use of tapes by a process without a lease.
    const std::shared_ptr<TapeUse>& use() const noexcept { return use_; }
    /// Closes dead turns before a use of the tape. Does not throw where the tape can still be read.
    Task<> look(std::string tape, std::shared_ptr<TapeUse> use);
    /// Does the same, and returns what the statement selects afterwards: one round trip if no turn is dead.
    Task<SqlResult> read(std::string tape, std::shared_ptr<TapeUse> use,
                         cubepi::detail::SqlQuery query);
    Task<> close_dead_turns(std::string tape, std::shared_ptr<TapeUse> use);
    /// Returns true if turns are in progress, after close_dead_turns().
    Task<bool> has_open_turn(std::string tape);
    std::shared_ptr<TurnJournal> open_journal(const std::string& tape, const std::string& turn_id,
                                              std::shared_ptr<TapeUse> use);

    /// Returns true if this object has stored a journal of the turn.
    bool has_journal(const Turn& turn) const;
    /// Returns SqlPlan::known for a write that decides from this row, unless it is null.
    static std::optional<cubepi::detail::SqlKnown> known(const std::string& tape,
                                                         const std::shared_ptr<const TapeRow>& row);
    /// Does the same for a write that requires that the turn belongs to this owner, or, unless `is_stored`, to no other one.
    std::optional<cubepi::detail::SqlKnown> known(const std::string& tape,
                                                  const std::shared_ptr<const TapeRow>& row,
                                                  const std::string& turn_id, bool is_stored) const;
    /// Throws StaleAppendError if another process has closed the turn, for which has_journal() is true; with a lease, which has not ended
    /// then, CheckpointerLockTimeoutError. `owner`: turn_owner().
    void check_open(const std::string& tape, const std::string& turn_id,
                    std::optional<std::int64_t> owner, bool has_lease) const;
    /// Notes that the journal was removed with an append.
    void note_removed(const std::string& tape, const std::string& turn_id);

    /// Marks the tape as open until the result is destroyed.
    Task<std::shared_ptr<const void>> open_tape(std::string tape);

private:
    friend class PgTurnJournal;
    class OpenMark;

    void note_opened(const Turn& turn);
    /// Notes the end of a journal, and that the tape has to be looked at again if it was not removed.
    void note_ended(const Turn& turn, bool is_removed) noexcept;
    /// Returns true if a journal of this object writes the turn.
    bool is_live(const std::string& tape, const std::string& turn_key) const;
    /// Returns true if the turn has ended and only its rows could not be removed.
    bool is_removed(const std::string& tape, const std::string& turn_key) const;
    bool is_dead(const std::string& tape, const StoredTurn& stored, const JournaledTurn& turn,
                 const SessionFences& fences, const JsonObject& state, bool under_lease) const;
    /// Returns the statement that says whether turns on the tape may be dead; nothing if none can be.
    std::optional<cubepi::detail::SqlQuery> dead_turn_check(const std::string& tape,
                                                            const TapeUse& use) const;
    /// Closes dead turns after that check. Does not throw where the tape can still be read.
    Task<> note_check(std::string tape, std::shared_ptr<TapeUse> use, bool may_be_dead);
    /// Stores lines as the part `seq` of the journal, which is created with part 1.
    Task<> write_lines(std::shared_ptr<TapeUse> use, Turn turn, std::int64_t seq, std::string head,
                       std::string lines);
    Task<> remove_journal(Turn turn);
    Task<> remove_mark(std::string tape, std::int64_t mark);
    /// Calls the function on a worker thread without waiting for it. Failures are ignored.
    void post(std::function<void()> work) const noexcept;

    const std::shared_ptr<cubepi::detail::SqlStore> store_;
    const std::shared_ptr<TapeUse> use_;
    const std::int64_t owner_;
    const std::shared_ptr<OwnerPresence> presence_;
    std::atomic<std::int64_t> marks_ = 0;
    mutable std::mutex mutex_;
    std::set<Turn> journals_;   ///< that are stored
    std::multiset<Turn> live_;  ///< journals that have not ended
    std::set<Turn> removed_;    ///< whose rows may still be stored
};

/// Visits the matching entries, page by page. They are those of one moment, that of the first page: later appends are left out.
/// If the tape is reset in between, calls `restart`, which returns true if the entries so far are forgotten, and begins again;
/// or throws CheckpointerError(storage). `see_end`, unless empty, is called with the last id on the tape, as of the first page.
Task<void> visit_pages(std::shared_ptr<PgTapeTurns> turns, std::shared_ptr<TapeUse> use,
                       std::string tape, TapeQuery query,
                       std::function<bool(const TapeEntry&)> visit, std::function<bool()> restart,
                       std::function<void(std::int64_t last_id)> see_end);

/// Adds the statement that removes a turn with its journal.
void delete_turn(SqlBatch& writes, const std::string& tape, const std::string& turn_key);

}  // namespace bub::detail
