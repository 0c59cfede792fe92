#include <bub/tape/turn_transaction.hpp>

#include <algorithm>
#include <iterator>
#include <utility>

#include <bub/tape/checkpointer/side_state.hpp>
#include <bub/tape/entry/entry_fields.hpp>
#include <bub/tape/fork/fork_state.hpp>
#include <bub/tape/turn_lease.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/offload.hpp>
#include <cubepi/core/outcome.hpp>

namespace bub {

using detail::ForkBranch;
using detail::ForkMark;
using detail::StateEdit;

namespace {

/// Until entries that may wait are journaled.
constexpr std::chrono::milliseconds longest_delay{1'000};

}  // namespace

std::string_view to_string(TurnStatus status) noexcept {
    switch (status) {
        case TurnStatus::ok: return "ok";
        case TurnStatus::error: return "error";
        case TurnStatus::cancelled: return "cancelled";
        case TurnStatus::interrupted: return "interrupted";
        case TurnStatus::suspended: return "suspended";
    }
    return "";
}

void TurnTransaction::State::check_open() const {
    if (!over) return;
    throw cubepi::Error(cubepi::ErrorCode::invalid_state,
                        "the fork of tape '" + main.tape + "' was merged or discarded already");
}

ForkBranch* TurnTransaction::State::find(const std::string& tape) {
    return tape == main.tape ? &main : nullptr;
}

detail::JournalBuffer::Open TurnTransaction::State::journal_opener() {
    return [self = shared_from_this()] {
        return self->journals->open_journal(self->main.tape, self->options.turn_id);
    };
}

Task<void> TurnTransaction::State::write_journal() {
    if (!is_journaled() || journal->empty()) co_return;
    const cubepi::Executor executor = co_await cubepi::this_executor;
    set_timer(executor);
    timer->cancel();
    timer_armed = delayed = false;
    auto write = [buffer = journal, open = journal_opener()] { buffer->drain(open); };
    co_await cubepi::offload(*options.runtime->workers, std::move(write));
}

void TurnTransaction::State::set_timer(const cubepi::Executor& executor) {
    if (!timer) timer = options.runtime->clock->timer(executor);
}

void TurnTransaction::State::post_after(std::chrono::milliseconds time) {
    const std::weak_ptr<State> weak = weak_from_this();
    timer->expires_after(time, [weak] {
        if (const std::shared_ptr<State> self = weak.lock()) self->post_partial_text();
    });
}

void TurnTransaction::State::post_partial_text() {
    timer_armed = delayed = false;
    if (!is_journaled() || journal->empty()) return;
    options.runtime->workers->post([buffer = journal, open = journal_opener()] {
        try {
            buffer->drain_or_leave(open);
        } catch (const std::exception&) {
            // The lines stay buffered, and the next writer reports the failure.
            return;
        }
    });
}

Task<void> TurnTransaction::State::stop_journal() {
    if (timer) timer->cancel();
    timer_armed = delayed = false;
    journal->stop();
    if (!journal->is_writing()) co_return;
    auto wait = [buffer = journal] { buffer->wait(); };
    co_await cubepi::offload(*options.runtime->workers, std::move(wait));
}

Task<void> TurnTransaction::State::remove_journal() {
    journal->stop();
    if (!journal->is_writing() && !journal->journal()) co_return;
    auto remove = [buffer = journal] { buffer->remove(); };
    std::function<void()> again = remove;
    Task<void> task = cubepi::offload(*options.runtime->workers, std::move(remove));
    const cubepi::Outcome<> removed = co_await cubepi::outcome_of(std::move(task));
    // A cancelled call may not have been made; a second one does nothing.
    if (!removed) options.runtime->workers->post(std::move(again));
}

Task<void> TurnTransaction::State::find_base() {
    if (main.base) co_return;
    main.base = co_await parent->position(main.tape);
    if (!main.reset) main.end = *main.base;
}

void TurnTransaction::State::journal_claims() {
    for (; main.journaled_claims < main.claims.size(); ++main.journaled_claims)
        journal->add_claim(main.claims[main.journaled_claims], main.base->messages);
}

void TurnTransaction::State::stamp(TapeEntry& entry) const {
    if (entry.date.empty()) entry.date = tape_date(options.runtime->clock->wall());
    for (const auto& [key, value] : options.meta) entry.meta[key] = value;
}

TapePosition TurnTransaction::State::add(std::vector<TapeEntry> added) {
    for (TapeEntry& entry : added) {
        entry.id = ++main.end.last_id;
        stamp(entry);
        main.end.messages = detail::set_position(entry, main.end.messages);
        if (detail::is_answer(entry)) partial_text.clear();
        main.entries.push_back(std::move(entry));
    }
    return main.end;
}

Task<void> TurnTransaction::State::journal_added(ForkMark before, bool reset,
                                                 detail::JournalTime time) {
    const std::vector<TapeEntry> added(
        main.entries.begin() + static_cast<std::ptrdiff_t>(before.entries), main.entries.end());
    journal_claims();
    const detail::JournalBuffer::Lines lines = journal->add(added, reset);
    if (time != detail::JournalTime::at_once) {
        // Nothing may follow for long, for example while a tool runs.
        const cubepi::Executor executor = co_await cubepi::this_executor;
        set_timer(executor);
        if (timer_armed) co_return;
        if (time == detail::JournalTime::like_text) {
            timer_armed = true;
            post_after(options.flush_interval);
        } else if (!std::exchange(delayed, true)) {
            post_after(longest_delay);
        }
        co_return;
    }
    const cubepi::Outcome<> written = co_await cubepi::outcome_of(write_journal());
    const bool last = main.entries.size() == before.entries + added.size();
    if (!written && last && !reset && journal->take_back(lines)) {
        main.entries.resize(before.entries);
        main.end = before.end;
        partial_text = std::move(before.partial_text);
    }
    written.rethrow();
}

TurnTransaction::TurnTransaction(std::shared_ptr<TapeStore> parent, std::string tape,
                                 TurnTransactionOptions options)
    : state_(std::make_shared<State>()) {
    detail::check_tape_name(tape);
    State& state = *state_;
    state.parent = std::move(parent);
    state.options = std::move(options);
    state.main.tape = std::move(tape);
    if (!state.options.runtime) state.options.runtime = cubepi::Runtime::standard();
    state.parent_media = dynamic_cast<TapeMediaStore*>(state.parent.get());
    state.parent_claims = dynamic_cast<TurnClaims*>(state.parent.get());
    state.journals = dynamic_cast<TurnJournalStore*>(state.parent.get());
    if (state.journals) {
        std::chrono::milliseconds& interval = state.options.flush_interval;
        interval = std::max(interval, state.journals->text_interval());
    }
    state.parent_reads = dynamic_cast<TurnReads*>(state.parent.get());
    state.edits_with_append = dynamic_cast<AppendsWithState*>(state.parent.get());
}

TurnTransaction::~TurnTransaction() {
    if (!state_->over) {
        state_->post_partial_text();
        state_->edit_later();
    }
    state_->timer.reset();
}

const std::string& TurnTransaction::tape() const noexcept { return state_->main.tape; }
const std::vector<TapeEntry>& TurnTransaction::entries() const noexcept {
    return state_->main.entries;
}

Task<void> TurnTransaction::open() {
    const std::shared_ptr<State> state = state_;
    if (!state->is_journaled()) co_return;
    // A turn that continues an earlier one may show text before it appends anything.
    const cubepi::Executor executor = co_await cubepi::this_executor;
    state->set_timer(executor);
    auto work = [buffer = state->journal, open = state->journal_opener()] { buffer->open(open); };
    co_await cubepi::offload(*state->options.runtime->workers, std::move(work));
}

void TurnTransaction::add_text(std::string_view delta) {
    State& state = *state_;
    if (state.over || delta.empty()) return;
    state.partial_text += delta;
    if (!state.is_journaled()) return;
    state.journal->add_partial_text(delta);
    if (!state.timer || state.timer_armed) return;
    state.timer_armed = true;
    state.post_after(state.options.flush_interval);
}

Task<void> TurnTransaction::flush() {
    const std::shared_ptr<State> state = state_;
    if (!state->over) co_await state->write_journal();
}

Task<void> TurnTransaction::append_behind(std::vector<TapeEntry> entries) {
    const std::shared_ptr<State> state = state_;
    state->check_open();
    detail::check_depth(state->main.tape, entries);
    entries = detail::mergeable(entries);
    for (TapeEntry& entry : entries) {
        state->stamp(entry);
    }
    if (state->is_journaled()) {
        state->journal->add_behind(entries);
        co_await state->write_journal();
    }
    for (TapeEntry& entry : entries) state->behind.push_back(std::move(entry));
}

Task<TapePosition> TurnTransaction::append(std::string tape, std::vector<TapeEntry> entries,
                                           TapeAppend options) {
    const std::shared_ptr<State> state = state_;
    if (!state->find(tape)) {
        const TapePosition end =
            co_await state->parent->append(std::move(tape), std::move(entries), std::move(options));
        co_return end;
    }
    state->check_open();
    detail::check_depth(tape, entries);
    co_await state->find_base();
    ForkBranch& main = state->main;
    if (options.guard()) {
        // The merge checks the claims again, under the lock of the tape.
        const JsonObject side_state = co_await state->read_state(tape, true);
        options.guard()(side_state);
    }
    if (options.expected_position() && *options.expected_position() != main.end.messages)
        detail::throw_stale(tape, *options.expected_position(), main.end.messages);
    if (options.reset()) {
        main.entries.clear();
        main.reset = true;
        main.end = TapePosition();
    }
    if (options.first_anchor() > 0) {
        const std::vector<TapeEntry> there = co_await anchors(tape, 1);
        if (!there.empty()) detail::drop_first(entries, options.first_anchor());
    }
    ForkMark before{main.entries.size(), main.end, state->partial_text};
    const detail::JournalTime time = options.reset() ? detail::JournalTime::at_once
                                                     : detail::journal_time(entries, main.entries);
    const TapePosition end = state->add(std::move(entries));
    if (state->is_journaled())
        co_await state->journal_added(std::move(before), options.reset(), time);
    co_return end;
}

Task<void> TurnTransaction::reset(std::string tape) {
    const std::shared_ptr<State> state = state_;
    if (!state->find(tape)) {
        co_await state->parent->reset(std::move(tape));
        co_return;
    }
    std::vector<TapeEntry> none;
    TapeAppend options = TapeAppend().reset();
    co_await append(std::move(tape), std::move(none), std::move(options));
}

// The end of a fork: merged into the tape, fenced, or discarded; and the claims that it holds until then.

namespace {

/// Called under the tape's lock when the entries are appended (D50).
std::function<void(const JsonObject&)> guard_of(const ForkBranch& branch) {
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
    ForkBranch* const branch = state.find(tape);
    if (!branch || state.over) return false;
    if (state.parent_claims && state.parent_claims->hold_claim(tape, claim)) return true;
    std::vector<TapeClaim>& claims = branch->claims;
    if (std::find(claims.begin(), claims.end(), claim) == claims.end())
        claims.push_back(std::move(claim));
    return true;
}

bool TurnTransaction::edit_state_at_end(const std::string& tape, StateEdit edit) {
    State& state = *state_;
    ForkBranch* const branch = state.find(tape);
    if (!branch || state.over) return false;
    if (state.parent_claims && state.parent_claims->edit_state_at_end(tape, edit)) return true;
    branch->at_end.push_back(std::move(edit));
    return true;
}

/// Pending edits are applied with the next edit, which may be a claim that follows a released one.
Task<Json> TurnTransaction::edit_state(std::string tape,
                                       std::function<Json(JsonObject& state)> edit) {
    const std::shared_ptr<State> state = state_;
    ForkBranch* const own = state->find(tape);
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
    if (!edits_with_append || main.at_end.empty()) {
        (void)co_await parent->append(main.tape, std::move(entries), std::move(how));
        co_return;
    }
    const auto made = static_cast<std::ptrdiff_t>(main.at_end.size());
    std::function<void(JsonObject&)> edits = pending_edits();
    (void)co_await edits_with_append->append_and_edit(main.tape, std::move(entries), std::move(how),
                                                      std::move(edits));
    main.at_end.erase(main.at_end.begin(), main.at_end.begin() + made);
}

Task<std::string> TurnTransaction::State::merge_or_refusal(TurnStatus status) {
    std::string refusal;
    try {
        co_await merge(status);
    } catch (const SessionTakenError&) {
        // The process that has the session closes the turn: nothing about it is written here.
        throw;
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

std::function<void(JsonObject&)> TurnTransaction::State::pending_edits() const {
    return [edits = main.at_end](JsonObject& side_state) {
        for (const StateEdit& one : edits) one(side_state);
    };
}

Task<void> TurnTransaction::State::edit_at_end() {
    if (main.at_end.empty()) co_return;
    std::function<Json(JsonObject&)> edit = [edits = pending_edits()](JsonObject& side_state) {
        edits(side_state);
        return Json();
    };
    try {
        co_await parent->edit_state(main.tape, std::move(edit));
    } catch (const SessionTakenError&) {
        // The claims have ended with the lease.
        main.at_end.clear();
        co_return;
    } catch (const cubepi::Error&) {
        // The turn has ended regardless.
        edit_later();
    }
    main.at_end.clear();
}

/// A claim that remains blocks other processes until its lease expires, and this one not at all.
void TurnTransaction::State::edit_later() {
    for (StateEdit& one : main.at_end) parent->edit_state_later(main.tape, std::move(one));
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
