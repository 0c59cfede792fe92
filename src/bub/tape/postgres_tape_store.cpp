#include <bub/tape/postgres_tape_store.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <mutex>
#include <utility>

#include <bub/tape/checkpointer/side_state.hpp>
#include <bub/tape/entry/entry_fields.hpp>
#include <bub/tape/postgres/leased_reads.hpp>
#include <bub/tape/postgres/tape_tables.hpp>
#include <bub/tape/support/encoding.hpp>
#include <bub/tape/tape_store_support.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/support/digest.hpp>
#include <cubepi/schema/json_text.hpp>
#include <cubepi/sql/support/postgres.hpp>

namespace bub {

namespace detail {

/// Edits of side states that failed and precede the next edit of their tape. Thread-safe.
class LateEdits {
public:
    using Edit = std::function<void(JsonObject&)>;

    void add(const std::string& tape, Edit edit) {
        const std::lock_guard lock(mutex_);
        edits_[tape].push_back(std::move(edit));
    }
    /// Appends the edits of the tape to `taken`; others do not see them from then on.
    void take(const std::string& tape, std::vector<Edit>& taken) {
        const std::lock_guard lock(mutex_);
        const auto found = edits_.find(tape);
        if (found == edits_.end()) return;
        for (Edit& edit : found->second) taken.push_back(std::move(edit));
        edits_.erase(found);
    }
    void put_back(const std::string& tape, std::vector<Edit> taken) {
        if (taken.empty()) return;
        const std::lock_guard lock(mutex_);
        std::vector<Edit>& edits = edits_[tape];
        for (Edit& edit : edits) taken.push_back(std::move(edit));
        edits = std::move(taken);
    }

private:
    std::mutex mutex_;
    std::map<std::string, std::vector<Edit>> edits_;
};

/// The late edits of a transaction, which are put back unless it was stored.
class TakenEdits {
public:
    TakenEdits(std::shared_ptr<LateEdits> from, std::string tape)
        : from_(std::move(from)), tape_(std::move(tape)) {}
    ~TakenEdits() {
        if (!stored_) from_->put_back(tape_, std::move(edits_));
    }
    TakenEdits(const TakenEdits&) = delete;
    TakenEdits& operator=(const TakenEdits&) = delete;

    /// May be called again when the transaction is repeated.
    void make(JsonObject& state) {
        from_->take(tape_, edits_);
        for (const LateEdits::Edit& edit : edits_) {
            // A copy, because the original may be needed again.
            const LateEdits::Edit once = edit;
            once(state);
        }
    }
    void set_stored() noexcept { stored_ = true; }

private:
    std::shared_ptr<LateEdits> from_;
    std::string tape_;
    std::vector<LateEdits::Edit> edits_;
    bool stored_ = false;
};

}  // namespace detail

namespace {

using namespace detail;
using cubepi::detail::server_read;
using cubepi::detail::server_write;
using cubepi::detail::SqlLease;
using cubepi::detail::SqlPlan;
using cubepi::detail::SqlPool;
using cubepi::detail::SqlQuery;
using cubepi::detail::SqlResults;
using cubepi::detail::SqlStore;
using cubepi::detail::SqlView;
using cubepi::detail::translated;
using StorePtr = std::shared_ptr<SqlStore>;
using TurnsPtr = std::shared_ptr<PgTapeTurns>;
using UsePtr = std::shared_ptr<TapeUse>;
using ReadsPtr = std::shared_ptr<LeasedReads>;

/// Returns the row after the dead turns on the tape have been closed.
Task<TapeRow> current_row(TurnsPtr turns, UsePtr use, ReadsPtr reads, std::string tape) {
    if (reads) {
        co_await turns->look(tape, use);
        co_return co_await reads->read_row(std::move(tape));
    }
    SqlQuery query = select_tape(tape);
    const SqlResult result = co_await turns->read(tape, std::move(use), std::move(query));
    co_return read_tape_row(tape, result);
}

/// Late edits under a lease precede edits under the same lease only: since then, another process may have written the state.
std::string late_key(const std::string& tape, const std::optional<TurnLease>& lease) {
    if (!lease) return tape;
    return tape + "\n" + lease->session + "." + std::to_string(lease->fence);
}

/// Makes the late edits of a tape, then `edit`.
Json edit_once(const std::string& tape, JsonObject& state, TakenEdits& late,
               const std::function<Json(JsonObject&)>& edit,
               const std::optional<TurnLease>& lease) {
    late.make(state);
    // A copy, because the original may be needed again.
    std::function<Json(JsonObject&)> once = edit;
    Json result = lease ? edit_under_lease(state, *lease, once) : once(state);
    check_depth(tape, state);
    return result;
}

/// Notes the row as it would be read: a number that was edited may have another type.
void note_written(TapeUse& use, const std::string& tape, TapeRow row) {
    if (!use.lease()) return;
    row.state = read_state_of(tape, cubepi::json_text(row.state));
    use.note_row(tape, std::move(row));
}

std::function<Json(JsonObject&)> state_edit(std::function<void(JsonObject&)> edit) {
    return [edit = std::move(edit)](JsonObject& state) {
        edit(state);
        return Json();
    };
}

/// Returns `convert(SqlResult)` of the statement, after the dead turns on the tape have been closed.
template <class F>
auto read_after_look(TurnsPtr turns, UsePtr use, std::string tape, SqlQuery query, F convert)
    -> Task<std::invoke_result_t<F&, const SqlResult&>> {
    const SqlResult result =
        co_await turns->read(std::move(tape), std::move(use), std::move(query));
    co_return convert(result);
}

std::function<void(std::int64_t)> end_check(const ReadsPtr& reads, const std::string& tape) {
    if (!reads) return {};
    return reads->end_check(tape);
}

Task<std::vector<TapeEntry>> last_anchor(ReadsPtr reads, std::string tape) {
    std::vector<TapeEntry> anchors;
    std::optional<TapeEntry> last = co_await reads->last_anchor(std::move(tape));
    if (last) anchors.push_back(std::move(*last));
    co_return anchors;
}

}  // namespace

PostgresTapeStore::PostgresTapeStore(cubepi::PostgresOptions options,
                                     std::optional<std::string> division)
    : store_(tape_transactions(options, 0, std::move(division))),
      turns_(std::make_shared<PgTapeTurns>(options, store_)),
      locks_(std::make_shared<SqlPool>(options, cubepi::detail::postgres_driver(options),
                                       std::make_shared<const TapeSchema>())),
      late_(std::make_shared<LateEdits>()),
      use_(turns_->use()) {
    prepare_tls();
}

PostgresTapeStore::PostgresTapeStore(const PostgresTapeStore& store, TurnLease lease)
    : store_(store.store_),
      turns_(store.turns_),
      locks_(store.locks_),
      late_(store.late_),
      use_(std::make_shared<TapeUse>(store_, std::move(lease))),
      reads_(std::make_shared<LeasedReads>(store_, turns_, use_)) {}

std::shared_ptr<TapeStore> PostgresTapeStore::leased(TurnLease lease) {
    return std::shared_ptr<PostgresTapeStore>(new PostgresTapeStore(*this, std::move(lease)));
}

PostgresTapeStore::~PostgresTapeStore() = default;

void PostgresTapeStore::expect(std::vector<TapeLookup> lookups, std::vector<std::string> tapes) {
    if (reads_) reads_->expect(std::move(lookups), std::move(tapes));
}

Task<JsonObject> PostgresTapeStore::recent_state(std::string tape) {
    const ReadsPtr reads = reads_;
    if (!reads) co_return co_await read_state(std::move(tape));
    TapeRow row = co_await reads->recent_row(std::move(tape));
    co_return std::move(row.state);
}

Task<void> PostgresTapeStore::open() {
    const StorePtr store = store_;
    // Any call connects.
    SqlBatch nothing;
    (void)co_await store->read(std::move(nothing));
}

std::string PostgresTapeStore::location() const { return store_->driver().description(); }

Task<std::vector<ListedTape>> PostgresTapeStore::newest_tapes_after(std::optional<ListedTape> last,
                                                                    std::size_t limit,
                                                                    std::string prefix) {
    // The tapes with a prefix are a range of the primary key, whose order is that of bytes. They are selected first: a plan for any
    // prefix would read the newest tapes of all until there are enough.
    std::string from = "bub_tapes";
    if (!prefix.empty()) {
        const std::string range = last ? "tape >= $4 AND tape < $5" : "tape >= $2 AND tape < $3";
        from = "(SELECT * FROM bub_tapes WHERE " + range + " OFFSET 0) AS prefixed";
    }
    // The server decides what is_main_tape() does, since it counts the rows.
    std::string sql = "SELECT tape, bytes, {epoch updated_at}, state FROM " + from +
                      " WHERE (last_id > 0 OR tape IN (SELECT tape FROM bub_turns))"
                      " AND tape LIKE '%\\_\\_%' AND tape NOT LIKE '%\\_\\_%\\_\\_%'";
    if (last) {
        const std::string time = "(timestamptz 'epoch' + $2 * interval '1 microsecond')";
        sql += " AND updated_at <= " + time + " AND (updated_at < " + time + " OR tape > $3)";
    }
    SqlBatch reads;
    auto& query = reads.add(sql + " ORDER BY updated_at DESC, tape LIMIT $1");
    constexpr std::size_t most = std::numeric_limits<std::int64_t>::max();
    query.integer(static_cast<std::int64_t>(std::min(limit, most)));
    if (last) {
        const auto time = last->modified.time_since_epoch();
        query.integer(std::chrono::duration_cast<std::chrono::microseconds>(time).count())
            .text(last->name);
    }
    if (!prefix.empty()) {
        std::string end = prefix;
        ++end.back();
        query.text(std::move(prefix)).text(std::move(end));
    }
    return server_read(store_, std::move(reads), [](const SqlResults& results) {
        std::vector<ListedTape> tapes;
        for (int row = 0; row < results[0].rows(); ++row) {
            ListedTape tape;
            tape.name = results[0].string(row, 0);
            tape.bytes = static_cast<std::uintmax_t>(results[0].integer(row, 1));
            // Rounded, so that a page continues exactly after the tape.
            tape.modified +=
                std::chrono::microseconds(std::llround(results[0].number(row, 2) * 1e6));
            try {
                tape.state = read_state_of(tape.name, results[0].text(row, 3));
            } catch (const cubepi::CheckpointCorruptionError&) {
                tape.state.reset();  // reported to those who need it
            }
            tapes.push_back(std::move(tape));
        }
        return tapes;
    });
}

Task<void> PostgresTapeStore::remove_tape(std::string tape) {
    const StorePtr store = store_;
    check_tape_name(tape);
    const std::string where = location();
    SqlBatch reads;
    // Those that begin with TAPE__, by the index: a character of the next value follows '_'.
    reads.add("SELECT tape FROM bub_tapes WHERE tape >= $1 || '__' AND tape < $1 || '_`'")
        .text(tape);
    auto read_names = [](const SqlResults& results) {
        std::vector<std::string> found;
        for (int row = 0; row < results[0].rows(); ++row)
            found.push_back(results[0].string(row, 0));
        return found;
    };
    Task<std::vector<std::string>> listing =
        server_read(store, std::move(reads), std::move(read_names));
    co_await turns_->close_dead_turns(tape, use_);
    std::vector<std::string> names = co_await std::move(listing);
    std::vector<std::string> tapes = sidecars_of(tape, std::move(names));
    tapes.insert(tapes.begin(), tape);
    SqlPlan plan;
    plan.locks = tapes;
    plan.removes = true;
    plan.reads.add("SELECT EXISTS (SELECT 1 FROM bub_turns WHERE tape {any $1})").texts(tapes);
    plan.reads
        .add("SELECT EXISTS (SELECT 1 FROM bub_open WHERE tape = $1 AND " + is_alive_sql("owner") +
             ")")
        .text(tape);
    auto decide = [tapes, where](const SqlView& view, SqlBatch& writes) {
        const std::string& name = tapes.front();
        const bool busy = view.results[0].boolean(0, 0);
        if (busy || view.results[1].boolean(0, 0)) {
            throw cubepi::CheckpointerLockTimeoutError(
                cubepi::ErrorCode::storage_locked,
                (busy ? "a turn is in progress on tape '" : "another process has the tape '") +
                    name + (busy ? "' (" : "' open (") + where +
                    "); wait for its end, or end that process");
        }
        for (const std::string& one : tapes) {
            writes.add("DELETE FROM bub_tapes WHERE tape = $1").text(one);
            writes.add("DELETE FROM bub_open WHERE tape = $1").text(one);
        }
    };
    const std::shared_ptr<LateEdits> late = late_;
    co_await server_write(store, std::move(plan), std::move(decide));
    std::vector<LateEdits::Edit> dropped;
    late->take(tape, dropped);
}

Task<std::shared_ptr<const void>> PostgresTapeStore::open_tape(std::string tape) {
    check_tape_name(tape);
    return turns_->open_tape(std::move(tape));
}

Task<std::shared_ptr<const void>> PostgresTapeStore::hold(std::string name) {
    const std::shared_ptr<SqlPool> locks = locks_;
    Task<std::unique_ptr<SqlLease>> lease = translated(locks, locks->acquire(), name);
    // Until the lease ends, which closes the connection in the middle of the transaction.
    const std::shared_ptr<SqlLease> held = co_await std::move(lease);
    SqlBatch lock;
    lock.add("BEGIN");
    locks->add_settings(lock, *held);
    // The transaction is idle while the lock is held.
    lock.add("SET LOCAL idle_in_transaction_session_timeout = 0");
    lock.add("SELECT pg_advisory_xact_lock(hashtext('bub.hold'), hashtext($1))").text(name);
    (void)co_await translated(locks, (*held)->exchange(std::move(lock)), name);
    std::shared_ptr<const void> result = held;
    co_return result;
}

Task<bool> PostgresTapeStore::has_open_turn(std::string tape) {
    return turns_->has_open_turn(std::move(tape));
}

std::shared_ptr<TurnJournal> PostgresTapeStore::open_journal(const std::string& tape,
                                                             const std::string& turn_id) {
    check_tape_name(tape);
    return turns_->open_journal(tape, turn_id, use_);
}

Task<std::vector<std::string>> PostgresTapeStore::all_tapes() {
    SqlBatch reads;
    // Killed in its first turn, a session has left a journal and no entries yet.
    reads.add(
        "SELECT tape FROM bub_tapes WHERE last_id > 0 OR tape IN (SELECT tape FROM bub_turns)"
        " ORDER BY tape");
    return server_read(store_, std::move(reads), [](const SqlResults& results) {
        std::vector<std::string> names;
        for (int row = 0; row < results[0].rows(); ++row)
            names.push_back(results[0].string(row, 0));
        return names;
    });
}

Task<std::vector<TapeEntry>> PostgresTapeStore::fetch(std::string tape, TapeQuery query) {
    const TurnsPtr turns = turns_;
    const UsePtr use = use_;
    const ReadsPtr reads = reads_;
    std::vector<TapeEntry> found;
    std::function<bool(const TapeEntry&)> add = [&found](const TapeEntry& entry) {
        found.push_back(entry);
        return true;
    };
    std::function<bool()> restart = [&found] {
        found.clear();
        return true;
    };
    std::function<void(std::int64_t)> see_end = end_check(reads, tape);
    co_await visit_pages(turns, use, std::move(tape), std::move(query), std::move(add),
                         std::move(restart), std::move(see_end));
    co_return found;
}

Task<void> PostgresTapeStore::visit(std::string tape, TapeQuery query,
                                    std::function<bool(const TapeEntry&)> visit) {
    const auto visited = std::make_shared<bool>(false);
    std::function<bool(const TapeEntry&)> note =
        [visited, visit = std::move(visit)](const TapeEntry& entry) {
            *visited = true;
            return visit(entry);
        };
    std::function<bool()> restart = [visited] { return !*visited; };
    std::function<void(std::int64_t)> see_end = end_check(reads_, tape);
    return visit_pages(turns_, use_, std::move(tape), std::move(query), std::move(note),
                       std::move(restart), std::move(see_end));
}

Task<TapePosition> PostgresTapeStore::append(std::string tape, std::vector<TapeEntry> entries,
                                             TapeAppend options) {
    return append_and_edit(std::move(tape), std::move(entries), std::move(options), {});
}

Task<TapePosition> PostgresTapeStore::append_and_edit(std::string tape,
                                                      std::vector<TapeEntry> entries,
                                                      TapeAppend options,
                                                      std::function<void(JsonObject&)> edit) {
    const TurnsPtr turns = turns_;
    const StorePtr store = store_;
    const UsePtr use = use_;
    const ReadsPtr reads = reads_;
    std::shared_ptr<TakenEdits> late;
    if (edit) late = std::make_shared<TakenEdits>(late_, late_key(tape, use->lease()));
    co_await turns->look(tape, use);
    const std::string turn = options.turn();
    SqlPlan plan = use->plan(tape, turn);
    const bool must_be_open = options.turn_must_be_open() && turns->has_journal({tape, turn});
    const std::shared_ptr<const TapeRow> known = use->take_row(tape);
    plan.known = must_be_open ? turns->known(tape, known, turn, true) : turns->known(tape, known);
    const std::shared_ptr<cubepi::Clock> clock = store->options().runtime->clock;
    const auto after = std::make_shared<TapeRow>();
    LeasedReads::Write noted(reads, tape);
    auto decide = [tape, entries = std::move(entries), options = std::move(options), clock, turns,
                   late, edit = state_edit(std::move(edit)), lease = use->lease(), known,
                   must_be_open, after](const SqlView& view, SqlBatch& writes) {
        TapeRow row = row_in(tape, view, known);
        if (must_be_open && view.object.rows() > 0)
            turns->check_open(tape, options.turn(), turn_owner(view.object), lease.has_value());
        JsonObject edited = row.state;
        if (late) (void)edit_once(tape, edited, *late, edit, lease);
        const TapePosition end = write_append(writes, tape, row, entries, options, clock->wall(),
                                              late ? &edited : nullptr);
        if (!options.turn().empty()) delete_turn(writes, tape, key_of(options.turn()));
        if (late) row.state = std::move(edited);
        // An append of nothing is rolled back.
        if (writes.empty()) row.write_id.clear();
        *after = std::move(row);
        return end;
    };
    const TapePosition end =
        co_await server_write(use->transactions(), std::move(plan), std::move(decide));
    // First: an edit that was made is not made again, whatever fails.
    if (late) late->set_stored();
    if (!turn.empty()) turns->note_removed(tape, turn);
    note_written(*use, tape, *after);
    noted.set_stored(std::move(*after));
    co_return end;
}

Task<TapePosition> PostgresTapeStore::position(std::string tape) {
    Task<TapeRow> reading = reads_ ? reads_->recent_row(std::move(tape))
                                   : current_row(turns_, use_, reads_, std::move(tape));
    const TapeRow row = co_await std::move(reading);
    co_return row.end;
}

Task<TapeInfo> PostgresTapeStore::info(std::string tape) {
    TapeRow row = co_await current_row(turns_, use_, reads_, std::move(tape));
    co_return std::move(row.info);
}

Task<std::vector<TapeEntry>> PostgresTapeStore::anchors(std::string tape, std::size_t limit) {
    if (reads_ && limit == 1) return last_anchor(reads_, std::move(tape));
    SqlQuery query(
        "SELECT line FROM bub_entries WHERE tape = $1 AND kind = 'anchor'"
        " ORDER BY id DESC LIMIT $2");
    constexpr std::size_t most = std::numeric_limits<std::int64_t>::max();
    query.text(tape).integer(static_cast<std::int64_t>(std::min(limit, most)));
    auto in_order = [](const SqlResult& result) {
        std::vector<TapeEntry> entries = read_entries(result);
        std::reverse(entries.begin(), entries.end());
        return entries;
    };
    return read_after_look(turns_, use_, std::move(tape), std::move(query), std::move(in_order));
}

Task<Json> PostgresTapeStore::edit_state(std::string tape,
                                         std::function<Json(JsonObject& state)> edit) {
    const UsePtr use = use_;
    const auto late = std::make_shared<TakenEdits>(late_, late_key(tape, use->lease()));
    SqlPlan plan = use->plan(tape);
    const std::shared_ptr<const TapeRow> known = use->take_row(tape);
    plan.known = PgTapeTurns::known(tape, known);
    const auto after = std::make_shared<TapeRow>();
    LeasedReads::Write noted(reads_, tape);
    auto decide = [tape, edit = std::move(edit), late, lease = use->lease(), known, after](
                      const SqlView& view, SqlBatch& writes) {
        check_tape_name(tape);
        *after = row_in(tape, view, known);
        JsonObject& state = after->state;
        Json result = edit_once(tape, state, *late, edit, lease);
        write_state(writes, tape, state, after->write_id);
        return result;
    };
    Json result = co_await server_write(use->transactions(), std::move(plan), std::move(decide));
    late->set_stored();
    note_written(*use, tape, *after);
    noted.set_stored(std::move(*after));
    co_return result;
}

void PostgresTapeStore::edit_state_later(const std::string& tape,
                                         std::function<void(JsonObject& state)> edit) {
    late_->add(late_key(tape, use_->lease()), std::move(edit));
}

Task<JsonObject> PostgresTapeStore::read_state(std::string tape) {
    if (reads_) {
        TapeRow row = co_await reads_->read_row(std::move(tape));
        co_return std::move(row.state);
    }
    const StorePtr store = store_;
    SqlBatch reads;
    reads.add(select_tape(tape));
    const SqlResults results = co_await store->read(std::move(reads));
    TapeRow row = read_tape_row(tape, results[0]);
    co_return std::move(row.state);
}

Task<cubepi::QuestionPage> PostgresTapeStore::list_requests(cubepi::QuestionQuery query) {
    const StorePtr store = store_;
    InboxBuilder inbox(std::move(query));
    SqlBatch reads;
    reads.add("SELECT tape, state FROM bub_tapes WHERE has_requests");
    const SqlResults results = co_await store->read(std::move(reads));
    for (int row = 0; row < results[0].rows(); ++row) {
        const std::string tape = results[0].string(row, 0);
        inbox.add(tape, read_state_of(tape, results[0].text(row, 1)));
    }
    co_return inbox.page();
}

Task<std::optional<TapeEntry>> PostgresTapeStore::find(std::string tape, TapeKey key,
                                                       std::string value) {
    TapeLookup lookup{key, std::move(value)};
    if (reads_) return reads_->find(std::move(tape), std::move(lookup));
    std::vector<TapeLookup> lookups(1, std::move(lookup));
    SqlQuery query = select_newest(tape, lookups);
    auto first = [](const SqlResult& result) { return read_entry(result, 0); };
    return read_after_look(turns_, use_, std::move(tape), std::move(query), first);
}

Task<std::string> PostgresTapeStore::put_media(std::string bytes) {
    std::string sha256 = cubepi::detail::sha256_hex(bytes);
    auto decide = [sha256, bytes = std::move(bytes)](const SqlView&, SqlBatch& writes) {
        writes.add("INSERT INTO bub_media (sha256, bytes) VALUES ($1, $2) {skip}")
            .text(sha256)
            .bytes(bytes);
        return sha256;
    };
    return server_write(store_, SqlPlan(), std::move(decide));
}

Task<std::optional<std::string>> PostgresTapeStore::get_media(std::string sha256) {
    SqlBatch reads;
    reads.add("SELECT bytes FROM bub_media WHERE sha256 = $1").text(sha256);
    return server_read(store_, std::move(reads), [](const SqlResults& results) {
        std::optional<std::string> bytes;
        if (results[0].rows() > 0) bytes = results[0].string(0, 0);
        return bytes;
    });
}

}  // namespace bub
