#include <algorithm>
#include <map>
#include <vector>

#include <unistd.h>

#include <bub/tape/checkpointer/side_state.hpp>
#include <bub/tape/entry/entry_fields.hpp>
#include <bub/tape/fork/turn_journal.hpp>
#include <bub/tape/postgres/tape_tables.hpp>
#include <bub/tape/support/encoding.hpp>
#include <cubepi/agent/claim_owner.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/support/digest.hpp>

// Turns in progress on tapes in a database, and the tapes that processes have open.

namespace bub::detail {

using cubepi::ErrorCode;
using cubepi::detail::server_read;
using cubepi::detail::server_write;
using cubepi::detail::SqlKnown;
using cubepi::detail::SqlPlan;
using cubepi::detail::SqlQuery;
using cubepi::detail::SqlResults;
using cubepi::detail::SqlStore;
using cubepi::detail::SqlView;

namespace {

/// A key of advisory locks beyond those of tapes, which have 32 bits.
std::int64_t make_owner(cubepi::IdSource& ids) {
    const std::string digest = cubepi::detail::md5_hex(ids.next() + " " + std::to_string(getpid()));
    const auto bits = static_cast<std::int64_t>(std::stoull(digest.substr(0, 15), nullptr, 16));
    return bits | (std::int64_t{1} << 60U);
}

[[noreturn]] void throw_closed(const std::string& tape, const std::string& turn_id,
                               bool has_lease) {
    if (has_lease)
        throw cubepi::CheckpointerLockTimeoutError(ErrorCode::storage_locked,
                                                   "a reader has closed turn '" + turn_id +
                                                       "' of tape '" + tape +
                                                       "', because this gateway had not renewed "
                                                       "its lease in time; nothing was stored, and "
                                                       "the turn can be tried again",
                                                   tape);
    throw cubepi::StaleAppendError(
        ErrorCode::stale_append,
        "another process has closed turn '" + turn_id + "' of tape '" + tape +
            "', because this one was frozen or had lost its connection to the server; "
            "nothing was stored",
        tape);
}

}  // namespace

/// A turn as its rows say.
struct StoredTurn {
    std::string key = {};
    std::int64_t owner = 0;
    bool alive = false;
    std::string lines = {};
};

namespace {

/// The leases of the turns on a tape, and whether there are turns.
struct StoredLeases {
    bool has_turns = false;
    std::vector<TurnLease> leases = {};
};

Task<StoredLeases> read_leases(std::shared_ptr<SqlStore> store, std::string tape) {
    SqlBatch reads;
    reads
        .add(
            "SELECT l.lines FROM bub_turns AS t LEFT JOIN bub_turn_lines AS l ON l.tape = t.tape"
            " AND l.turn_key = t.turn_key AND l.seq = 0 WHERE t.tape = $1")
        .text(tape);
    const SqlResults results = co_await store->read(std::move(reads));
    StoredLeases found;
    for (int row = 0; row < results[0].rows(); ++row) {
        found.has_turns = true;
        if (results[0].is_null(row, 0)) continue;
        const JournaledTurn head = read_journal(results[0].text(row, 0));
        if (head.lease) found.leases.push_back(*head.lease);
    }
    co_return found;
}

void select_turns(SqlBatch& reads, const std::string& tape) {
    reads
        .add("SELECT turn_key, " + is_alive_sql("owner") +
             ", owner FROM bub_turns WHERE tape = $1 ORDER BY started_at, turn_key")
        .text(tape);
    reads.add("SELECT turn_key, lines FROM bub_turn_lines WHERE tape = $1 ORDER BY turn_key, seq")
        .text(tape);
}

std::vector<StoredTurn> read_turns(const SqlResult& turns, const SqlResult& lines) {
    std::map<std::string, std::string> texts;
    for (int row = 0; row < lines.rows(); ++row) texts[lines.string(row, 0)] += lines.text(row, 1);
    std::vector<StoredTurn> found;
    for (int row = 0; row < turns.rows(); ++row) {
        StoredTurn turn;
        turn.key = turns.string(row, 0);
        turn.alive = turns.boolean(row, 1);
        turn.owner = turns.integer(row, 2);
        turn.lines = std::move(texts[turn.key]);
        found.push_back(std::move(turn));
    }
    return found;
}

/// Returns true if the run of the turn may not be superseded by the rules of claims (D50): its process only seems to be dead.
bool has_live_claim(const JsonObject& state, const JournaledTurn& turn,
                    std::chrono::system_clock::time_point now) {
    JsonObject copy = state;
    const SideStateClaims table(copy);
    const double time = std::chrono::duration<double>(now.time_since_epoch()).count();
    const std::vector<cubepi::HeldClaim> held = table.claims();
    return std::any_of(turn.claims.begin(), turn.claims.end(), [&](const TapeClaim& claim) {
        return std::any_of(held.begin(), held.end(), [&](const cubepi::HeldClaim& one) {
            return one.run_id == claim.run_id && one.owner.owner_id == claim.owner_id &&
                   one.lease_until > time && !cubepi::is_dead_owner(one.owner);
        });
    });
}

/// Adds the entries of a dead turn to its tape. Returns false if it has none.
bool close_turn(SqlBatch& writes, const std::string& tape, TapeRow& row, JournaledTurn turn,
                std::chrono::system_clock::time_point now) {
    if (turn.id.empty() || turn.empty()) return false;
    // Another process has superseded the turn's claim and continued the tape (D50).
    const bool superseded =
        !SideState(row.state).holds_all(turn.claims) && row.end.messages != turn.after;
    const bool waits = !pending_requests(tape, row.state).empty();
    DeadTurn dead = end_dead_turn(std::move(turn), superseded, waits);
    (void)write_append(writes, tape, row, std::move(dead.entries), dead.options, now);
    return true;
}

bool is_still_readable(const std::exception_ptr& failure) {
    try {
        std::rethrow_exception(failure);
    } catch (const cubepi::Error& error) {
        return may_still_read(error.code());
    } catch (...) {
        return false;
    }
}

}  // namespace

void delete_turn(SqlBatch& writes, const std::string& tape, const std::string& turn_key) {
    writes.add("DELETE FROM bub_turns WHERE tape = $1 AND turn_key = $2").text(tape).text(turn_key);
}

/// The journal of a turn; blocks until the server has stored what is written.
class PgTurnJournal final : public TurnJournal {
public:
    PgTurnJournal(std::shared_ptr<PgTapeTurns> turns, std::shared_ptr<TapeUse> use,
                  PgTapeTurns::Turn turn, std::string head)
        : turns_(std::move(turns)),
          use_(std::move(use)),
          turn_(std::move(turn)),
          head_(std::move(head)) {
        turns_->note_opened(turn_);
    }
    ~PgTurnJournal() override {
        turns_->note_ended(turn_, removed_);
        if (!removed_) use_->forget(turn_.first);
        if (removed_ || !tried_) return;
        // For other processes, to which the owner is alive. If it fails, the next use of the tape by this process does it.
        turns_->post([turns = turns_, tape = turn_.first] {
            cubepi::run(turns->close_dead_turns(tape, turns->use()));
        });
    }
    PgTurnJournal(const PgTurnJournal&) = delete;
    PgTurnJournal& operator=(const PgTurnJournal&) = delete;

    void write(std::string_view lines) override {
        const std::lock_guard lock(mutex_);
        if (removed_) return;
        tried_ = true;
        // A part that failed is replaced by the next write, which has its lines again.
        cubepi::run(turns_->write_lines(use_, turn_, parts_ + 1, head_, std::string(lines)));
        ++parts_;
    }

    void remove() noexcept override {
        const std::lock_guard lock(mutex_);
        removed_ = true;
        // The fate of a first write that failed is unknown.
        if (!turns_->has_journal(turn_) && (!tried_ || parts_ > 0)) return;
        try {
            cubepi::run(turns_->remove_journal(turn_));
        } catch (...) {
            // Without a connection.
            turns_->post(
                [turns = turns_, turn = turn_] { cubepi::run(turns->remove_journal(turn)); });
        }
    }

private:
    const std::shared_ptr<PgTapeTurns> turns_;
    const std::shared_ptr<TapeUse> use_;
    const PgTapeTurns::Turn turn_;
    const std::string head_;
    std::mutex mutex_;
    std::int64_t parts_ = 0;
    bool tried_ = false;
    bool removed_ = false;
};

class PgTapeTurns::OpenMark {
public:
    OpenMark(std::shared_ptr<PgTapeTurns> turns, std::string tape, std::int64_t mark)
        : turns_(std::move(turns)), tape_(std::move(tape)), mark_(mark) {}
    ~OpenMark() {
        turns_->post([turns = turns_, tape = tape_, mark = mark_] {
            cubepi::run(turns->remove_mark(tape, mark));
        });
    }
    OpenMark(const OpenMark&) = delete;
    OpenMark& operator=(const OpenMark&) = delete;

private:
    std::shared_ptr<PgTapeTurns> turns_;
    std::string tape_;
    std::int64_t mark_;
};

PgTapeTurns::PgTapeTurns(const cubepi::PostgresOptions& options, std::shared_ptr<SqlStore> store)
    : store_(std::move(store)),
      use_(std::make_shared<TapeUse>(store_, std::nullopt)),
      owner_(make_owner(*store_->options().runtime->ids)),
      presence_(std::make_shared<OwnerPresence>(options, owner_)) {}

void PgTapeTurns::post(std::function<void()> work) const noexcept {
    try {
        store_->options().runtime->workers->post([work = std::move(work)] {
            try {
                work();
            } catch (...) {
                // The row remains until the end of this process, after which it counts for nothing.
                return;
            }
        });
    } catch (...) {
        return;
    }
}

std::optional<SqlQuery> PgTapeTurns::dead_turn_check(const std::string& tape,
                                                     const TapeUse& use) const {
    std::optional<SqlQuery> check;
    const bool has_looked = use.has_looked(tape);
    // No turn of an earlier lease can begin after this one has.
    if (has_looked && use.lease()) return check;
    if (has_looked) {
        const std::lock_guard lock(mutex_);
        // The journal of a turn of this process has closed them when it was opened.
        const auto live = live_.lower_bound(Turn(tape, std::string()));
        if (live != live_.end() && live->first == tape) return check;
    }
    // Another process may have used the tape since, and have died (D233).
    const std::string others =
        has_looked ? " AND owner <> $2 AND NOT " + is_alive_sql("owner") : std::string();
    check.emplace("SELECT EXISTS (SELECT 1 FROM bub_turns WHERE tape = $1" + others + ")");
    check->text(tape);
    if (has_looked) check->integer(owner_);
    return check;
}

Task<> PgTapeTurns::note_check(std::string tape, std::shared_ptr<TapeUse> use, bool may_be_dead) {
    if (may_be_dead) {
        Task<> closing = close_dead_turns(tape, use);
        const cubepi::Outcome<> closed = co_await cubepi::outcome_of(std::move(closing));
        if (!closed) {
            if (is_still_readable(closed.failure())) co_return;
            closed.rethrow();
        }
    }
    use->note_looked(tape);
}

Task<> PgTapeTurns::look(std::string tape, std::shared_ptr<TapeUse> use) {
    const auto self = shared_from_this();
    const std::optional<SqlQuery> check = dead_turn_check(tape, *use);
    if (!check) co_return;
    SqlBatch reads;
    reads.add(*check);
    const SqlResults found = co_await store_->read(std::move(reads));
    co_await note_check(std::move(tape), std::move(use), found[0].boolean(0, 0));
}

Task<SqlResult> PgTapeTurns::read(std::string tape, std::shared_ptr<TapeUse> use, SqlQuery query) {
    const auto self = shared_from_this();
    const std::optional<SqlQuery> check = dead_turn_check(tape, *use);
    SqlBatch reads;
    if (check) reads.add(*check);
    reads.add(query);
    SqlResults results = co_await store_->read_in_order(std::move(reads));
    if (!check) co_return std::move(results[0]);
    const bool may_be_dead = results[0].boolean(0, 0);
    co_await note_check(std::move(tape), std::move(use), may_be_dead);
    if (!may_be_dead) co_return std::move(results[1]);
    SqlBatch again;
    again.add(std::move(query));
    results = co_await store_->read(std::move(again));
    co_return std::move(results[0]);
}

/// Returns true if no process may write the turn any more. `under_lease`: also if its run may be superseded (D50), which the turn that
/// asks is about to do.
bool PgTapeTurns::is_dead(const std::string& tape, const StoredTurn& stored,
                          const JournaledTurn& turn, const SessionFences& fences,
                          const JsonObject& state, bool under_lease) const {
    if (turn.lease && fences.has_ended(*turn.lease)) return true;
    if (stored.owner == owner_) return !is_live(tape, stored.key);
    if (turn.lease) return !fences.is_served(*turn.lease);
    if (stored.alive && (!under_lease || turn.claims.empty())) return false;
    return !has_live_claim(state, turn, store_->options().runtime->clock->wall());
}

Task<> PgTapeTurns::close_dead_turns(std::string tape, std::shared_ptr<TapeUse> use) {
    const auto self = shared_from_this();
    const StoredLeases found = co_await read_leases(store_, tape);
    if (!found.has_turns) co_return;
    SqlPlan plan = use->plan(tape);
    select_turns(plan.reads, tape);
    SessionFences::select(plan.reads, found.leases);
    const bool has_leases = !found.leases.empty();
    const std::shared_ptr<cubepi::Clock> clock = store_->options().runtime->clock;
    const bool under_lease = use->lease().has_value();
    auto decide = [self, tape, clock, has_leases, under_lease](const SqlView& view,
                                                               SqlBatch& writes) {
        TapeRow row = row_in(tape, view, nullptr);
        const SessionFences fences = has_leases ? SessionFences(view.results[2]) : SessionFences();
        std::size_t closed = 0;
        for (StoredTurn& stored : read_turns(view.results[0], view.results[1])) {
            JournaledTurn turn = read_journal(stored.lines);
            if (!self->is_dead(tape, stored, turn, fences, row.state, under_lease)) continue;
            const bool is_over = stored.owner == self->owner_ && self->is_removed(tape, stored.key);
            if (!is_over && close_turn(writes, tape, row, std::move(turn), clock->wall())) ++closed;
            delete_turn(writes, tape, stored.key);
        }
        return closed;
    };
    // Also if the fate of the write is not known, or another process has closed them meanwhile.
    struct AtEnd {
        TapeUse& use;
        const std::string& tape;
        ~AtEnd() { use.note_closing(tape); }
    } const at_end{*use, tape};
    const std::size_t closed =
        co_await server_write(use->transactions(), std::move(plan), std::move(decide));
    for (std::size_t i = 0; i < closed; ++i) {
        store_->options().runtime->log.write(cubepi::LogLevel::warning, "tape.turn_closed",
                                             {{"tape", tape}});
    }
}

Task<bool> PgTapeTurns::has_open_turn(std::string tape) {
    const auto self = shared_from_this();
    co_await close_dead_turns(tape, use_);
    SqlBatch reads;
    reads.add("SELECT EXISTS (SELECT 1 FROM bub_turns WHERE tape = $1)").text(tape);
    const SqlResults found = co_await store_->read(std::move(reads));
    co_return found[0].boolean(0, 0);
}

std::shared_ptr<TurnJournal> PgTapeTurns::open_journal(const std::string& tape,
                                                       const std::string& turn_id,
                                                       std::shared_ptr<TapeUse> use) {
    // Under a lease they are closed before the first read (look()).
    if (!use->lease() || !use->has_looked(tape)) cubepi::run(close_dead_turns(tape, use));
    use->note_looked(tape);
    std::string head =
        journal_head(turn_id, store_->options().runtime->clock->wall(), use->lease());
    return std::make_shared<PgTurnJournal>(shared_from_this(), std::move(use), Turn(tape, turn_id),
                                           std::move(head));
}

bool PgTapeTurns::has_journal(const Turn& turn) const {
    const std::lock_guard lock(mutex_);
    return journals_.contains(turn);
}

void PgTapeTurns::note_removed(const std::string& tape, const std::string& turn_id) {
    const std::lock_guard lock(mutex_);
    journals_.erase(Turn(tape, turn_id));
    removed_.erase(Turn(tape, key_of(turn_id)));
}

void PgTapeTurns::note_opened(const Turn& turn) {
    const std::lock_guard lock(mutex_);
    live_.emplace(turn.first, key_of(turn.second));
    removed_.erase(Turn(turn.first, key_of(turn.second)));
}

void PgTapeTurns::note_ended(const Turn& turn, bool is_removed) noexcept {
    const Turn stored(turn.first, key_of(turn.second));
    const std::lock_guard lock(mutex_);
    if (const auto found = live_.find(stored); found != live_.end()) live_.erase(found);
    if (is_removed || live_.contains(stored)) return;
    journals_.erase(turn);
    use_->forget(turn.first);
}

bool PgTapeTurns::is_live(const std::string& tape, const std::string& turn_key) const {
    const std::lock_guard lock(mutex_);
    return live_.contains(Turn(tape, turn_key)) && !removed_.contains(Turn(tape, turn_key));
}

bool PgTapeTurns::is_removed(const std::string& tape, const std::string& turn_key) const {
    const std::lock_guard lock(mutex_);
    return removed_.contains(Turn(tape, turn_key));
}

namespace {

/// Returns what a write from the row knows. `condition`: more that must hold.
SqlKnown known_row(const std::string& tape, const TapeRow& row, const std::string& condition) {
    SqlQuery guard(
        "SELECT 1 / coalesce((SELECT 1 FROM bub_tapes WHERE tape = $1 AND write_id = $2" +
        condition + "), 0)");
    guard.text(tape).text(row.write_id);
    return SqlKnown{row.write_id, std::move(guard)};
}

}  // namespace

std::optional<SqlKnown> PgTapeTurns::known(const std::string& tape,
                                           const std::shared_ptr<const TapeRow>& row) {
    std::optional<SqlKnown> known;
    if (row) known.emplace(known_row(tape, *row, {}));
    return known;
}

std::optional<SqlKnown> PgTapeTurns::known(const std::string& tape,
                                           const std::shared_ptr<const TapeRow>& row,
                                           const std::string& turn_id, bool is_stored) const {
    std::optional<SqlKnown> known;
    if (!row) return known;
    const std::string turn =
        " (SELECT 1 FROM bub_turns WHERE tape = $1 AND turn_key = $3 AND owner ";
    known.emplace(known_row(
        tape, *row,
        is_stored ? " AND EXISTS" + turn + "= $4)" : " AND NOT EXISTS" + turn + "<> $4)"));
    known->guard.text(key_of(turn_id)).integer(owner_);
    return known;
}

void PgTapeTurns::check_open(const std::string& tape, const std::string& turn_id,
                             std::optional<std::int64_t> owner, bool has_lease) const {
    if (owner != owner_) throw_closed(tape, turn_id, has_lease);
}

Task<> PgTapeTurns::write_lines(std::shared_ptr<TapeUse> use, Turn turn, std::int64_t seq,
                                std::string head, std::string lines) {
    const auto self = shared_from_this();
    const bool has_lease = use->lease().has_value();
    if (!has_lease) co_await presence_->ensure();
    SqlPlan plan = use->plan(turn.first, turn.second);
    const std::shared_ptr<const TapeRow> row = use->take_row(turn.first);
    plan.known = known(turn.first, row, turn.second, seq > 1);
    const auto after = std::make_shared<TapeRow>();
    auto decide = [turn, seq, head = std::move(head), lines = std::move(lines), owner = owner_,
                   has_lease, row, after](const SqlView& view, SqlBatch& writes) {
        const auto& [tape, id] = turn;
        const bool is_known = view.object.rows() == 0;
        const std::optional<std::int64_t> stored =
            is_known ? std::optional(owner) : turn_owner(view.object);
        *after = is_known ? row_in(tape, view, row) : TapeRow();
        if (seq == 1 && stored && stored != owner) {
            throw cubepi::CheckpointerLockTimeoutError(
                ErrorCode::storage_locked,
                "turn '" + id + "' of tape '" + tape + "' is in progress in another process");
        }
        if (seq > 1 && stored != owner) throw_closed(tape, id, has_lease);
        // The time of the tape stays that of its entries, so that the index of times need not change.
        writes
            .add("INSERT INTO bub_tapes (tape, write_id) VALUES ($1, $2) {replace tape: write_id}")
            .text(tape)
            .text(view.id);
        std::vector<std::string> parts = {lines};
        if (seq == 1) {
            writes.add("INSERT INTO bub_turns (tape, turn_key, owner) VALUES ($1, $2, $3) {skip}")
                .text(tape)
                .text(key_of(id))
                .integer(owner);
            parts.insert(parts.begin(), head);
        }
        writes
            .add(
                "INSERT INTO bub_turn_lines (tape, turn_key, seq, lines) SELECT $1, $2, $3 + n,"
                " lines FROM unnest($4::text[]) WITH ORDINALITY AS p (lines, n)"
                " {replace tape, turn_key, seq: lines}")
            .text(tape)
            .text(key_of(id))
            .integer(seq - static_cast<std::int64_t>(parts.size()))
            .texts(std::move(parts));
    };
    co_await server_write(use->transactions(), std::move(plan), std::move(decide));
    use->note_row(turn.first, std::move(*after));
    const std::lock_guard lock(mutex_);
    journals_.insert(std::move(turn));
}

Task<> PgTapeTurns::remove_journal(Turn turn) {
    const auto self = shared_from_this();
    {
        const std::lock_guard lock(mutex_);
        removed_.emplace(turn.first, key_of(turn.second));
    }
    SqlPlan plan;
    plan.locks = {turn.first};
    auto decide = [turn, owner = owner_](const SqlView&, SqlBatch& writes) {
        writes.add("DELETE FROM bub_turns WHERE tape = $1 AND turn_key = $2 AND owner = $3")
            .text(turn.first)
            .text(key_of(turn.second))
            .integer(owner);
    };
    co_await server_write(store_, std::move(plan), std::move(decide));
    note_removed(turn.first, turn.second);
}

Task<std::shared_ptr<const void>> PgTapeTurns::open_tape(std::string tape) {
    const auto self = shared_from_this();
    co_await presence_->ensure();
    const std::int64_t mark = ++marks_;
    SqlPlan plan;
    plan.locks = {tape};
    auto decide = [tape, mark, owner = owner_](const SqlView&, SqlBatch& writes) {
        writes.add("DELETE FROM bub_open WHERE tape = $1 AND NOT " + may_be_alive_sql("owner"))
            .text(tape);
        writes.add("INSERT INTO bub_open (tape, owner, mark) VALUES ($1, $2, $3) {skip}")
            .text(tape)
            .integer(owner)
            .integer(mark);
    };
    co_await server_write(store_, std::move(plan), std::move(decide));
    std::shared_ptr<const void> result =
        std::make_shared<const OpenMark>(self, std::move(tape), mark);
    co_return result;
}

Task<> PgTapeTurns::remove_mark(std::string tape, std::int64_t mark) {
    const auto self = shared_from_this();
    SqlPlan plan;
    plan.locks = {tape};
    auto decide = [tape, mark, owner = owner_](const SqlView&, SqlBatch& writes) {
        writes.add("DELETE FROM bub_open WHERE tape = $1 AND owner = $2 AND mark = $3")
            .text(tape)
            .integer(owner)
            .integer(mark);
    };
    co_await server_write(store_, std::move(plan), std::move(decide));
}

}  // namespace bub::detail
