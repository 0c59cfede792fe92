#include <algorithm>
#include <limits>
#include <utility>

#include <bub/tape/checkpointer/side_state.hpp>
#include <bub/tape/entry/entry_fields.hpp>
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

using cubepi::detail::SqlQuery;

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

std::string tape_row_sql(const std::string& more, const std::string& names) {
    return "SELECT t.write_id, {now}, t.last_id, t.messages, t.info, t.state, t.bytes" + more +
           " FROM " + names + " LEFT JOIN bub_tapes AS t ON t.tape = w.tape";
}

SqlQuery select_tape(const std::string& tape) {
    return SqlQuery(tape_row_sql({}, one_tape)).text(tape);
}

TapeRow read_tape_row(const std::string& tape, const SqlResult& result, int at) {
    TapeRow row;
    if (result.is_null(at, 2)) return row;
    row.exists = true;
    row.write_id = result.string(at, 0);
    row.end.last_id = result.integer(at, 2);
    row.end.messages = result.integer(at, 3);
    row.info = info_of(object_of(tape, "info", result.text(at, 4)));
    row.state = object_of(tape, "state", result.text(at, 5));
    row.bytes = result.integer(at, 6);
    return row;
}

TapeRow row_in(const std::string& tape, const cubepi::detail::SqlView& view,
               const std::shared_ptr<const TapeRow>& known) {
    TapeRow row = view.object.rows() > 0 ? read_tape_row(tape, view.object) : *known;
    row.write_id = view.id;
    return row;
}

JsonObject read_state_of(const std::string& tape, std::string_view text) {
    return object_of(tape, "state", text);
}

void write_state(SqlBatch& batch, const std::string& tape, const JsonObject& state,
                 const std::string& write_id) {
    batch
        .add(
            "INSERT INTO bub_tapes (tape, write_id, updated_at, state, has_requests) VALUES ($1,"
            " $2, now(), $3, $4 <> 0) {replace tape: write_id, updated_at, state, has_requests}")
        .text(tape)
        .text(write_id)
        .text(cubepi::json_text(state))
        .integer(has_requests(tape, state));
}

namespace {

/// Stores the end of a tape and its summary, and its side state unless `edited` is null, creating its row.
void write_tape(SqlBatch& batch, const std::string& tape, const TapeRow& row,
                const JsonObject* edited) {
    const std::string more = edited ? ", state, has_requests" : "";
    auto& query = batch.add(
        "INSERT INTO bub_tapes (tape, write_id, updated_at, last_id, messages, info,"
        " bytes" +
        more + ") VALUES ($1, $2, now(), $3, $4, $5, $6" + (edited ? ", $7, $8 <> 0" : "") +
        ") {replace tape: write_id, updated_at, last_id, messages, info, bytes" + more + "}");
    query.text(tape)
        .text(row.write_id)
        .integer(row.end.last_id)
        .integer(row.end.messages)
        .text(text_of(row.info))
        .integer(row.bytes);
    if (edited) query.text(cubepi::json_text(*edited)).integer(has_requests(tape, *edited));
}

/// Entries that one statement inserts, with the ids of their messages, which a second one does.
class EntryRows {
public:
    void add(const TapeEntry& entry, const EntryFields& fields, std::string line) {
        ids_.push_back(std::to_string(entry.id));
        kinds_.push_back(entry.kind);
        names_.push_back(fields.anchor || fields.event ? key_of(fields.name) : std::string());
        runs_.push_back(fields.run_id.empty() ? std::string() : key_of(fields.run_id));
        bytes_ += line.size();
        lines_.push_back(std::move(line));
        for (const std::string& id : fields.message_ids) {
            message_keys_.push_back(key_of(id));
            message_entries_.push_back(ids_.back());
        }
    }
    /// Returns true if they are as long as a parameter should be.
    bool is_full() const { return bytes_ >= most_bytes; }
    /// Adds the statements, and begins with no entries again.
    void write(SqlBatch& batch, const std::string& tape) {
        if (!ids_.empty()) {
            batch
                .add(
                    "INSERT INTO bub_entries (tape, id, kind, name_key, run_key, line) SELECT $1,"
                    " id::bigint, kind, nullif(name_key, ''), nullif(run_key, ''), line FROM"
                    " unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[]) AS e (id,"
                    " kind, name_key, run_key, line)")
                .text(tape)
                .texts(std::move(ids_))
                .texts(std::move(kinds_))
                .texts(std::move(names_))
                .texts(std::move(runs_))
                .texts(std::move(lines_));
        }
        if (!message_keys_.empty()) {
            batch
                .add(
                    "INSERT INTO bub_message_ids (tape, message_key, id) SELECT $1, message_key,"
                    " id::bigint FROM unnest($2::text[], $3::text[]) AS m (message_key, id) {skip}")
                .text(tape)
                .texts(std::move(message_keys_))
                .texts(std::move(message_entries_));
        }
        *this = EntryRows();
    }

private:
    /// The server takes a gigabyte.
    static constexpr std::size_t most_bytes = std::size_t{16} << 20U;

    using Texts = std::vector<std::string>;
    Texts ids_;
    Texts kinds_;
    Texts names_;
    Texts runs_;
    Texts lines_;
    std::size_t bytes_ = 0;
    Texts message_keys_;
    Texts message_entries_;  ///< the id of the entry of each
};

}  // namespace

TapePosition write_append(SqlBatch& batch, const std::string& tape, TapeRow& row,
                          std::vector<TapeEntry> entries, const TapeAppend& options,
                          std::chrono::system_clock::time_point now, const JsonObject* edited) {
    TapeBefore before{row.end, row.info.anchors > 0, row.state};
    row.end = prepare_append(tape, before, entries, options, now);
    const bool is_empty = entries.empty() && !options.reset();
    if (is_empty && edited) write_state(batch, tape, *edited, row.write_id);
    if (is_empty) return row.end;
    if (options.reset()) {
        row.info = TapeInfo();
        row.bytes = 0;
        batch.add("DELETE FROM bub_message_ids WHERE tape = $1").text(tape);
        batch.add("DELETE FROM bub_entries WHERE tape = $1").text(tape);
    }
    EntryRows rows;
    SqlBatch inserts;
    for (const TapeEntry& entry : entries) {
        const EntryFields fields = fields_of(entry);
        add_to(row.info, fields);
        std::string line = tape_line(entry);
        row.bytes += static_cast<std::int64_t>(line.size());
        line.pop_back();  // the line feed
        rows.add(entry, fields, std::move(line));
        if (rows.is_full()) rows.write(inserts, tape);
    }
    rows.write(inserts, tape);
    write_tape(batch, tape, row, edited);
    batch.add_all(inserts);
    return row.end;
}

std::vector<TapeEntry> read_entries(const SqlResult& result, int column) {
    std::vector<TapeEntry> entries;
    entries.reserve(static_cast<std::size_t>(result.rows()));
    for (int row = 0; row < result.rows(); ++row) {
        if (auto entry = read_tape_line(result.text(row, column)))
            entries.push_back(std::move(*entry));
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

/// Returns the SQL of the first entry after `low` with the name of the second anchor.
std::string next_anchor_sql(const std::string& low) {
    return "(SELECT min(id) FROM bub_entries WHERE tape = $1 AND kind = 'anchor' AND name_key = $3"
           " AND id > " +
           low + ")";
}

/// The columns of select_page(). The first entry's transaction is another one if the tape was reset in between.
enum PageColumns : std::uint8_t {
    first_column,
    last_id_column,
    low_column,
    high_column,
    line_column
};

/// Selects at most `limit` entries of a range, of the kinds of the query, in its order: rows with the line of each, or one row with
/// none. `range`: absent: that of the query's slice.
SqlQuery select_page(const std::string& tape, const std::optional<IdRange>& range,
                     const TapeQuery& query, std::int64_t limit) {
    // The condition has the bounds themselves: with columns of m, the server would sort all entries of a long range for each page.
    std::string low = "$2";
    std::string high = "$3";
    std::string ids = " AND id > $2 AND id < $3";
    if (!range) {
        const bool is_between = query.slice() == TapeQuery::Slice::between_anchors;
        low = last_anchor_sql(query);
        high = is_between ? next_anchor_sql(low) : std::to_string(end_of_ids);
        if (query.with_anchor()) low += " - 1";
        ids = " AND id > " + low + (is_between ? " AND id < " + high : "");
    }
    const std::string kinds = query.kinds().empty() ? "" : " AND kind {any $5}";
    const std::string order = query.newest_first() ? "id DESC" : "id";
    SqlQuery page(
        "SELECT m.first, m.last_id, m.low, m.high, e.line FROM (SELECT (SELECT"
        " xmin::text FROM bub_entries WHERE tape = $1 ORDER BY id LIMIT 1) AS first,"
        " coalesce((SELECT last_id FROM bub_tapes WHERE tape = $1), 0) AS last_id, " +
        low + " AS low, " + high +
        " AS high) AS m LEFT JOIN (SELECT id, line FROM bub_entries WHERE tape = $1" + ids + kinds +
        " ORDER BY " + order + " LIMIT $4) AS e ON true ORDER BY e." + order);
    page.text(tape);
    if (range) {
        page.integer(range->low).integer(range->high);
    } else {
        page.text(key_of(query.first_anchor())).text(key_of(query.second_anchor()));
    }
    page.integer(limit);
    if (!query.kinds().empty()) page.texts(query.kinds());
    return page;
}

/// Throws Error(not_found) if an anchor of the slice is missing.
IdRange read_range(const SqlResult& result, const TapeQuery& query) {
    if (result.is_null(0, low_column)) throw_no_start(query);
    if (result.is_null(0, high_column)) throw_no_anchor(query.second_anchor());
    return IdRange{result.integer(0, low_column), result.integer(0, high_column)};
}

/// The progress of one read of a tape.
class PageReader {
public:
    PageReader(std::string tape, TapeQuery query, std::function<void(std::int64_t last_id)> see_end)
        : tape_(std::move(tape)),
          query_(std::move(query)),
          filter_(query_),
          see_end_(std::move(see_end)) {
        if (query_.slice() == TapeQuery::Slice::all) range_ = IdRange{0, end_of_ids};
    }

    bool is_full() const { return filter_.full(); }
    SqlQuery select() {
        limit_ = limit();
        return select_page(tape_, range_, query_, limit_);
    }
    /// Returns false if the tape was reset.
    bool is_same_tape(const SqlResult& page) {
        std::optional<std::string> first = page.optional_string(0, first_column);
        if (has_begun_) return first == first_;
        has_begun_ = true;
        first_ = std::move(first);
        range_ = read_range(page, query_);
        const std::int64_t last_id = page.integer(0, last_id_column);
        range_->high = std::min(range_->high, last_id + 1);
        if (see_end_) see_end_(last_id);
        return true;
    }
    /// Returns false after the last page.
    bool visit_page(const SqlResult& page, const std::function<bool(const TapeEntry&)>& visit) {
        const std::vector<TapeEntry> entries = read_entries(page, line_column);
        for (const TapeEntry& entry : entries) {
            if (!filter_.fits(entry)) continue;
            if (!filter_.take() || !visit(entry)) return false;
        }
        if (page.rows() < limit_ || entries.empty()) return false;
        (query_.newest_first() ? range_->high : range_->low) = entries.back().id;
        return true;
    }

private:
    std::int64_t limit() const {
        // The database applies the limit only if it knows which entries match.
        const bool is_plain = !query_.dates() && query_.text().empty();
        if (!is_plain || !query_.limit()) return page_size;
        constexpr auto most = static_cast<std::size_t>(page_size);
        return static_cast<std::int64_t>(std::min(*query_.limit(), most));
    }
    const std::string tape_;
    const TapeQuery query_;
    QueryFilter filter_;
    const std::function<void(std::int64_t last_id)> see_end_;
    std::optional<IdRange> range_;  ///< of the entries that follow; absent: not known yet
    std::int64_t limit_ = page_size;
    bool has_begun_ = false;
    std::optional<std::string> first_;  ///< the transaction of the first entry
};

/// Returns false if the tape was reset in between.
Task<bool> read_pages(std::shared_ptr<PgTapeTurns> turns, std::shared_ptr<TapeUse> use,
                      std::string tape, TapeQuery query,
                      std::function<bool(const TapeEntry&)> visit,
                      std::function<void(std::int64_t last_id)> see_end) {
    PageReader reader(tape, std::move(query), std::move(see_end));
    do {
        SqlQuery page = reader.select();
        const SqlResult result = co_await turns->read(tape, use, std::move(page));
        if (!reader.is_same_tape(result)) co_return false;
        if (!reader.visit_page(result, visit)) co_return true;
    } while (!reader.is_full());
    co_return true;
}

}  // namespace

Task<void> visit_pages(std::shared_ptr<PgTapeTurns> turns, std::shared_ptr<TapeUse> use,
                       std::string tape, TapeQuery query,
                       std::function<bool(const TapeEntry&)> visit, std::function<bool()> restart,
                       std::function<void(std::int64_t last_id)> see_end) {
    for (int attempt = 0; attempt < most_attempts; ++attempt) {
        TapeQuery copy = query;
        const bool whole = co_await read_pages(turns, use, tape, std::move(copy), visit, see_end);
        if (whole) co_return;
        if (!restart()) break;
    }
    throw cubepi::CheckpointerError(
        cubepi::ErrorCode::storage,
        "tape '" + tape + "' was emptied while it was read; read it again");
}

}  // namespace bub::detail
