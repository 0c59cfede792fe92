#include <bub/tape/turn_transaction.hpp>

#include <algorithm>
#include <utility>

#include <bub/tape/entry/entry_facts.hpp>
#include <bub/tape/file/tape_errors.hpp>
#include <bub/tape/fork/fork_entries.hpp>
#include <bub/tape/fork/fork_state.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/offload.hpp>
#include <cubepi/core/outcome.hpp>

namespace bub {

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

detail::ForkBranch* TurnTransaction::State::find(const std::string& tape) {
    return tape == main.tape ? &main : nullptr;
}

detail::JournalBuffer::Open TurnTransaction::State::journal_opener() {
    return [self = shared_from_this()] {
        return self->journals->open_journal(self->main.tape, self->options.turn_id);
    };
}

Task<void> TurnTransaction::State::write_journal() {
    if (!is_journaled() || journal->empty()) co_return;
    if (!timer) {
        const cubepi::Executor executor = co_await cubepi::this_executor;
        timer = options.runtime->clock->timer(executor);
    }
    timer->cancel();
    timer_armed = false;
    auto write = [buffer = journal, open = journal_opener()] { buffer->drain(open); };
    co_await cubepi::offload(*options.runtime->workers, std::move(write));
}

void TurnTransaction::State::post_partial_text() {
    timer_armed = false;
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
    timer_armed = false;
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

Task<void> TurnTransaction::State::journal_added(detail::ForkMark before, bool reset) {
    const std::vector<TapeEntry> added(
        main.entries.begin() + static_cast<std::ptrdiff_t>(before.entries), main.entries.end());
    journal_claims();
    const detail::JournalBuffer::Lines lines = journal->add(added, reset);
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
}

TurnTransaction::~TurnTransaction() {
    if (!state_->over) state_->post_partial_text();
    state_->timer.reset();
}

const std::string& TurnTransaction::tape() const noexcept { return state_->main.tape; }
const std::string& TurnTransaction::turn_id() const noexcept { return state_->options.turn_id; }
const std::vector<TapeEntry>& TurnTransaction::entries() const noexcept {
    return state_->main.entries;
}

void TurnTransaction::add_text(std::string_view delta) {
    State& state = *state_;
    if (state.over || delta.empty()) return;
    state.partial_text += delta;
    if (!state.is_journaled()) return;
    state.journal->add_partial_text(delta);
    if (!state.timer || state.timer_armed) return;
    state.timer_armed = true;
    const std::weak_ptr<State> weak = state_;
    state.timer->expires_after(state.options.flush_interval, [weak] {
        if (const std::shared_ptr<State> self = weak.lock()) self->post_partial_text();
    });
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
    detail::ForkBranch& main = state->main;
    if (options.guard()) {
        const JsonObject side_state = co_await read_state(tape);
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
    detail::ForkMark before{main.entries.size(), main.end, state->partial_text};
    const TapePosition end = state->add(std::move(entries));
    if (state->is_journaled()) co_await state->journal_added(std::move(before), options.reset());
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

}  // namespace bub
