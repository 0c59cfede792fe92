#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <bub/tape/fork/turn_journal.hpp>
#include <bub/tape/turn_lease.hpp>
#include <bub/tape/turn_reads.hpp>
#include <bub/tape/turn_transaction.hpp>
#include <cubepi/core/clock.hpp>

namespace bub {

namespace detail {

using StateEdit = std::function<void(JsonObject&)>;

/// The continuation of the tape inside the fork.
struct ForkBranch {
    std::string tape = {};
    std::vector<TapeEntry> entries = {};
    std::optional<TapePosition> base = {};  ///< of the parent, as of the first entry
    TapePosition end = {};
    bool reset = false;                  ///< the parent's entries are hidden
    std::vector<TapeClaim> claims = {};  ///< the merge requires all of them
    std::size_t journaled_claims = 0;
    /// Edits of the side state that are pending until the end of the turn.
    std::vector<StateEdit> at_end = {};

    bool holds_something() const { return reset || !entries.empty(); }
};

/// The end of a fork before an append.
struct ForkMark {
    std::size_t entries = 0;
    TapePosition end = {};
    std::string partial_text = {};
};

}  // namespace detail

struct TurnTransaction::State : std::enable_shared_from_this<TurnTransaction::State> {
    std::shared_ptr<TapeStore> parent;
    TapeMediaStore* parent_media = nullptr;
    TurnClaims* parent_claims = nullptr;
    TurnJournalStore* journals = nullptr;
    TurnReads* parent_reads = nullptr;
    AppendsWithState* edits_with_append = nullptr;
    TurnTransactionOptions options;

    detail::ForkBranch main;
    std::vector<TapeEntry> behind;
    bool over = false;

    std::string partial_text;  ///< text that is in no entry yet
    std::shared_ptr<detail::JournalBuffer> journal = std::make_shared<detail::JournalBuffer>();
    std::unique_ptr<cubepi::ClockTimer> timer;
    bool timer_armed = false;
    bool delayed = false;  ///< the timer is armed for entries that may wait only

    bool is_journaled() const { return !options.turn_id.empty() && journals; }
    void check_open() const;
    /// Returns null for a tape that is not in the fork.
    detail::ForkBranch* find(const std::string& tape);

    /// Returns the function that creates the journal, on a worker thread.
    detail::JournalBuffer::Open journal_opener();
    /// Writes the buffered journal lines, on a worker thread.
    Task<void> write_journal();
    /// Like write_journal(), without waiting.
    void post_partial_text();
    /// Creates the timer of the journal on the executor of the fork, which add_text() does not know.
    void set_timer(const cubepi::Executor& executor);
    void post_after(std::chrono::milliseconds time);
    /// Writes nothing more to the journal, and waits for the write in progress.
    Task<void> stop_journal();
    /// Removes the journal, even if the call is cancelled. Does nothing if there is none.
    Task<void> remove_journal();

    /// Returns the side state as the fork sees it. `recent`: TurnReads::recent_state(), if the parent has it.
    Task<JsonObject> read_state(std::string tape, bool recent);
    Task<void> find_base();
    /// Writes new claims to the journal.
    void journal_claims();
    /// Sets the date, and the meta of the fork's options.
    void stamp(TapeEntry& entry) const;
    TapePosition add(std::vector<TapeEntry> added);
    /// Journals the entries added since `before`. If that fails, removes them, because the append fails.
    Task<void> journal_added(detail::ForkMark before, bool reset, detail::JournalTime time);
    bool holds_something() const;
    /// Returns all entries of the turn, without its marker.
    std::vector<TapeEntry> whole_turn(TurnStatus status) const;
    /// Writes all entries to the parent, and makes the edits that are pending if the parent can do both in one step; nothing if a claim
    /// has been superseded (D50).
    Task<void> merge(TurnStatus status);
    /// Like merge(), but returns the reason if a claim has been superseded; empty if the entries were written.
    Task<std::string> merge_or_refusal(TurnStatus status);
    /// Preserves the fenced turn as an event on the tape.
    Task<void> keep_refused(TurnStatus status, std::string reason);
    std::function<void(JsonObject&)> pending_edits() const;
    Task<void> edit_at_end();
    /// Leaves the edits that are pending to the parent, which makes them with its next one.
    void edit_later();
    void close();
};

}  // namespace bub
