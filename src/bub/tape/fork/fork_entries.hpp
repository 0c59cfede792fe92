#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include <bub/tape/tape_entry.hpp>
#include <bub/tape/tape_query.hpp>

namespace bub::detail {

/// A query on a fork, divided into the part for the underlying tape and the part for the fork's own entries.
struct ForkSlice {
    std::optional<TapeQuery> parent = {};  ///< absent: no entries of the tape are requested
    std::size_t from = 0;
    std::size_t to = 0;
    bool may_end_here = false;  ///< between anchors, the first of which is on the tape
    bool ends_here = false;     ///< the second one is in the fork
};

/// Throws Error(not_found) for an anchor that is searched only in `own`.
ForkSlice split_query(const std::vector<TapeEntry>& own, const TapeQuery& query, bool hidden);

/// Adds the fork's part to the tape's result, in the query's order, subject to the query's filters and limit.
void join_parts(std::vector<TapeEntry>& found, const std::vector<TapeEntry>& own,
                const ForkSlice& slice, const TapeQuery& query);

/// Returns the fork's entries that are written to the tape, in the tape's order: results of single calls are omitted if
/// the entry of their complete batch follows, and a hand-off among calls is placed after their results.
std::vector<TapeEntry> mergeable(const std::vector<TapeEntry>& entries);

/// Returns the number of leading entries that are the anchor of a tape without one (TapeAppend::first_anchor).
std::size_t first_anchor_in(const std::vector<TapeEntry>& entries);
void drop_first(std::vector<TapeEntry>& entries, std::size_t count);

}  // namespace bub::detail
