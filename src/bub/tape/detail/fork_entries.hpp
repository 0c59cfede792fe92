#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include <bub/tape/tape_entry.hpp>
#include <bub/tape/tape_query.hpp>

namespace bub::detail {

/// Which part of a query the tape under a fork answers, and which the fork's own entries.
struct ForkSlice {
    std::optional<TapeQuery> parent = {};  ///< absent: nothing of the tape is wanted
    std::size_t from = 0;
    std::size_t to = 0;
    bool may_end_here = false;  ///< between anchors, the first of which is on the tape
    bool ends_here = false;     ///< the second one is in the fork
};

/// Throws Error(not_found) for an anchor that is only looked for in `own`.
ForkSlice split_query(const std::vector<TapeEntry>& own, const TapeQuery& query, bool hidden);

/// Adds the fork's part to what the tape gave, in the query's order, under the query's filters and limit.
void join_parts(std::vector<TapeEntry>& found, const std::vector<TapeEntry>& own,
                const ForkSlice& slice, const TapeQuery& query);

/// What of a fork's entries goes to the tape, in its order there: the results of single calls are left out where the entry
/// of their whole batch follows, and a hand-off among calls comes behind their results.
std::vector<TapeEntry> mergeable(const std::vector<TapeEntry>& entries);

/// How many of the entries, from the first on, are the anchor of a tape that had none (TapeAppend::first_anchor).
std::size_t first_anchor_in(const std::vector<TapeEntry>& entries);
void drop_first(std::vector<TapeEntry>& entries, std::size_t count);

}  // namespace bub::detail
