#include <bub/tape/postgres/leased_reads.hpp>

#include <algorithm>
#include <chrono>
#include <utility>

#include <bub/tape/entry/entry_fields.hpp>

// The reads of the store of one turn (D269).

namespace bub::detail {

using cubepi::detail::SqlQuery;
using cubepi::detail::SqlResults;
using cubepi::detail::SqlStore;

namespace {

/// Much less than the time for which a claim is valid without being renewed, in which no other process supersedes it (D50).
constexpr std::chrono::seconds oldest_row{5};

/// More keys than a turn looks up; a tool may look up any number.
constexpr std::size_t most_found = 100;

/// Returns true if no entry was appended between the reads of the rows, and the tape was not emptied.
bool has_same_entries(const TapeRow& a, const TapeRow& b) {
    return a.end.last_id == b.end.last_id && a.end.messages == b.end.messages && a.bytes == b.bytes;
}

/// The column of select_tapes() that says whether there are turns on the tape.
constexpr int has_turns_column = 7;

/// Adds the read of the rows of the tapes, in their order.
void select_tapes(SqlBatch& batch, const std::vector<std::string>& tapes) {
    batch
        .add(tape_row_sql(
                 ", (SELECT 1 FROM bub_turns AS r WHERE r.tape = w.tape LIMIT 1) IS NOT NULL",
                 "unnest($1::text[]) WITH ORDINALITY AS w (tape, place)") +
             " ORDER BY place")
        .texts(tapes);
}

/// Returns the SQL of the newest line on the tape $1 with the condition.
std::string newest_line(const std::string& condition) {
    return "(SELECT line FROM bub_entries WHERE tape = $1 AND " + condition +
           " ORDER BY id DESC LIMIT 1)";
}

const char* word_of(TapeKey key) {
    switch (key) {
        case TapeKey::message: return "message";
        case TapeKey::event: return "event";
        case TapeKey::run: break;
    }
    return "run";
}

}  // namespace

SqlQuery select_newest(const std::string& tape, const std::vector<TapeLookup>& lookups,
                       bool with_anchor) {
    static const std::string sql =
        "SELECT CASE u.key WHEN 'message' THEN " +
        newest_line(
            "id = (SELECT max(id) FROM bub_message_ids WHERE tape = $1 AND message_key ="
            " u.value)") +
        " WHEN 'event' THEN " + newest_line("kind = 'event' AND name_key = u.value") +
        " WHEN 'run' THEN " + newest_line("run_key = u.value") + " ELSE " +
        newest_line("kind = 'anchor'") +
        " END FROM unnest($2::text[], $3::text[]) WITH ORDINALITY AS u (key, value, place)"
        " ORDER BY place";
    std::vector<std::string> keys;
    std::vector<std::string> values;
    for (const TapeLookup& lookup : lookups) {
        keys.emplace_back(word_of(lookup.key));
        values.push_back(key_of(lookup.value));
    }
    if (with_anchor) {
        keys.emplace_back("anchor");
        values.emplace_back();
    }
    return SqlQuery(sql).text(tape).texts(std::move(keys)).texts(std::move(values));
}

std::optional<TapeEntry> read_entry(const SqlResult& result, int row) {
    if (row >= result.rows() || result.is_null(row, 0)) return std::nullopt;
    return read_tape_line(result.text(row, 0));
}

LeasedReads::LeasedReads(std::shared_ptr<SqlStore> store, std::shared_ptr<PgTapeTurns> turns,
                         std::shared_ptr<TapeUse> use)
    : store_(std::move(store)), turns_(std::move(turns)), use_(std::move(use)) {
    // Those of TapeCheckpointer, with which each turn begins.
    for (const std::string_view name : {extra_changes_event, extra_event, fork_event})
        lookups_.push_back(TapeLookup{TapeKey::event, std::string(name)});
}

void LeasedReads::expect(std::vector<TapeLookup> lookups, std::vector<std::string> tapes) {
    const std::lock_guard lock(mutex_);
    for (TapeLookup& lookup : lookups) {
        if (std::find(lookups_.begin(), lookups_.end(), lookup) == lookups_.end())
            lookups_.push_back(std::move(lookup));
    }
    for (std::string& tape : tapes) tapes_.insert(std::move(tape));
}

Task<std::optional<TapeEntry>> LeasedReads::find(std::string tape, TapeLookup lookup) {
    const auto self = shared_from_this();
    co_await prepare(tape);
    {
        const std::lock_guard lock(mutex_);
        const Known& known = known_of(tape);
        if (const auto found = known.found.find(lookup); found != known.found.end())
            co_return found->second;
    }
    const Moment moment = begin_read(tape);
    SqlBatch reads;
    std::vector<TapeLookup> lookups(1, lookup);
    reads.add(select_newest(tape, lookups));
    const SqlResults results = co_await store_->read(std::move(reads));
    std::optional<TapeEntry> entry = read_entry(results[0], 0);
    const std::lock_guard lock(mutex_);
    if (Known* const known = known_since(tape, moment))
        note_found(*known, std::move(lookup), entry);
    co_return entry;
}

Task<std::optional<TapeEntry>> LeasedReads::last_anchor(std::string tape) {
    const auto self = shared_from_this();
    co_await prepare(tape);
    {
        const std::lock_guard lock(mutex_);
        const Known& known = known_of(tape);
        if (known.last_anchor) co_return *known.last_anchor;
    }
    const Moment moment = begin_read(tape);
    SqlBatch reads;
    reads.add(select_newest(tape, {}, true));
    const SqlResults results = co_await store_->read(std::move(reads));
    std::optional<TapeEntry> entry = read_entry(results[0], 0);
    const std::lock_guard lock(mutex_);
    if (Known* const known = known_since(tape, moment)) known->last_anchor.emplace(entry);
    co_return entry;
}

Task<TapeRow> LeasedReads::recent_row(std::string tape) {
    const auto self = shared_from_this();
    std::optional<TapeRow> known = known_row(tape);
    if (!known) {
        co_await prepare(tape);
        known = known_row(tape);
    }
    if (known) co_return std::move(*known);
    co_return co_await read_row(std::move(tape));
}

Task<TapeRow> LeasedReads::read_row(std::string tape) {
    const auto self = shared_from_this();
    std::optional<TapeRow> first = known_row(tape, true);
    if (first) co_return std::move(*first);
    const Moment moment = begin_read(tape);
    SqlBatch reads;
    reads.add(select_tape(tape));
    const SqlResults results = co_await store_->read(std::move(reads));
    TapeRow row = read_tape_row(tape, results[0]);
    use_->note_row(tape, row);
    const std::lock_guard lock(mutex_);
    if (Known* const known = known_since(tape, moment)) note_row(*known, row, moment.begun);
    co_return row;
}

Task<> LeasedReads::prepare(std::string tape) {
    std::vector<std::string> tapes(1, tape);
    std::vector<TapeLookup> lookups;
    {
        const std::lock_guard lock(mutex_);
        if (known_of(tape).is_prepared) co_return;
        lookups = lookups_;
        for (const std::string& other : tapes_)
            if (other != tape && !known_of(other).row) tapes.push_back(other);
    }
    const std::vector<std::string> open = co_await read_expected(std::move(tapes), lookups);
    for (const std::string& one : open) co_await turns_->look(one, use_);
    if (open.empty() || open.front() != tape) co_return;
    // With the entries of the turns that were closed.
    std::vector<std::string> once(1, std::move(tape));
    (void)co_await read_expected(std::move(once), std::move(lookups));
}

Task<std::vector<std::string>> LeasedReads::read_expected(std::vector<std::string> tapes,
                                                          std::vector<TapeLookup> lookups) {
    std::vector<Moment> moments;
    for (const std::string& tape : tapes) moments.push_back(begin_read(tape));
    SqlBatch reads;
    select_tapes(reads, tapes);
    reads.add(select_newest(tapes.front(), lookups, true));
    const SqlResults results = co_await store_->read(std::move(reads));
    std::vector<std::string> open;
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < tapes.size(); ++i) {
        const std::string& tape = tapes[i];
        const int row = static_cast<int>(i);
        const bool has_turns = results[0].boolean(row, has_turns_column);
        const bool is_new = !use_->has_looked(tape);
        if (is_new && has_turns) open.push_back(tape);
        if (is_new && !has_turns) use_->note_looked(tape);
        // The tape has other entries when its turns are closed.
        if (is_new && has_turns) continue;
        TapeRow found = read_tape_row(tape, results[0], row);
        use_->note_row(tape, found);
        if (Known* const known = known_since(tape, moments[i]))
            note_row(*known, std::move(found), moments[i].begun);
    }
    Known* const known = known_since(tapes.front(), moments.front());
    const bool is_open = !open.empty() && open.front() == tapes.front();
    if (!known || is_open) co_return open;
    known->is_prepared = true;
    // After a write, or after turns were closed, questions are read from the server.
    known->is_first_row = known->moment == 0;
    int line = 0;
    for (TapeLookup& lookup : lookups)
        note_found(*known, std::move(lookup), read_entry(results[1], line++));
    known->last_anchor.emplace(read_entry(results[1], line));
    co_return open;
}

LeasedReads::Moment LeasedReads::begin_read(const std::string& tape) {
    const std::lock_guard lock(mutex_);
    return Moment{known_of(tape).moment, store_->options().runtime->clock->now()};
}

LeasedReads::Known& LeasedReads::known_of(const std::string& tape) {
    Known& known = known_[tape];
    const std::uint64_t closings = use_->closings(tape);
    if (known.closings == closings) return known;
    forget(known);
    known.is_prepared = false;
    known.closings = closings;
    ++known.moment;
    return known;
}

std::function<void(std::int64_t last_id)> LeasedReads::end_check(const std::string& tape) {
    return [self = shared_from_this(), tape, moment = begin_read(tape)](std::int64_t last_id) {
        const std::lock_guard lock(self->mutex_);
        Known* const known = self->known_since(tape, moment);
        if (known && known->row && known->row->end.last_id != last_id) forget(*known);
    };
}

LeasedReads::Known* LeasedReads::known_since(const std::string& tape, const Moment& moment) {
    Known& known = known_of(tape);
    return known.moment == moment.of_tape ? &known : nullptr;
}

void LeasedReads::note_row(Known& known, TapeRow row, Time time) {
    if (!known.row || !has_same_entries(*known.row, row)) {
        known.found.clear();
        known.last_anchor.reset();
    }
    known.row = std::move(row);
    known.row_time = time;
    known.is_first_row = false;
}

void LeasedReads::note_found(Known& known, TapeLookup lookup, std::optional<TapeEntry> entry) {
    if (known.found.size() >= most_found) known.found.clear();
    known.found.insert_or_assign(std::move(lookup), std::move(entry));
}

std::optional<TapeRow> LeasedReads::known_row(const std::string& tape, bool must_be_first) {
    const Time now = store_->options().runtime->clock->now();
    const std::lock_guard lock(mutex_);
    const Known& known = known_of(tape);
    if (!known.row || now - known.row_time > oldest_row) return std::nullopt;
    if (must_be_first && !known.is_first_row) return std::nullopt;
    return known.row;
}

void LeasedReads::forget(Known& known) {
    known.row.reset();
    known.last_anchor.reset();
    known.found.clear();
}

LeasedReads::Write::Write(std::shared_ptr<LeasedReads> reads, std::string tape)
    : reads_(std::move(reads)), tape_(std::move(tape)) {
    if (!reads_) return;
    begun_ = reads_->store_->options().runtime->clock->now();
    const std::lock_guard lock(reads_->mutex_);
    moment_ = ++reads_->known_of(tape_).moment;
}

LeasedReads::Write::~Write() {
    if (!reads_ || has_ended_) return;
    const std::lock_guard lock(reads_->mutex_);
    Known& known = reads_->known_of(tape_);
    forget(known);
    ++known.moment;
}

void LeasedReads::Write::set_stored(TapeRow row) {
    if (!reads_) return;
    has_ended_ = true;
    const std::lock_guard lock(reads_->mutex_);
    Known& known = reads_->known_of(tape_);
    if (known.moment == moment_) {
        reads_->note_row(known, std::move(row), begun_);
    } else {
        // Another write has overlapped: the last one to end need not be the last one that was stored.
        forget(known);
    }
    ++known.moment;
}

}  // namespace bub::detail
