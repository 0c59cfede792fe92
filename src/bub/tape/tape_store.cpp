#include <bub/tape/tape_store.hpp>

#include <algorithm>
#include <utility>

#include <bub/tape/checkpointer/side_state.hpp>
#include <bub/tape/entry/entry_fields.hpp>
#include <bub/tape/fork/turn_journal.hpp>
#include <bub/tape/search/query_filter.hpp>
#include <bub/tape/tape_store_support.hpp>
#include <cubepi/checkpoint/support/requests.hpp>

// The default functions of stores of tapes, and the support for their implementations.

namespace bub {

Task<std::vector<std::string>> TapeStore::list_tapes() {
    std::vector<std::string> names = co_await all_tapes();
    std::erase_if(names, [](const std::string& name) { return !detail::is_main_tape(name); });
    co_return names;
}

Task<void> TapeStore::visit(std::string tape, TapeQuery query,
                            std::function<bool(const TapeEntry&)> visit) {
    const std::vector<TapeEntry> entries = co_await fetch(std::move(tape), std::move(query));
    for (const TapeEntry& entry : entries) {
        if (!visit(entry)) co_return;
    }
}

Task<void> TapeStore::reset(std::string tape) {
    std::vector<TapeEntry> none;
    TapeAppend options = TapeAppend().reset();
    (void)co_await append(std::move(tape), std::move(none), std::move(options));
}

Task<TapeInfo> TapeStore::info(std::string tape) {
    const auto info = std::make_shared<TapeInfo>();
    std::function<bool(const TapeEntry&)> add = [info](const TapeEntry& entry) {
        detail::add_to(*info, detail::fields_of(entry));
        return true;
    };
    TapeQuery all;
    co_await visit(std::move(tape), std::move(all), std::move(add));
    co_return std::move(*info);
}

Task<std::vector<TapeEntry>> TapeStore::anchors(std::string tape, std::size_t limit) {
    std::vector<std::string> kinds(1, std::string(entry_kind::anchor));
    TapeQuery query = TapeQuery().kinds(std::move(kinds)).limit(limit).newest_first();
    std::vector<TapeEntry> found = co_await fetch(std::move(tape), std::move(query));
    std::reverse(found.begin(), found.end());
    co_return found;
}

std::string TapeStore::state_file(const std::string& /*tape*/) const { return {}; }

void TapeStore::edit_state_later(const std::string& /*tape*/,
                                 std::function<void(JsonObject& state)> /*edit*/) {}

Task<std::optional<TapeEntry>> TapeStore::find(std::string tape, TapeKey key, std::string value) {
    const auto found = std::make_shared<std::optional<TapeEntry>>();
    std::function<bool(const TapeEntry&)> check = [found, key, value](const TapeEntry& entry) {
        if (!detail::fields_of(entry).matches(key, value)) return true;
        *found = entry;
        return false;
    };
    TapeQuery query = TapeQuery().newest_first();
    co_await visit(std::move(tape), std::move(query), std::move(check));
    co_return std::move(*found);
}

TapePosition prepare_append(const std::string& tape, const TapeBefore& before,
                            std::vector<TapeEntry>& entries, const TapeAppend& options,
                            std::chrono::system_clock::time_point now) {
    detail::check_tape_name(tape);
    detail::check_depth(tape, entries);
    if (options.guard()) options.guard()(before.state);
    if (options.expected_position() && *options.expected_position() != before.end.messages)
        detail::throw_stale(tape, *options.expected_position(), before.end.messages);
    if (before.has_anchor && !options.reset()) detail::drop_first(entries, options.first_anchor());
    TapePosition end = options.reset() ? TapePosition() : before.end;
    for (TapeEntry& entry : entries) {
        detail::assign_id(entry, end.last_id, options.keep_ids());
        if (entry.date.empty()) entry.date = tape_date(now);
        end.messages = detail::set_position(entry, end.messages);
    }
    return end;
}

std::vector<TapeEntry> evaluate_query(const std::vector<TapeEntry>& entries,
                                      const TapeQuery& query) {
    detail::QueryFilter filter(query);
    const auto [from, end] = detail::slice_of(entries, query);
    std::vector<TapeEntry> found;
    for (std::size_t i = from; i < end && !filter.full(); ++i) {
        const TapeEntry& entry = entries[query.newest_first() ? end - 1 - (i - from) : i];
        if (filter.fits(entry) && filter.take()) found.push_back(entry);
    }
    return found;
}

void keep_newest(std::vector<ListedTape>& tapes, std::size_t limit) {
    const auto end = tapes.begin() + static_cast<std::ptrdiff_t>(std::min(limit, tapes.size()));
    std::partial_sort(tapes.begin(), end, tapes.end(),
                      [](const ListedTape& a, const ListedTape& b) { return a.precedes(b); });
    tapes.erase(end, tapes.end());
}

void require_tape_name(const std::string& tape) { detail::check_tape_name(tape); }

InboxBuilder::InboxBuilder(cubepi::QuestionQuery query) : query_(std::move(query)) {
    (void)cubepi::detail::read_inbox_cursor(query_);
}

void InboxBuilder::add(const std::string& tape, const JsonObject& state) {
    for (cubepi::QuestionEntry& entry : detail::pending_requests(tape, state))
        add(std::move(entry));
}

void InboxBuilder::add(cubepi::QuestionEntry entry) { entries_.push_back(std::move(entry)); }

cubepi::QuestionPage InboxBuilder::page() const {
    return cubepi::detail::inbox_page(entries_, query_);
}

}  // namespace bub
