#include <bub/tape/fork/fork_entries.hpp>

#include <algorithm>
#include <set>
#include <string>

#include <bub/tape/entry/entry_facts.hpp>
#include <bub/tape/search/query_filter.hpp>
#include <cubepi/core/support/json_member.hpp>

namespace bub::detail {

namespace {

/// Returns the index of the last anchor (with this name) in `own`, or nothing.
std::optional<std::size_t> last_anchor(const std::vector<TapeEntry>& own, const TapeQuery& query) {
    for (std::size_t i = own.size(); i > 0; --i) {
        const bool wanted = query.slice() == TapeQuery::Slice::last_anchor
                                ? is_anchor(own[i - 1])
                                : is_anchor(own[i - 1], query.first_anchor());
        if (wanted) return i - 1;
    }
    return std::nullopt;
}

std::optional<std::size_t> first_anchor(const std::vector<TapeEntry>& own, std::size_t from,
                                        const std::string& name) {
    for (std::size_t i = from; i < own.size(); ++i) {
        if (is_anchor(own[i], name)) return i;
    }
    return std::nullopt;
}

std::string call_id_of(const Json& message) {
    const JsonObject* object = message.if_object();
    const Json* id = object ? object->if_contains("tool_call_id") : nullptr;
    return id && id->is_string() ? std::string(id->get_string()) : std::string();
}

}  // namespace

ForkSlice split_query(const std::vector<TapeEntry>& own, const TapeQuery& query, bool hidden) {
    using Slice = TapeQuery::Slice;
    ForkSlice slice;
    slice.to = own.size();
    if (query.slice() == Slice::all) {
        if (!hidden) slice.parent = query;
        return slice;
    }
    const std::optional<std::size_t> start = last_anchor(own, query);
    if (!start && hidden) {
        if (query.slice() == Slice::last_anchor) throw_no_anchor();
        throw_no_anchor(query.first_anchor());
    }
    if (start) slice.from = query.with_anchor() ? *start : *start + 1;
    if (!start) slice.parent = query;
    if (query.slice() != Slice::between_anchors) return slice;
    const auto end = first_anchor(own, start ? *start + 1 : 0, query.second_anchor());
    if (start && !end) throw_no_anchor(query.second_anchor());
    if (end) slice.to = *end;
    slice.may_end_here = !start;
    slice.ends_here = end.has_value();
    return slice;
}

void join_parts(std::vector<TapeEntry>& found, const std::vector<TapeEntry>& own,
                const ForkSlice& slice, const TapeQuery& query) {
    QueryFilter filter(query);
    std::vector<TapeEntry> mine;
    for (std::size_t i = slice.from; i < slice.to; ++i) {
        if (filter.fits(own[i])) mine.push_back(own[i]);
    }
    if (query.newest_first()) {
        std::reverse(mine.begin(), mine.end());
        mine.insert(mine.end(), std::make_move_iterator(found.begin()),
                    std::make_move_iterator(found.end()));
        found = std::move(mine);
    } else {
        found.insert(found.end(), std::make_move_iterator(mine.begin()),
                     std::make_move_iterator(mine.end()));
    }
    if (query.limit() && found.size() > *query.limit()) found.resize(*query.limit());
}

namespace {

/// Moves a hand-off made by one of several calls after their results: a context that begins between the two would have
/// results without calls.
std::vector<TapeEntry> anchors_behind_results(std::vector<TapeEntry> entries) {
    std::vector<TapeEntry> ordered;
    std::vector<TapeEntry> late;
    ordered.reserve(entries.size());
    bool open = false;
    const auto end_batch = [&] {
        for (TapeEntry& entry : late) ordered.push_back(std::move(entry));
        late.clear();
        open = false;
    };
    for (TapeEntry& entry : entries) {
        const bool calls = entry.kind == entry_kind::tool_call;
        const bool results = entry.kind == entry_kind::tool_result;
        const bool handoff =
            is_anchor(entry) || (entry.kind == entry_kind::event && entry_name(entry) == "handoff");
        if (open && handoff) {
            late.push_back(std::move(entry));
            continue;
        }
        if (calls || entry.kind == entry_kind::message) end_batch();
        ordered.push_back(std::move(entry));
        if (calls) open = true;
        if (results) end_batch();
    }
    end_batch();
    return ordered;
}

}  // namespace

std::vector<TapeEntry> mergeable(const std::vector<TapeEntry>& entries) {
    std::vector<TapeEntry> merged;
    std::set<std::string> in_batch;
    TapeEntry* batch = nullptr;
    std::vector<TapeEntry> reversed(entries.rbegin(), entries.rend());
    std::int64_t dropped = 0;
    const auto end_batch = [&] {
        if (batch && dropped > 0) {
            JsonObject& ours = batch->meta.at(meta_key).get_object();
            ours["count"] = dropped + cubepi::detail::integer_member(ours, "count").value_or(0);
        }
        batch = nullptr;
        dropped = 0;
        in_batch.clear();
    };
    merged.reserve(reversed.size());
    for (TapeEntry& entry : reversed) {
        const JsonArray* messages = stored_messages(entry);
        const bool single = entry.kind == entry_kind::event && entry_name(entry) == result_event &&
                            messages && !messages->empty();
        if (single && in_batch.contains(call_id_of(messages->front()))) {
            ++dropped;
            continue;
        }
        if (entry.kind == entry_kind::tool_call) end_batch();
        merged.push_back(std::move(entry));
        if (merged.back().kind == entry_kind::tool_result && stored_messages(merged.back())) {
            end_batch();
            batch = &merged.back();
            for (const Json& message : *stored_messages(merged.back()))
                in_batch.insert(call_id_of(message));
        }
    }
    end_batch();
    std::reverse(merged.begin(), merged.end());
    return anchors_behind_results(std::move(merged));
}

std::size_t first_anchor_in(const std::vector<TapeEntry>& entries) {
    if (entries.empty() || !is_anchor(entries[0], bootstrap_anchor)) return 0;
    const bool has_event = entries.size() > 1 && entries[1].kind == entry_kind::event &&
                           entry_name(entries[1]) == "handoff";
    return has_event ? 2 : 1;
}

void drop_first(std::vector<TapeEntry>& entries, std::size_t count) {
    const std::size_t most = std::min(count, entries.size());
    entries.erase(entries.begin(), entries.begin() + static_cast<std::ptrdiff_t>(most));
}

}  // namespace bub::detail
