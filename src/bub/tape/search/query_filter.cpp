#include <bub/tape/search/query_filter.hpp>

#include <algorithm>
#include <limits>

#include <bub/tape/search/dates.hpp>
#include <cubepi/core/error.hpp>

namespace bub::detail {

namespace {

std::int64_t date_bound(const std::string& text, bool end) {
    const std::optional<std::int64_t> time = parse_date(text, end);
    if (!time) {
        throw cubepi::Error(
            cubepi::ErrorCode::invalid_argument,
            "'" + text + "' is not a date: write 2026-03-01, or 2026-03-01T12:00:00+01:00");
    }
    return *time;
}

/// Returns the index after the last entry of `entries` that satisfies `is`; 0 if there is none.
template <class Is>
std::size_t behind_last(const std::vector<TapeEntry>& entries, Is is) {
    for (std::size_t i = entries.size(); i > 0; --i) {
        if (is(entries[i - 1])) return i;
    }
    return 0;
}

}  // namespace

QueryFilter::QueryFilter(const TapeQuery& query)
    : kinds_(query.kinds()),
      left_(query.limit().value_or(std::numeric_limits<std::size_t>::max())) {
    if (query.dates()) {
        dates_.emplace(date_bound(query.dates()->first, false),
                       date_bound(query.dates()->second, true));
        if (dates_->first > dates_->second) {
            throw cubepi::Error(cubepi::ErrorCode::invalid_argument,
                                "the range of dates is upside down: " + query.dates()->first +
                                    " is after " + query.dates()->second);
        }
    }
    if (!query.text().empty()) text_.emplace(query.text());
}

bool QueryFilter::fits(const TapeEntry& entry) const {
    if (!kinds_.empty() && std::find(kinds_.begin(), kinds_.end(), entry.kind) == kinds_.end())
        return false;
    if (dates_) {
        const std::optional<std::int64_t> date = parse_date(entry.date);
        if (!date || *date < dates_->first || *date > dates_->second) return false;
    }
    return !text_ || text_->found_in(entry);
}

bool is_anchor(const TapeEntry& entry) { return entry.kind == entry_kind::anchor; }
bool is_anchor(const TapeEntry& entry, std::string_view name) {
    return is_anchor(entry) && entry_name(entry) == name;
}

void throw_no_anchor() {
    throw cubepi::Error(cubepi::ErrorCode::not_found, "No anchors found in tape.");
}

void throw_no_anchor(std::string_view name) {
    throw cubepi::Error(cubepi::ErrorCode::not_found,
                        "Anchor '" + std::string(name) + "' was not found.");
}

std::pair<std::size_t, std::size_t> slice_of(const std::vector<TapeEntry>& entries,
                                             const TapeQuery& query) {
    using Slice = TapeQuery::Slice;
    if (query.slice() == Slice::all) return {0, entries.size()};
    const std::size_t from = behind_last(entries, [&](const TapeEntry& entry) {
        return query.slice() == Slice::last_anchor ? is_anchor(entry)
                                                   : is_anchor(entry, query.first_anchor());
    });
    if (from == 0) {
        if (query.slice() == Slice::last_anchor) throw_no_anchor();
        throw_no_anchor(query.first_anchor());
    }
    std::size_t end = entries.size();
    if (query.slice() == Slice::between_anchors) {
        end = from;
        while (end < entries.size() && !is_anchor(entries[end], query.second_anchor())) ++end;
        if (end == entries.size()) throw_no_anchor(query.second_anchor());
    }
    return {query.with_anchor() ? from - 1 : from, end};
}

std::vector<TapeEntry> evaluate(const std::vector<TapeEntry>& entries, const TapeQuery& query) {
    QueryFilter filter(query);
    const auto [from, end] = slice_of(entries, query);
    std::vector<TapeEntry> found;
    for (std::size_t i = from; i < end && !filter.full(); ++i) {
        const TapeEntry& entry = entries[query.newest_first() ? end - 1 - (i - from) : i];
        if (filter.fits(entry) && filter.take()) found.push_back(entry);
    }
    return found;
}

}  // namespace bub::detail
