#include <algorithm>
#include <utility>

#include <bub/tape/entry/entry_facts.hpp>
#include <bub/tape/fork/fork_entries.hpp>
#include <bub/tape/fork/fork_state.hpp>
#include <bub/tape/search/query_filter.hpp>
#include <cubepi/core/error.hpp>

// The view inside a fork: the parent's entries, followed by those of the fork.

namespace bub {

namespace {

template <class T>
T& needed(T* ability, const char* what) {
    if (ability) return *ability;
    throw cubepi::Error(cubepi::ErrorCode::unsupported,
                        std::string("the tape store under this fork has no ") + what);
}

template <class Is>
std::optional<TapeEntry> newest(const std::vector<TapeEntry>& entries, Is is) {
    const auto found = std::find_if(entries.rbegin(), entries.rend(), is);
    if (found == entries.rend()) return std::nullopt;
    return *found;
}

}  // namespace

Task<std::vector<std::string>> TurnTransaction::list_tapes() {
    return state_->parent->list_tapes();
}
Task<std::vector<std::string>> TurnTransaction::all_tapes() { return state_->parent->all_tapes(); }
Task<cubepi::QuestionPage> TurnTransaction::list_requests(cubepi::QuestionQuery query) {
    return state_->parent->list_requests(std::move(query));
}
std::string TurnTransaction::state_file(const std::string& tape) const {
    return state_->parent->state_file(tape);
}

Task<std::vector<TapeEntry>> TurnTransaction::fetch(std::string tape, TapeQuery query) {
    const std::shared_ptr<State> state = state_;
    const detail::ForkBranch* const own = state->find(tape);
    if (!own) {
        std::vector<TapeEntry> found =
            co_await state->parent->fetch(std::move(tape), std::move(query));
        co_return found;
    }
    state->check_open();
    // Dates are checked before anchors are searched, as in a store.
    (void)detail::QueryFilter(query);
    detail::ForkSlice slice = detail::split_query(own->entries, query, own->reset);
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
    detail::join_parts(found, own->entries, slice, query);
    co_return found;
}

Task<void> TurnTransaction::visit(std::string tape, TapeQuery query,
                                  std::function<bool(const TapeEntry&)> visit) {
    const std::shared_ptr<State> state = state_;
    const detail::ForkBranch* const own = state->find(tape);
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
    const detail::ForkSlice slice = detail::split_query(own->entries, query, own->reset);
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

Task<TapePosition> TurnTransaction::position(std::string tape) {
    const std::shared_ptr<State> state = state_;
    const detail::ForkBranch* const own = state->find(tape);
    if (own && (own->base || own->reset)) co_return own->end;
    const TapePosition end = co_await state->parent->position(std::move(tape));
    co_return end;
}

Task<TapeInfo> TurnTransaction::info(std::string tape) {
    const std::shared_ptr<State> state = state_;
    const detail::ForkBranch* const own = state->find(tape);
    TapeInfo info;
    if (!own || !own->reset) info = co_await state->parent->info(tape);
    if (!own) co_return info;
    for (const TapeEntry& entry : own->entries) detail::add_to(info, detail::facts_of(entry));
    co_return info;
}

Task<std::vector<TapeEntry>> TurnTransaction::anchors(std::string tape, std::size_t limit) {
    const std::shared_ptr<State> state = state_;
    const detail::ForkBranch* const own = state->find(tape);
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

Task<std::optional<TapeEntry>> TurnTransaction::find_message_entry(std::string tape,
                                                                   std::string message_id) {
    const std::shared_ptr<State> state = state_;
    std::optional<TapeEntry> found;
    if (const detail::ForkBranch* const own = state->find(tape)) {
        found = newest(own->entries, [&](const TapeEntry& entry) {
            const detail::EntryFacts facts = detail::facts_of(entry);
            return std::find(facts.message_ids.begin(), facts.message_ids.end(), message_id) !=
                   facts.message_ids.end();
        });
        if (found || own->reset) co_return found;
    }
    found = co_await state->parent->find_message_entry(std::move(tape), std::move(message_id));
    co_return found;
}

Task<std::optional<TapeEntry>> TurnTransaction::find_event(std::string tape, std::string name) {
    const std::shared_ptr<State> state = state_;
    std::optional<TapeEntry> found;
    if (const detail::ForkBranch* const own = state->find(tape)) {
        found = newest(own->entries, [&](const TapeEntry& entry) {
            return entry.kind == entry_kind::event && entry_name(entry) == name;
        });
        if (found || own->reset) co_return found;
    }
    found = co_await state->parent->find_event(std::move(tape), std::move(name));
    co_return found;
}

Task<std::optional<TapeEntry>> TurnTransaction::find_run(std::string tape, std::string run_id) {
    const std::shared_ptr<State> state = state_;
    std::optional<TapeEntry> found;
    if (const detail::ForkBranch* const own = state->find(tape)) {
        found = newest(own->entries, [&](const TapeEntry& entry) {
            return detail::facts_of(entry).run_id == run_id;
        });
        if (found || own->reset) co_return found;
    }
    found = co_await state->parent->find_run(std::move(tape), std::move(run_id));
    co_return found;
}

Task<std::string> TurnTransaction::put_media(std::string bytes) {
    return needed(state_->parent_media, "media").put_media(std::move(bytes));
}

Task<std::optional<std::string>> TurnTransaction::get_media(std::string sha256) {
    return needed(state_->parent_media, "media").get_media(std::move(sha256));
}

}  // namespace bub
