#include <bub/tape/tape_store_support.hpp>

#include <bub/tape/entry/entry_facts.hpp>
#include <bub/tape/file/tape_errors.hpp>
#include <bub/tape/fork/fork_entries.hpp>
#include <bub/tape/search/query_filter.hpp>

namespace bub {

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
    return detail::evaluate(entries, query);
}

void require_tape_name(const std::string& tape) { detail::check_tape_name(tape); }

}  // namespace bub
