#include <bub/tape/tape_fork.hpp>

#include <algorithm>
#include <set>
#include <utility>

#include <bub/tape/detail/entry_facts.hpp>
#include <bub/tape/detail/fork_entries.hpp>
#include <bub/tape/detail/query_filter.hpp>
#include <bub/tape/detail/tape_errors.hpp>
#include <bub/tape/detail/turn_journal_file.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/offload.hpp>

namespace bub {

std::string_view to_string(TurnStatus status) noexcept {
    switch (status) {
        case TurnStatus::ok: return "ok";
        case TurnStatus::error: return "error";
        case TurnStatus::cancelled: return "cancelled";
        case TurnStatus::interrupted: return "interrupted";
    }
    return "";
}

struct TapeFork::State : std::enable_shared_from_this<TapeFork::State> {
    std::shared_ptr<TapeStore> parent;
    TapeStateStore* parent_state = nullptr;
    TapeIndex* parent_index = nullptr;
    TapeMediaStore* parent_media = nullptr;
    TurnJournalStore* journals = nullptr;
    std::string tape;
    TapeForkOptions options;

    std::vector<TapeEntry> entries;
    std::optional<TapePosition> base;  ///< of the parent, when the first entry came
    TapePosition end;
    bool reset = false;  ///< the parent's entries are hidden
    bool over = false;

    std::string said;  ///< said, and in no entry yet
    std::shared_ptr<detail::JournalBuffer> journal = std::make_shared<detail::JournalBuffer>();
    std::unique_ptr<cubepi::ClockTimer> timer;
    bool timer_armed = false;

    bool is_journaled() const { return !options.turn_id.empty() && journals; }
    void check_open() const {
        if (!over) return;
        throw cubepi::Error(cubepi::ErrorCode::invalid_state,
                            "the fork of tape '" + tape + "' was merged or discarded already");
    }

    /// Writes what waits for the journal. Any thread.
    void drain() {
        journal->drain([this] { return journals->open_journal(tape, options.turn_id); });
    }

    /// The same on a worker thread, because the file system may take its time.
    Task<void> write_journal() {
        if (!is_journaled() || journal->empty()) co_return;
        if (!timer) {
            const cubepi::Executor executor = co_await cubepi::this_executor;
            timer = options.runtime->clock->timer(executor);
        }
        timer->cancel();
        timer_armed = false;
        const std::shared_ptr<State> self = shared_from_this();
        auto write = [self] { self->drain(); };
        co_await cubepi::offload(*options.runtime->workers, std::move(write));
    }

    /// The same, and nobody waits for it.
    void post_said() {
        timer_armed = false;
        if (!is_journaled() || journal->empty()) return;
        options.runtime->workers->post([self = shared_from_this()] {
            try {
                self->drain();
            } catch (const std::exception&) {
                // The lines stay, and whoever writes the next ones hears of it.
                return;
            }
        });
    }

    Task<void> find_base() {
        if (base) co_return;
        base = co_await parent->position(tape);
        if (!reset) end = *base;
    }

    TapePosition add(std::vector<TapeEntry> added) {
        for (TapeEntry& entry : added) {
            entry.id = ++end.last_id;
            if (entry.date.empty()) entry.date = tape_date(options.runtime->clock->wall());
            end.messages = detail::set_position(entry, end.messages);
            if (detail::is_answer(entry)) said.clear();
            entries.push_back(std::move(entry));
        }
        return end;
    }

    void close() {
        over = true;
        if (timer) timer->cancel();
        timer.reset();
        entries.clear();
        said.clear();
    }
};

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

TapeFork::TapeFork(std::shared_ptr<TapeStore> parent, std::string tape, TapeForkOptions options)
    : state_(std::make_shared<State>()) {
    detail::check_tape_name(tape);
    State& state = *state_;
    state.parent = std::move(parent);
    state.tape = std::move(tape);
    state.options = std::move(options);
    if (!state.options.runtime) state.options.runtime = cubepi::Runtime::standard();
    state.parent_state = dynamic_cast<TapeStateStore*>(state.parent.get());
    state.parent_index = dynamic_cast<TapeIndex*>(state.parent.get());
    state.parent_media = dynamic_cast<TapeMediaStore*>(state.parent.get());
    state.journals = dynamic_cast<TurnJournalStore*>(state.parent.get());
}

TapeFork::~TapeFork() {
    if (!state_->over) state_->post_said();
    state_->timer.reset();
}

const std::string& TapeFork::tape() const noexcept { return state_->tape; }
const std::string& TapeFork::turn_id() const noexcept { return state_->options.turn_id; }
const std::vector<TapeEntry>& TapeFork::entries() const noexcept { return state_->entries; }

void TapeFork::said(std::string_view delta) {
    State& state = *state_;
    if (state.over || delta.empty()) return;
    state.said += delta;
    if (!state.is_journaled()) return;
    state.journal->add_said(delta);
    if (!state.timer || state.timer_armed) return;
    state.timer_armed = true;
    const std::weak_ptr<State> weak = state_;
    state.timer->expires_after(state.options.flush_interval, [weak] {
        if (const std::shared_ptr<State> self = weak.lock()) self->post_said();
    });
}

Task<void> TapeFork::flush() {
    const std::shared_ptr<State> state = state_;
    if (!state->over) co_await state->write_journal();
}

Task<void> TapeFork::merge(TurnStatus status) {
    const std::shared_ptr<State> state = state_;
    state->check_open();
    std::vector<TapeEntry> entries = detail::mergeable(state->entries);
    if (!state->said.empty() && status != TurnStatus::ok) {
        entries.push_back(
            detail::said_entry(state->said, state->options.turn_id, to_string(status)));
    }
    const bool empty = entries.empty() && !state->reset;
    if (!state->options.turn_id.empty() && !empty) {
        entries.push_back(detail::turn_marker(state->options.turn_id, to_string(status)));
    }
    const std::shared_ptr<TurnJournal> journal = state->journal->journal();
    if (!empty) {
        TapeAppend options =
            TapeAppend().reset(state->reset).turn(journal ? state->options.turn_id : "");
        co_await state->parent->append(state->tape, std::move(entries), std::move(options));
    }
    if (journal) journal->remove();
    state->close();
}

Task<void> TapeFork::discard() {
    const std::shared_ptr<State> state = state_;
    if (state->over) co_return;
    if (const std::shared_ptr<TurnJournal> journal = state->journal->journal()) {
        auto remove = [journal] { journal->remove(); };
        co_await cubepi::offload(*state->options.runtime->workers, std::move(remove));
    }
    state->close();
}

Task<std::vector<std::string>> TapeFork::list_tapes() { return state_->parent->list_tapes(); }
Task<std::vector<std::string>> TapeFork::all_tapes() { return state_->parent->all_tapes(); }

Task<std::vector<TapeEntry>> TapeFork::fetch(std::string tape, TapeQuery query) {
    const std::shared_ptr<State> state = state_;
    if (tape != state->tape) {
        std::vector<TapeEntry> found =
            co_await state->parent->fetch(std::move(tape), std::move(query));
        co_return found;
    }
    state->check_open();
    // Dates are checked before anchors are looked for, as in a store.
    (void)detail::QueryFilter(query);
    detail::ForkSlice slice = detail::split_query(state->entries, query, state->reset);
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
            // The slice begins on the tape; it ends in the fork, or nowhere.
            TapeQuery open = query;
            TapeQuery rest = std::move(open).after_anchor(query.first_anchor());
            found = co_await state->parent->fetch(std::move(tape), std::move(rest));
            if (!slice.ends_here) std::rethrow_exception(no_end);
        }
    }
    detail::join_parts(found, state->entries, slice, query);
    co_return found;
}

Task<TapePosition> TapeFork::append(std::string tape, std::vector<TapeEntry> entries,
                                    TapeAppend options) {
    const std::shared_ptr<State> state = state_;
    if (tape != state->tape) {
        const TapePosition end =
            co_await state->parent->append(std::move(tape), std::move(entries), std::move(options));
        co_return end;
    }
    state->check_open();
    co_await state->find_base();
    if (options.guard()) {
        JsonObject beside;
        if (state->parent_state) beside = co_await state->parent_state->read_state(tape);
        options.guard()(beside);
    }
    if (options.expected_position() && *options.expected_position() != state->end.messages)
        detail::throw_stale(tape, *options.expected_position(), state->end.messages);
    if (options.reset()) {
        state->entries.clear();
        state->reset = true;
        state->end = TapePosition();
    }
    const std::size_t before = state->entries.size();
    const TapePosition end = state->add(std::move(entries));
    if (state->is_journaled()) {
        const std::vector<TapeEntry> added(
            state->entries.begin() + static_cast<std::ptrdiff_t>(before), state->entries.end());
        state->journal->add(added, options.reset());
        co_await state->write_journal();
    }
    co_return end;
}

Task<TapePosition> TapeFork::position(std::string tape) {
    const std::shared_ptr<State> state = state_;
    if (tape != state->tape) {
        const TapePosition end = co_await state->parent->position(std::move(tape));
        co_return end;
    }
    if (state->base || state->reset) co_return state->end;
    const TapePosition end = co_await state->parent->position(std::move(tape));
    co_return end;
}

Task<void> TapeFork::reset(std::string tape) {
    const std::shared_ptr<State> state = state_;
    if (tape != state->tape) {
        co_await state->parent->reset(std::move(tape));
        co_return;
    }
    std::vector<TapeEntry> none;
    TapeAppend options = TapeAppend().reset();
    co_await append(std::move(tape), std::move(none), std::move(options));
}

Task<TapeInfo> TapeFork::info(std::string tape) {
    const std::shared_ptr<State> state = state_;
    TapeInfo info;
    if (tape != state->tape || !state->reset) info = co_await state->parent->info(tape);
    if (tape != state->tape) co_return info;
    for (const TapeEntry& entry : state->entries) detail::add_to(info, detail::facts_of(entry));
    co_return info;
}

Task<std::vector<TapeEntry>> TapeFork::anchors(std::string tape, std::size_t limit) {
    const std::shared_ptr<State> state = state_;
    std::vector<TapeEntry> found;
    if (tape != state->tape || !state->reset) found = co_await state->parent->anchors(tape, limit);
    if (tape != state->tape) co_return found;
    for (const TapeEntry& entry : state->entries) {
        if (detail::is_anchor(entry)) found.push_back(entry);
    }
    if (found.size() > limit)
        found.erase(found.begin(), found.end() - static_cast<std::ptrdiff_t>(limit));
    co_return found;
}

Task<Json> TapeFork::edit_state(std::string tape, std::function<Json(JsonObject& state)> edit) {
    return needed(state_->parent_state, "side state").edit_state(std::move(tape), std::move(edit));
}

Task<JsonObject> TapeFork::read_state(std::string tape) {
    return needed(state_->parent_state, "side state").read_state(std::move(tape));
}

Task<std::optional<TapeEntry>> TapeFork::find_message_entry(std::string tape,
                                                            std::string message_id) {
    const std::shared_ptr<State> state = state_;
    std::optional<TapeEntry> found;
    if (tape == state->tape) {
        found = newest(state->entries, [&](const TapeEntry& entry) {
            const detail::EntryFacts facts = detail::facts_of(entry);
            return std::find(facts.message_ids.begin(), facts.message_ids.end(), message_id) !=
                   facts.message_ids.end();
        });
        if (found || state->reset) co_return found;
    }
    TapeIndex& index = needed(state->parent_index, "index");
    found = co_await index.find_message_entry(std::move(tape), std::move(message_id));
    co_return found;
}

Task<std::optional<TapeEntry>> TapeFork::find_event(std::string tape, std::string name) {
    const std::shared_ptr<State> state = state_;
    std::optional<TapeEntry> found;
    if (tape == state->tape) {
        found = newest(state->entries, [&](const TapeEntry& entry) {
            return entry.kind == entry_kind::event && entry_name(entry) == name;
        });
        if (found || state->reset) co_return found;
    }
    TapeIndex& index = needed(state->parent_index, "index");
    found = co_await index.find_event(std::move(tape), std::move(name));
    co_return found;
}

Task<std::optional<TapeEntry>> TapeFork::find_run(std::string tape, std::string run_id) {
    const std::shared_ptr<State> state = state_;
    std::optional<TapeEntry> found;
    if (tape == state->tape) {
        found = newest(state->entries, [&](const TapeEntry& entry) {
            return detail::facts_of(entry).run_id == run_id;
        });
        if (found || state->reset) co_return found;
    }
    TapeIndex& index = needed(state->parent_index, "index");
    found = co_await index.find_run(std::move(tape), std::move(run_id));
    co_return found;
}

Task<std::string> TapeFork::put_media(std::string bytes) {
    return needed(state_->parent_media, "media").put_media(std::move(bytes));
}

Task<std::optional<std::string>> TapeFork::get_media(std::string sha256) {
    return needed(state_->parent_media, "media").get_media(std::move(sha256));
}

}  // namespace bub
