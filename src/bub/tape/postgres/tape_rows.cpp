#include <algorithm>
#include <limits>
#include <utility>

#include <bub/tape/checkpointer/side_state.hpp>
#include <bub/tape/entry/entry_facts.hpp>
#include <bub/tape/postgres/tape_tables.hpp>
#include <bub/tape/search/query_filter.hpp>
#include <bub/tape/support/encoding.hpp>
#include <bub/tape/tape_store_support.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/support/digest.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/schema/json_text.hpp>
#include <cubepi/schema/parse_json.hpp>

// Rows of the tables of tapes, and the statements that read and write them.

namespace bub::detail {

using cubepi::detail::SqlResults;
using cubepi::detail::SqlStore;

namespace {

constexpr std::int64_t end_of_ids = std::numeric_limits<std::int64_t>::max();

JsonObject object_of(const std::string& tape, const char* column, std::string_view text) {
    cubepi::JsonTextError error;
    Json value = cubepi::parse_json(text, error);
    if (!error && value.is_object()) return std::move(value.get_object());
    throw cubepi::CheckpointCorruptionError(
        "the column " + std::string(column) + " of tape '" + tape +
            "' in bub_tapes is not a JSON object; repair or delete that row",
        tape, "postgres", std::string("bub_tapes.") + column);
}

std::int64_t integer_of(const JsonObject& object, std::string_view key) {
    return cubepi::detail::integer_member(object, key).value_or(0);
}

TapeInfo info_of(const JsonObject& object) {
    TapeInfo info;
    info.entries = integer_of(object, "entries");
    info.anchors = integer_of(object, "anchors");
    info.entries_since_last_anchor = integer_of(object, "entries_since_last_anchor");
    if (const Json* name = object.if_contains("last_anchor"); name && name->is_string())
        info.last_anchor = std::string(name->get_string());
    if (object.contains("last_token_usage"))
        info.last_token_usage = integer_of(object, "last_token_usage");
    if (const Json* rate = object.if_contains("last_token_cache_hit_rate");
        rate && rate->is_number()) {
        info.last_token_cache_hit_rate = rate->to_number<double>();
    }
    return info;
}

std::string text_of(const TapeInfo& info) {
    JsonObject object;
    object["entries"] = info.entries;
    object["anchors"] = info.anchors;
    object["entries_since_last_anchor"] = info.entries_since_last_anchor;
    if (info.last_anchor) object["last_anchor"] = *info.last_anchor;
    if (info.last_token_usage) object["last_token_usage"] = *info.last_token_usage;
    if (info.last_token_cache_hit_rate)
        object["last_token_cache_hit_rate"] = *info.last_token_cache_hit_rate;
    return cubepi::json_text(object);
}

std::int64_t has_requests(const std::string& tape, const JsonObject& state) {
    return pending_requests(tape, state).empty() ? 0 : 1;
}

}  // namespace

std::string key_of(std::string_view name) { return cubepi::detail::md5_hex(name); }

void select_tape(SqlBatch& batch, const std::string& tape) {
    batch.add("SELECT last_id, messages, info, state, bytes FROM bub_tapes WHERE tape = $1")
        .text(tape);
}

TapeRow read_tape_row(const std::string& tape, const SqlResult& result) {
    TapeRow row;
    if (result.rows() == 0) return row;
    row.exists = true;
    row.end.last_id = result.integer(0, 0);
    row.end.messages = result.integer(0, 1);
    row.info = info_of(object_of(tape, "info", result.text(0, 2)));
    row.state = object_of(tape, "state", result.text(0, 3));
    row.bytes = result.integer(0, 4);
    return row;
}

JsonObject read_state_of(const std::string& tape, std::string_view text) {
    return object_of(tape, "state", text);
}

void write_state(SqlBatch& batch, const std::string& tape, const JsonObject& state) {
    batch
        .add(
            "INSERT INTO bub_tapes (tape, state, has_requests) VALUES ($1, $2, $3 <> 0)"
            " {replace tape: state, has_requests}")
        .text(tape)
        .text(cubepi::json_text(state))
        .integer(has_requests(tape, state));
}

namespace {

/// Stores the end of a tape and its summary, and its side state unless `edited` is null, creating its row.
void write_tape(SqlBatch& batch, const std::string& tape, const TapeRow& row,
                const JsonObject* edited) {
    const std::string more = edited ? ", state, has_requests" : "";
    auto& query = batch.add("INSERT INTO bub_tapes (tape, last_id, messages, info, bytes" + more +
                            ") VALUES ($1, $2, $3, $4, $5" + (edited ? ", $6, $7 <> 0" : "") +
                            ") {replace tape: last_id, messages, info, bytes" + more + "}");
    query.text(tape)
        .integer(row.end.last_id)
        .integer(row.end.messages)
        .text(text_of(row.info))
        .integer(row.bytes);
    if (edited) query.text(cubepi::json_text(*edited)).integer(has_requests(tape, *edited));
}

void write_entry(SqlBatch& batch, const std::string& tape, const TapeEntry& entry,
                 const EntryFacts& facts, std::string_view line) {
    batch
        .add(
            "INSERT INTO bub_entries (tape, id, kind, name_key, run_key, line)"
            " VALUES ($1, $2, $3, $4, $5, $6)")
        .text(tape)
        .integer(entry.id)
        .text(entry.kind)
        .text_or_null(facts.anchor || facts.event ? key_of(facts.name) : std::string())
        .text_or_null(facts.run_id.empty() ? std::string() : key_of(facts.run_id))
        .text(line);
    for (const std::string& id : facts.message_ids) {
        batch.add("INSERT INTO bub_message_ids (tape, message_key, id) VALUES ($1, $2, $3) {skip}")
            .text(tape)
            .text(key_of(id))
            .integer(entry.id);
    }
}

}  // namespace

TapePosition write_append(SqlBatch& batch, const std::string& tape, TapeRow& row,
                          std::vector<TapeEntry> entries, const TapeAppend& options,
                          std::chrono::system_clock::time_point now, const JsonObject* edited) {
    TapeBefore before{row.end, row.info.anchors > 0, row.state};
    row.end = prepare_append(tape, before, entries, options, now);
    const bool is_empty = entries.empty() && !options.reset();
    if (is_empty && edited) write_state(batch, tape, *edited);
    if (is_empty) return row.end;
    if (options.reset()) {
        row.info = TapeInfo();
        row.bytes = 0;
        batch.add("DELETE FROM bub_message_ids WHERE tape = $1").text(tape);
        batch.add("DELETE FROM bub_entries WHERE tape = $1").text(tape);
    }
    SqlBatch inserts;
    for (const TapeEntry& entry : entries) {
        const EntryFacts facts = facts_of(entry);
        add_to(row.info, facts);
        std::string line = tape_line(entry);
        row.bytes += static_cast<std::int64_t>(line.size());
        line.pop_back();  // the line feed
        write_entry(inserts, tape, entry, facts, line);
    }
    write_tape(batch, tape, row, edited);
    batch.add_all(inserts);
    return row.end;
}

std::vector<TapeEntry> read_entries(const SqlResult& result) {
    std::vector<TapeEntry> entries;
    entries.reserve(static_cast<std::size_t>(result.rows()));
    for (int row = 0; row < result.rows(); ++row) {
        if (auto entry = read_tape_line(result.text(row, 0))) entries.push_back(std::move(*entry));
    }
    return entries;
}

// Entries are read in pages.

namespace {

constexpr std::int64_t page_size = 1000;
constexpr int most_attempts = 10;

/// The ids that a slice selects: those between `low` and `high`, without them.
struct IdRange {
    std::int64_t low = 0;
    std::int64_t high = 0;
};

/// The id of the last anchor of the slice, as SQL.
std::string last_anchor_sql(const TapeQuery& query) {
    const std::string anchors =
        "(SELECT max(id) FROM bub_entries WHERE tape = $1 AND kind = 'anchor'";
    return anchors + (query.slice() == TapeQuery::Slice::last_anchor ? ")" : " AND name_key = $2)");
}

/// Selects the bounds of the query's slice.
void select_bounds(SqlBatch& batch, const std::string& tape, const TapeQuery& query) {
    const std::string low = last_anchor_sql(query);
    std::string high = "NULL";
    if (query.slice() == TapeQuery::Slice::between_anchors) {
        high =
            "(SELECT min(id) FROM bub_entries WHERE tape = $1 AND kind = 'anchor'"
            " AND name_key = $3 AND id > " +
            low + ")";
    }
    batch.add("SELECT " + low + "::bigint, " + high + "::bigint")
        .text(tape)
        .text(key_of(query.first_anchor()))
        .text(key_of(query.second_anchor()));
}

/// Throws Error(not_found) if an anchor of the slice is missing.
IdRange read_bounds(const SqlResult& result, const TapeQuery& query) {
    if (result.is_null(0, 0)) throw_no_start(query);
    IdRange range;
    range.low = result.integer(0, 0) - (query.with_anchor() ? 1 : 0);
    range.high = end_of_ids;
    if (query.slice() != TapeQuery::Slice::between_anchors) return range;
    if (result.is_null(0, 1)) throw_no_anchor(query.second_anchor());
    range.high = result.integer(0, 1);
    return range;
}

/// Selects at most `limit` entries of a range, of the kinds of the query, in its order.
void select_page(SqlBatch& batch, const std::string& tape, const IdRange& range,
                 const TapeQuery& query, std::int64_t limit) {
    std::string sql = "SELECT line FROM bub_entries WHERE tape = $1 AND id > $2 AND id < $3";
    if (!query.kinds().empty()) sql += " AND kind {any $5}";
    sql += query.newest_first() ? " ORDER BY id DESC" : " ORDER BY id";
    cubepi::detail::SqlQuery& page = batch.add(sql + " LIMIT $4");
    page.text(tape).integer(range.low).integer(range.high).integer(limit);
    if (!query.kinds().empty()) page.texts(query.kinds());
}

/// Selects the first page of a slice that has no end, in one statement with its bound.
void select_first_page(SqlBatch& batch, const std::string& tape, const TapeQuery& query,
                       std::int64_t limit) {
    std::string sql =
        "SELECT line FROM bub_entries WHERE tape = $1 AND id > " + last_anchor_sql(query) + " - $3";
    if (!query.kinds().empty()) sql += " AND kind {any $5}";
    sql += query.newest_first() ? " ORDER BY id DESC" : " ORDER BY id";
    cubepi::detail::SqlQuery& page = batch.add(sql + " LIMIT $4");
    page.text(tape).text(key_of(query.first_anchor())).integer(query.with_anchor() ? 1 : 0);
    page.integer(limit);
    if (!query.kinds().empty()) page.texts(query.kinds());
}

/// The end of a tape, and the transaction that wrote its oldest entry: another one if the tape was reset in between.
struct TapeMoment {
    std::optional<std::string> first = {};
    std::int64_t last_id = 0;
};

void select_moment(SqlBatch& batch, const std::string& tape) {
    batch
        .add(
            "SELECT (SELECT xmin::text FROM bub_entries WHERE tape = $1 ORDER BY id LIMIT 1),"
            " coalesce((SELECT last_id FROM bub_tapes WHERE tape = $1), 0)")
        .text(tape);
}

TapeMoment read_moment(const SqlResult& result) {
    TapeMoment moment;
    moment.first = result.optional_string(0, 0);
    moment.last_id = result.integer(0, 1);
    return moment;
}

/// The progress of one read of a tape.
class PageReader {
public:
    PageReader(std::string tape, TapeQuery query, std::function<void(std::int64_t last_id)> see_end)
        : tape_(std::move(tape)),
          query_(std::move(query)),
          filter_(query_),
          see_end_(std::move(see_end)) {
        range_.high = end_of_ids;
    }

    bool has_slice() const { return query_.slice() != TapeQuery::Slice::all; }
    /// Selects the bounds of the slice, and its first page, unless the end of the slice has to be known before.
    void select_slice(SqlBatch& reads) {
        select_moment(reads, tape_);
        select_bounds(reads, tape_, query_);
        limit_ = limit();
        if (has_first_page()) select_first_page(reads, tape_, query_, limit_);
    }
    /// Returns false if the first page was the last one.
    bool read_slice(const SqlResults& results, const std::function<bool(const TapeEntry&)>& visit) {
        range_ = read_bounds(results[1], query_);
        begin(read_moment(results[0]));
        return !has_first_page() || visit_page(results[2], visit);
    }

    bool is_full() const { return filter_.full(); }
    void select(SqlBatch& reads) {
        limit_ = limit();
        select_moment(reads, tape_);
        select_page(reads, tape_, range_, query_, limit_);
    }
    /// Returns false if the tape was reset.
    bool is_same_tape(const SqlResults& results) {
        TapeMoment now = read_moment(results[0]);
        if (moment_) return now.first == moment_->first;
        begin(std::move(now));
        return true;
    }
    /// Returns false after the last page.
    bool visit_page(const SqlResult& lines, const std::function<bool(const TapeEntry&)>& visit) {
        const std::vector<TapeEntry> entries = read_entries(lines);
        for (const TapeEntry& entry : entries) {
            if (!filter_.fits(entry)) continue;
            if (!filter_.take() || !visit(entry)) return false;
        }
        if (lines.rows() < limit_ || entries.empty()) return false;
        (query_.newest_first() ? range_.high : range_.low) = entries.back().id;
        return true;
    }

private:
    bool has_first_page() const { return query_.slice() != TapeQuery::Slice::between_anchors; }
    std::int64_t limit() const {
        // The database applies the limit only if it knows which entries match.
        const bool is_plain = !query_.dates() && query_.text().empty();
        if (!is_plain || !query_.limit()) return page_size;
        constexpr auto most = static_cast<std::size_t>(page_size);
        return static_cast<std::int64_t>(std::min(*query_.limit(), most));
    }
    void begin(TapeMoment moment) {
        range_.high = std::min(range_.high, moment.last_id + 1);
        if (see_end_) see_end_(moment.last_id);
        moment_ = std::move(moment);
    }

    const std::string tape_;
    const TapeQuery query_;
    QueryFilter filter_;
    const std::function<void(std::int64_t last_id)> see_end_;
    IdRange range_;
    std::int64_t limit_ = page_size;
    std::optional<TapeMoment> moment_;
};

/// Returns false if the tape was reset in between.
Task<bool> read_pages(std::shared_ptr<SqlStore> store, std::string tape, TapeQuery query,
                      std::function<bool(const TapeEntry&)> visit,
                      std::function<void(std::int64_t last_id)> see_end) {
    PageReader reader(std::move(tape), std::move(query), std::move(see_end));
    if (reader.has_slice()) {
        SqlBatch slice;
        reader.select_slice(slice);
        const SqlResults results = co_await store->read(std::move(slice));
        if (!reader.read_slice(results, visit)) co_return true;
    }
    while (!reader.is_full()) {
        SqlBatch reads;
        reader.select(reads);
        const SqlResults results = co_await store->read(std::move(reads));
        if (!reader.is_same_tape(results)) co_return false;
        if (!reader.visit_page(results[1], visit)) co_return true;
    }
    co_return true;
}

}  // namespace

Task<void> visit_pages(std::shared_ptr<SqlStore> store, std::string tape, TapeQuery query,
                       std::function<bool(const TapeEntry&)> visit, std::function<bool()> restart,
                       std::function<void(std::int64_t last_id)> see_end) {
    for (int attempt = 0; attempt < most_attempts; ++attempt) {
        TapeQuery copy = query;
        const bool whole = co_await read_pages(store, tape, std::move(copy), visit, see_end);
        if (whole) co_return;
        if (!restart()) break;
    }
    throw cubepi::CheckpointerError(
        cubepi::ErrorCode::storage,
        "tape '" + tape + "' was emptied while it was read; read it again");
}

}  // namespace bub::detail
