#include <bub/tape/postgres/tape_rows.hpp>

#include <limits>
#include <utility>

#include <bub/tape/entry/entry_facts.hpp>
#include <bub/tape/file/digest.hpp>
#include <bub/tape/inbox/pending_requests.hpp>
#include <bub/tape/search/query_filter.hpp>
#include <bub/tape/tape_store_support.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/schema/parse_json.hpp>

namespace bub::detail {

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
    const Json* value = object.if_contains(key);
    return value && value->is_int64() ? value->get_int64() : 0;
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
    return boost::json::serialize(object);
}

/// The id of the last anchor of the slice, as SQL.
std::string last_anchor_sql(const TapeQuery& query) {
    const std::string anchors =
        "(SELECT max(id) FROM bub_entries WHERE tape = $1 AND kind = 'anchor'";
    return anchors + (query.slice() == TapeQuery::Slice::last_anchor ? ")" : " AND name_key = $2)");
}

}  // namespace

std::string key_of(std::string_view name) { return md5_hex(name); }

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
    const bool has_requests = !pending_requests(tape, state).empty();
    batch
        .add(
            "INSERT INTO bub_tapes (tape, state, has_requests) VALUES ($1, $2, $3 <> 0)"
            " {replace tape: state, has_requests}")
        .text(tape)
        .text(boost::json::serialize(state))
        .integer(has_requests ? 1 : 0);
}

namespace {

/// Stores the end of a tape and its summary, creating its row.
void write_tape(SqlBatch& batch, const std::string& tape, const TapeRow& row) {
    batch
        .add(
            "INSERT INTO bub_tapes (tape, last_id, messages, info, bytes)"
            " VALUES ($1, $2, $3, $4, $5) {replace tape: last_id, messages, info, bytes}")
        .text(tape)
        .integer(row.end.last_id)
        .integer(row.end.messages)
        .text(text_of(row.info))
        .integer(row.bytes);
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
                          std::chrono::system_clock::time_point now) {
    TapeBefore before{row.end, row.info.anchors > 0, row.state};
    row.end = prepare_append(tape, before, entries, options, now);
    if (entries.empty() && !options.reset()) return row.end;
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
    write_tape(batch, tape, row);
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

IdRange read_bounds(const SqlResult& result, const TapeQuery& query) {
    using Slice = TapeQuery::Slice;
    if (result.is_null(0, 0)) {
        if (query.slice() == Slice::last_anchor) throw_no_anchor();
        throw_no_anchor(query.first_anchor());
    }
    IdRange range;
    range.low = result.integer(0, 0) - (query.with_anchor() ? 1 : 0);
    range.high = end_of_ids;
    if (query.slice() != Slice::between_anchors) return range;
    if (result.is_null(0, 1)) throw_no_anchor(query.second_anchor());
    range.high = result.integer(0, 1);
    return range;
}

void select_page(SqlBatch& batch, const std::string& tape, const IdRange& range,
                 const TapeQuery& query, std::int64_t limit) {
    std::string sql = "SELECT line FROM bub_entries WHERE tape = $1 AND id > $2 AND id < $3";
    if (!query.kinds().empty()) sql += " AND kind {any $5}";
    sql += query.newest_first() ? " ORDER BY id DESC" : " ORDER BY id";
    cubepi::detail::SqlQuery& page = batch.add(sql + " LIMIT $4");
    page.text(tape).integer(range.low).integer(range.high).integer(limit);
    if (!query.kinds().empty()) page.texts(query.kinds());
}

}  // namespace bub::detail
