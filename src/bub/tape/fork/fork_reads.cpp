#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

#include <bub/tape/entry/entry_fields.hpp>
#include <bub/tape/fork/fork_state.hpp>
#include <bub/tape/search/query_filter.hpp>
#include <cubepi/core/error.hpp>

// The view inside a fork: the parent's entries, followed by those of the fork.

namespace bub {

using detail::ForkBranch;

namespace {

/// A query on a fork, divided into the part for the underlying tape and the part for the fork's own entries.
struct ForkSlice {
    std::optional<TapeQuery> parent = {};  ///< absent: no entries of the tape are requested
    std::size_t from = 0;
    std::size_t to = 0;
    bool may_end_here = false;  ///< between anchors, the first of which is on the tape
    bool ends_here = false;     ///< the second one is in the fork
};

/// Throws Error(not_found) for an anchor that is searched only in `own`.
ForkSlice split_query(const std::vector<TapeEntry>& own, const TapeQuery& query, bool hidden) {
    ForkSlice slice;
    const bool starts_here = std::any_of(own.begin(), own.end(), [&](const TapeEntry& entry) {
        return detail::starts_slice(entry, query);
    });
    if (hidden || starts_here) {
        std::tie(slice.from, slice.to) = detail::slice_of(own, query);
        return slice;
    }
    slice.parent = query;
    slice.to = own.size();
    if (query.slice() != TapeQuery::Slice::between_anchors) return slice;
    const auto end = std::find_if(own.begin(), own.end(), [&](const TapeEntry& entry) {
        return detail::is_anchor(entry, query.second_anchor());
    });
    slice.to = static_cast<std::size_t>(end - own.begin());
    slice.may_end_here = true;
    slice.ends_here = end != own.end();
    return slice;
}

/// Adds the fork's part to the tape's result, in the query's order, subject to the query's filters and limit.
void join_parts(std::vector<TapeEntry>& found, const std::vector<TapeEntry>& own,
                const ForkSlice& slice, const TapeQuery& query) {
    detail::QueryFilter filter(query);
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

TapeMediaStore& media_of(TapeMediaStore* store) {
    if (store) return *store;
    throw cubepi::Error(cubepi::ErrorCode::unsupported,
                        "the tape store under this fork has no media");
}

}  // namespace

Task<std::vector<std::string>> TurnTransaction::all_tapes() { return state_->parent->all_tapes(); }
Task<cubepi::QuestionPage> TurnTransaction::list_requests(cubepi::QuestionQuery query) {
    return state_->parent->list_requests(std::move(query));
}
std::string TurnTransaction::state_file(const std::string& tape) const {
    return state_->parent->state_file(tape);
}

Task<std::vector<TapeEntry>> TurnTransaction::fetch(std::string tape, TapeQuery query) {
    const std::shared_ptr<State> state = state_;
    const ForkBranch* const own = state->find(tape);
    if (!own) {
        std::vector<TapeEntry> found =
            co_await state->parent->fetch(std::move(tape), std::move(query));
        co_return found;
    }
    state->check_open();
    // Dates are checked before anchors are searched, as in a store.
    (void)detail::QueryFilter(query);
    ForkSlice slice = split_query(own->entries, query, own->reset);
    std::vector<TapeEntry> found;
    if (slice.parent) {
        TapeQuery above = *slice.parent;
        std::exception_ptr no_end;
        try {
            found = co_await state->parent->fetch(tape, std::move(above));
            if (slice.may_end_here) slice.to = slice.from;
        } catch (const cubepi::Error& error) {
            if (error.code() != cubepi::ErrorCode::not_found || !slice.may_end_here) throw;
            no_end = std::current_exception();
        }
        if (no_end) {
            // The slice begins on the tape and ends in the fork, or has no end.
            TapeQuery open = query;
            TapeQuery rest = std::move(open).after_anchor(query.first_anchor());
            found = co_await state->parent->fetch(std::move(tape), std::move(rest));
            if (!slice.ends_here) std::rethrow_exception(no_end);
        }
    }
    join_parts(found, own->entries, slice, query);
    co_return found;
}

Task<void> TurnTransaction::visit(std::string tape, TapeQuery query,
                                  std::function<bool(const TapeEntry&)> visit) {
    const std::shared_ptr<State> state = state_;
    const ForkBranch* const own = state->find(tape);
    if (!own) {
        co_await state->parent->visit(std::move(tape), std::move(query), std::move(visit));
        co_return;
    }
    state->check_open();
    if (query.slice() == TapeQuery::Slice::between_anchors) {
        // Where it ends is known when all of it is read.
        const std::vector<TapeEntry> found = co_await fetch(std::move(tape), std::move(query));
        for (const TapeEntry& entry : found) {
            if (!visit(entry)) co_return;
        }
        co_return;
    }
    auto filter = std::make_shared<detail::QueryFilter>(query);
    const ForkSlice slice = split_query(own->entries, query, own->reset);
    auto continues = std::make_shared<bool>(true);
    std::function<bool(const TapeEntry&)> counted = [filter, continues,
                                                     visit](const TapeEntry& entry) {
        *continues = filter->take() && visit(entry) && !filter->full();
        return *continues;
    };
    const auto visit_own = [&] {
        std::vector<const TapeEntry*> mine;
        for (std::size_t i = slice.from; i < slice.to; ++i) {
            if (filter->fits(own->entries[i])) mine.push_back(&own->entries[i]);
        }
        if (query.newest_first()) std::reverse(mine.begin(), mine.end());
        for (const TapeEntry* entry : mine) {
            if (!counted(*entry)) return;
        }
    };
    if (query.newest_first()) visit_own();
    if (*continues && slice.parent) {
        TapeQuery above = *slice.parent;
        co_await state->parent->visit(std::move(tape), std::move(above), counted);
    }
    if (!query.newest_first() && *continues) visit_own();
}

Task<JsonObject> TurnTransaction::State::read_state(std::string tape, bool recent) {
    const auto self = shared_from_this();
    JsonObject side_state;
    if (recent && parent_reads) {
        side_state = co_await parent_reads->recent_state(tape);
    } else {
        side_state = co_await parent->read_state(tape);
    }
    if (const ForkBranch* const own = find(tape)) {
        for (const detail::StateEdit& edit : own->at_end) edit(side_state);
    }
    co_return side_state;
}

Task<JsonObject> TurnTransaction::read_state(std::string tape) {
    return state_->read_state(std::move(tape), false);
}

Task<TapePosition> TurnTransaction::position(std::string tape) {
    const std::shared_ptr<State> state = state_;
    const ForkBranch* const own = state->find(tape);
    if (own && (own->base || own->reset)) co_return own->end;
    const TapePosition end = co_await state->parent->position(std::move(tape));
    co_return end;
}

Task<TapeInfo> TurnTransaction::info(std::string tape) {
    const std::shared_ptr<State> state = state_;
    const ForkBranch* const own = state->find(tape);
    TapeInfo info;
    if (!own || !own->reset) info = co_await state->parent->info(tape);
    if (!own) co_return info;
    for (const TapeEntry& entry : own->entries) detail::add_to(info, detail::fields_of(entry));
    co_return info;
}

Task<std::vector<TapeEntry>> TurnTransaction::anchors(std::string tape, std::size_t limit) {
    const std::shared_ptr<State> state = state_;
    const ForkBranch* const own = state->find(tape);
    std::vector<TapeEntry> found;
    if (!own || !own->reset) found = co_await state->parent->anchors(tape, limit);
    if (!own) co_return found;
    for (const TapeEntry& entry : own->entries) {
        if (detail::is_anchor(entry)) found.push_back(entry);
    }
    if (found.size() > limit)
        found.erase(found.begin(), found.end() - static_cast<std::ptrdiff_t>(limit));
    co_return found;
}

Task<std::optional<TapeEntry>> TurnTransaction::find(std::string tape, TapeKey key,
                                                     std::string value) {
    const std::shared_ptr<State> state = state_;
    std::optional<TapeEntry> found;
    const ForkBranch* const own = state->find(tape);
    if (own) {
        const auto last = std::find_if(
            own->entries.rbegin(), own->entries.rend(),
            [&](const TapeEntry& entry) { return detail::fields_of(entry).matches(key, value); });
        if (last != own->entries.rend()) found = *last;
    }
    if (!found && (!own || !own->reset))
        found = co_await state->parent->find(std::move(tape), key, std::move(value));
    co_return found;
}

Task<std::string> TurnTransaction::put_media(std::string bytes) {
    return media_of(state_->parent_media).put_media(std::move(bytes));
}

Task<std::optional<std::string>> TurnTransaction::get_media(std::string sha256) {
    return media_of(state_->parent_media).get_media(std::move(sha256));
}

}  // namespace bub
