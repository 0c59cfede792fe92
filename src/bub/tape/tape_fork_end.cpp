#include <algorithm>
#include <utility>

#include <bub/tape/detail/entry_facts.hpp>
#include <bub/tape/detail/fork_entries.hpp>
#include <bub/tape/detail/fork_state.hpp>
#include <bub/tape/detail/side_state.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/offload.hpp>

// How a fork ends: on the tape, refused, or not at all; and the claims that it holds until then.

namespace bub {

namespace {

using StateEdit = std::function<void(JsonObject&)>;

/// Asked under the tape's lock when the entries reach it (D50).
std::function<void(const JsonObject&)> guard_of(const detail::ForkBranch& branch) {
    if (branch.claims.empty()) return {};
    return [tape = branch.tape, claims = branch.claims](const JsonObject& state) {
        detail::check_claims(state, tape, claims);
    };
}

/// Makes the edits, and gives the claims that were held before and are not after: they were given up.
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

bool TapeFork::hold_claim(const std::string& tape, TapeClaim claim) {
    State& state = *state_;
    detail::ForkBranch* const branch = state.find(tape);
    if (!branch || state.over) return false;
    if (state.parent_claims && state.parent_claims->hold_claim(tape, claim)) return true;
    std::vector<TapeClaim>& claims = branch->claims;
    if (std::find(claims.begin(), claims.end(), claim) == claims.end())
        claims.push_back(std::move(claim));
    return true;
}

bool TapeFork::edit_state_at_end(const std::string& tape, StateEdit edit) {
    State& state = *state_;
    detail::ForkBranch* const branch = state.find(tape);
    if (!branch || state.over) return false;
    if (state.parent_claims && state.parent_claims->edit_state_at_end(tape, edit)) return true;
    branch->at_end.push_back(std::move(edit));
    return true;
}

Task<JsonObject> TapeFork::read_state(std::string tape) {
    const std::shared_ptr<State> state = state_;
    JsonObject beside = co_await state->side_state().read_state(tape);
    if (const detail::ForkBranch* const own = state->find(tape)) {
        for (const StateEdit& edit : own->at_end) edit(beside);
    }
    co_return beside;
}

/// What waits for the end is done with the next edit, which may be a claim that comes after the one given up.
Task<Json> TapeFork::edit_state(std::string tape, std::function<Json(JsonObject& state)> edit) {
    const std::shared_ptr<State> state = state_;
    TapeStateStore& beside = state->side_state();
    detail::ForkBranch* const own = state->find(tape);
    if (!own || own->at_end.empty()) {
        Json result = co_await beside.edit_state(std::move(tape), std::move(edit));
        co_return result;
    }
    const std::size_t count = own->at_end.size();
    const auto given_up = std::make_shared<std::vector<TapeClaim>>();
    std::function<Json(JsonObject&)> all = [edits = own->at_end, claims = own->claims, given_up,
                                            edit = std::move(edit)](JsonObject& now) {
        *given_up = make_edits(now, edits, claims);
        return edit(now);
    };
    Json result = co_await beside.edit_state(std::move(tape), std::move(all));
    own->at_end.erase(own->at_end.begin(),
                      own->at_end.begin() + static_cast<std::ptrdiff_t>(count));
    for (const TapeClaim& claim : *given_up) std::erase(own->claims, claim);
    own->journaled_claims = std::min(own->journaled_claims, own->claims.size());
    co_return result;
}

TapeStateStore& TapeFork::State::side_state() const {
    if (parent_state) return *parent_state;
    throw cubepi::Error(cubepi::ErrorCode::unsupported,
                        "the tape store under this fork has no side state");
}

bool TapeFork::State::holds_something() const {
    return main.holds_something() || !behind.empty() || !said.empty() ||
           std::any_of(sidecars.begin(), sidecars.end(),
                       [](const detail::ForkBranch& branch) { return branch.holds_something(); });
}

Task<void> TapeFork::State::check_claims() {
    if (main.claims.empty()) co_return;
    const JsonObject beside = co_await side_state().read_state(main.tape);
    detail::check_claims(beside, main.tape, main.claims);
}

Task<void> TapeFork::State::merge_sidecar(detail::ForkBranch* branch, TurnStatus status) {
    if (branch->merged || !branch->holds_something()) co_return;
    std::vector<TapeEntry> entries = branch->entries;
    const bool only_reset = entries.empty();
    // The marker also tells a restart that the sidecar has its part of the turn.
    if (!options.turn_id.empty())
        entries.push_back(detail::turn_marker(options.turn_id, to_string(status)));
    TapeAppend how = TapeAppend().reset(branch->reset).guard(guard_of(*branch));
    std::exception_ptr failure;
    try {
        if (only_reset) {
            co_await parent->reset(branch->tape);
        } else {
            (void)co_await parent->append(branch->tape, std::move(entries), std::move(how));
        }
    } catch (...) {
        failure = std::current_exception();
    }
    if (failure && cubepi::is_cancellation(failure)) std::rethrow_exception(failure);
    branch->merged = true;
    if (!failure) co_return;
    JsonObject data;
    data["sidecar"] = branch->sidecar;
    data["status"] = "error";
    data["error"] = cubepi::exception_text(failure);
    TapeEntry event = event_entry("sidecar.merge", std::move(data), hidden_from_context());
    event.date = tape_date(options.runtime->clock->wall());
    main.entries.push_back(std::move(event));
}

Task<void> TapeFork::State::merge_main(TurnStatus status) {
    std::vector<TapeEntry> entries = detail::mergeable(main.entries);
    if (!said.empty() && status != TurnStatus::ok)
        entries.push_back(detail::said_entry(said, options.turn_id, to_string(status)));
    entries.insert(entries.end(), behind.begin(), behind.end());
    if (entries.empty() && !main.reset) co_return;
    if (!options.turn_id.empty())
        entries.push_back(detail::turn_marker(options.turn_id, to_string(status)));
    const std::size_t first = main.reset ? 0 : detail::first_anchor_in(entries);
    TapeAppend how = TapeAppend()
                         .reset(main.reset)
                         .turn(journal->journal() ? options.turn_id : "")
                         .first_anchor(first)
                         .guard(guard_of(main));
    co_await parent->append(main.tape, std::move(entries), std::move(how));
}

Task<void> TapeFork::State::keep_refused(TurnStatus status, std::string reason) {
    detail::JournaledTurn turn;
    turn.id = options.turn_id;
    turn.entries = main.entries;
    turn.behind = behind;
    if (status != TurnStatus::ok) turn.said = said;
    for (const detail::ForkBranch& branch : sidecars) {
        if (branch.holds_something() && !branch.merged)
            turn.sidecars[branch.sidecar].entries = branch.entries;
    }
    std::vector<TapeEntry> entries;
    entries.push_back(detail::refused_turn(std::move(turn), to_string(status), std::move(reason)));
    TapeAppend how = TapeAppend().turn(journal->journal() ? options.turn_id : "");
    co_await parent->append(main.tape, std::move(entries), std::move(how));
}

Task<void> TapeFork::State::edit_at_end() {
    std::vector<detail::ForkBranch*> branches;
    if (!main.at_end.empty()) branches.push_back(&main);
    for (detail::ForkBranch& branch : sidecars) {
        if (!branch.at_end.empty()) branches.push_back(&branch);
    }
    for (detail::ForkBranch* const branch : branches) {
        std::function<Json(JsonObject&)> edit = [edits = branch->at_end](JsonObject& beside) {
            for (const StateEdit& one : edits) one(beside);
            return Json();
        };
        try {
            co_await side_state().edit_state(branch->tape, std::move(edit));
        } catch (const cubepi::Error&) {
            // The turn is what it is, and here it is over. For others a claim that stays is when its lease is.
            for (StateEdit& one : branch->at_end)
                side_state().edit_state_later(branch->tape, std::move(one));
        }
        branch->at_end.clear();
    }
}

void TapeFork::State::close() {
    over = true;
    if (timer) timer->cancel();
    timer.reset();
    main.entries.clear();
    sidecars.clear();
    behind.clear();
    said.clear();
}

Task<void> TapeFork::merge(TurnStatus status) {
    const std::shared_ptr<State> state = state_;
    state->check_open();
    std::string refused;
    std::exception_ptr failure;
    if (state->holds_something()) {
        try {
            // Once more when the entries reach the tape, under its lock; this is for the sidecars, which come first.
            co_await state->check_claims();
            for (detail::ForkBranch& branch : state->sidecars)
                co_await state->merge_sidecar(&branch, status);
            co_await state->merge_main(status);
        } catch (const cubepi::StaleAppendError& error) {
            refused = error.what();
        } catch (...) {
            failure = std::current_exception();
        }
    }
    if (failure) {
        // The journal stays, and whoever opens the next one closes the turn; nobody is in the middle of it any more.
        if (!cubepi::is_cancellation(failure)) co_await state->edit_at_end();
        std::rethrow_exception(failure);
    }
    if (!refused.empty()) co_await state->keep_refused(status, refused);
    if (const std::shared_ptr<TurnJournal> journal = state->journal->journal()) journal->remove();
    co_await state->edit_at_end();
    const std::string tape = state->main.tape;
    state->close();
    if (refused.empty()) co_return;
    throw cubepi::StaleAppendError(
        cubepi::ErrorCode::stale_append,
        "a turn is not part of tape '" + tape +
            "', because another process has gone on with it: " + refused +
            ". What the turn did is on the tape as the event " + std::string(detail::refused_event),
        tape);
}

Task<void> TapeFork::discard() {
    const std::shared_ptr<State> state = state_;
    if (state->over) co_return;
    if (const std::shared_ptr<TurnJournal> journal = state->journal->journal()) {
        auto remove = [journal] { journal->remove(); };
        co_await cubepi::offload(*state->options.runtime->workers, std::move(remove));
    }
    co_await state->edit_at_end();
    state->close();
}

}  // namespace bub
