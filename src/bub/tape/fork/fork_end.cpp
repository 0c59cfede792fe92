#include <algorithm>
#include <utility>

#include <bub/tape/entry/entry_facts.hpp>
#include <bub/tape/file/side_state.hpp>
#include <bub/tape/fork/fork_entries.hpp>
#include <bub/tape/fork/fork_state.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/outcome.hpp>

// The end of a fork: merged into the tape, fenced, or discarded; and the claims that it holds until then.

namespace bub {

namespace {

using StateEdit = std::function<void(JsonObject&)>;

/// Called under the tape's lock when the entries are appended (D50).
std::function<void(const JsonObject&)> guard_of(const detail::ForkBranch& branch) {
    if (branch.claims.empty()) return {};
    return [tape = branch.tape, claims = branch.claims](const JsonObject& state) {
        detail::check_claims(state, tape, claims);
    };
}

/// Makes the edits, and returns the claims that were held before and no longer are: they were released.
std::vector<TapeClaim> make_edits(JsonObject& state, const std::vector<StateEdit>& edits,
                                  const std::vector<TapeClaim>& claims) {
    const auto held = [&state](const TapeClaim& claim) {
        return detail::SideState(state).holds(claim.run_id, claim.owner_id);
    };
    std::vector<TapeClaim> given_up;
    std::copy_if(claims.begin(), claims.end(), std::back_inserter(given_up), held);
    for (const StateEdit& edit : edits) edit(state);
    std::erase_if(given_up, held);
    return given_up;
}

}  // namespace

bool TurnTransaction::hold_claim(const std::string& tape, TapeClaim claim) {
    State& state = *state_;
    detail::ForkBranch* const branch = state.find(tape);
    if (!branch || state.over) return false;
    if (state.parent_claims && state.parent_claims->hold_claim(tape, claim)) return true;
    std::vector<TapeClaim>& claims = branch->claims;
    if (std::find(claims.begin(), claims.end(), claim) == claims.end())
        claims.push_back(std::move(claim));
    return true;
}

bool TurnTransaction::edit_state_at_end(const std::string& tape, StateEdit edit) {
    State& state = *state_;
    detail::ForkBranch* const branch = state.find(tape);
    if (!branch || state.over) return false;
    if (state.parent_claims && state.parent_claims->edit_state_at_end(tape, edit)) return true;
    branch->at_end.push_back(std::move(edit));
    return true;
}

Task<JsonObject> TurnTransaction::read_state(std::string tape) {
    const std::shared_ptr<State> state = state_;
    JsonObject side_state = co_await state->parent->read_state(tape);
    if (const detail::ForkBranch* const own = state->find(tape)) {
        for (const StateEdit& edit : own->at_end) edit(side_state);
    }
    co_return side_state;
}

/// Pending edits are applied with the next edit, which may be a claim that follows a released one.
Task<Json> TurnTransaction::edit_state(std::string tape,
                                       std::function<Json(JsonObject& state)> edit) {
    const std::shared_ptr<State> state = state_;
    detail::ForkBranch* const own = state->find(tape);
    if (!own || own->at_end.empty()) {
        Json result = co_await state->parent->edit_state(std::move(tape), std::move(edit));
        co_return result;
    }
    const std::size_t count = own->at_end.size();
    const auto given_up = std::make_shared<std::vector<TapeClaim>>();
    std::function<Json(JsonObject&)> all = [edits = own->at_end, claims = own->claims, given_up,
                                            edit = std::move(edit)](JsonObject& now) {
        *given_up = make_edits(now, edits, claims);
        return edit(now);
    };
    Json result = co_await state->parent->edit_state(std::move(tape), std::move(all));
    own->at_end.erase(own->at_end.begin(),
                      own->at_end.begin() + static_cast<std::ptrdiff_t>(count));
    for (const TapeClaim& claim : *given_up) std::erase(own->claims, claim);
    own->journaled_claims = std::min(own->journaled_claims, own->claims.size());
    co_return result;
}

bool TurnTransaction::State::holds_something() const {
    return main.holds_something() || !behind.empty() || !partial_text.empty();
}

std::vector<TapeEntry> TurnTransaction::State::whole_turn(TurnStatus status) const {
    std::vector<TapeEntry> entries = detail::mergeable(main.entries);
    const bool whole = status == TurnStatus::ok || status == TurnStatus::suspended;
    if (!partial_text.empty() && !whole) {
        entries.push_back(
            detail::partial_text_entry(partial_text, options.turn_id, to_string(status)));
        stamp(entries.back());
    }
    entries.insert(entries.end(), behind.begin(), behind.end());
    return entries;
}

Task<void> TurnTransaction::State::merge(TurnStatus status) {
    std::vector<TapeEntry> entries = whole_turn(status);
    const std::size_t first = main.reset ? 0 : detail::first_anchor_in(entries);
    if (!options.turn_id.empty() && (!entries.empty() || main.reset)) {
        entries.push_back(detail::turn_marker(options.turn_id, to_string(status)));
        stamp(entries.back());
    }
    if (entries.empty() && !main.reset) co_return;
    TapeAppend how = TapeAppend()
                         .reset(main.reset)
                         .turn(journal->journal() ? options.turn_id : "")
                         .turn_must_be_open()
                         .first_anchor(first)
                         .guard(guard_of(main));
    (void)co_await parent->append(main.tape, std::move(entries), std::move(how));
}

Task<std::string> TurnTransaction::State::merge_or_refusal(TurnStatus status) {
    std::string refusal;
    try {
        co_await merge(status);
    } catch (const cubepi::StaleAppendError& error) {
        refusal = error.what();
    }
    co_return refusal;
}

Task<void> TurnTransaction::State::keep_refused(TurnStatus status, std::string reason) {
    detail::JournaledTurn turn;
    turn.id = options.turn_id;
    turn.entries = main.entries;
    turn.behind = behind;
    if (status != TurnStatus::ok && status != TurnStatus::suspended)
        turn.partial_text = partial_text;
    std::vector<TapeEntry> entries;
    entries.push_back(detail::refused_turn(std::move(turn), to_string(status), std::move(reason)));
    TapeAppend how = TapeAppend().turn(journal->journal() ? options.turn_id : "");
    co_await parent->append(main.tape, std::move(entries), std::move(how));
}

Task<void> TurnTransaction::State::edit_at_end() {
    if (main.at_end.empty()) co_return;
    std::function<Json(JsonObject&)> edit = [edits = main.at_end](JsonObject& side_state) {
        for (const StateEdit& one : edits) one(side_state);
        return Json();
    };
    try {
        co_await parent->edit_state(main.tape, std::move(edit));
    } catch (const cubepi::Error&) {
        // The turn has ended regardless. A claim that remains blocks others until its lease expires.
        for (StateEdit& one : main.at_end) parent->edit_state_later(main.tape, std::move(one));
    }
    main.at_end.clear();
}

void TurnTransaction::State::close() {
    over = true;
    if (timer) timer->cancel();
    timer.reset();
    main.entries.clear();
    behind.clear();
    partial_text.clear();
}

Task<void> TurnTransaction::merge(TurnStatus status) {
    const std::shared_ptr<State> state = state_;
    state->check_open();
    // A merge that fails leaves a fork that can be merged again.
    struct Resume {
        detail::JournalBuffer* journal;
        ~Resume() {
            if (journal) journal->resume();
        }
    } resume{state->journal.get()};
    co_await state->stop_journal();
    std::string refused;
    if (state->holds_something()) {
        cubepi::Outcome<std::string> merged =
            co_await cubepi::outcome_of(state->merge_or_refusal(status));
        // After a failure the journal remains, and the process that opens the next one closes the turn; no process is
        // working on it.
        if (!merged && !merged.cancelled()) co_await state->edit_at_end();
        refused = std::move(merged).value();
    }
    if (!refused.empty()) co_await state->keep_refused(status, refused);
    resume.journal = nullptr;
    co_await state->remove_journal();
    co_await state->edit_at_end();
    const std::string tape = state->main.tape;
    state->close();
    if (refused.empty()) co_return;
    throw cubepi::StaleAppendError(
        cubepi::ErrorCode::stale_append,
        "a turn is not part of tape '" + tape +
            "', because another process has continued the tape: " + refused +
            ". What the turn did is on the tape as the event " + std::string(detail::refused_event),
        tape);
}

Task<void> TurnTransaction::discard() {
    const std::shared_ptr<State> state = state_;
    if (state->over) co_return;
    co_await state->remove_journal();
    co_await state->edit_at_end();
    state->close();
}

}  // namespace bub
