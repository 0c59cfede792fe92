#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <bub/tape/tape_entry.hpp>
#include <bub/tape/tape_query.hpp>

namespace bub {

/// What goes with an append.
class TapeAppend {
public:
    TapeAppend() {}
    /// The tape is emptied in the same step, before the entries.
    TapeAppend&& reset(bool value = true) && {
        reset_ = value;
        return std::move(*this);
    }
    /// The tape's message position as the caller knows it (see TapePosition). When somebody has appended a message
    /// since, nothing is stored and cubepi::StaleAppendError is thrown (D20).
    TapeAppend&& expected_position(std::int64_t value) && {
        expected_position_ = value;
        return std::move(*this);
    }
    /// The turn whose entries these are. Its journal is removed in the same step.
    TapeAppend&& turn(std::string id) && {
        turn_ = std::move(id);
        return std::move(*this);
    }
    /// Called with the tape's side state under the tape's lock, before anything is stored: throws to refuse.
    /// On a worker thread; must not use the store.
    TapeAppend&& guard(std::function<void(const JsonObject& state)> value) && {
        guard_ = std::move(value);
        return std::move(*this);
    }
    /// The first `count` entries are an anchor for a tape without one: they are left out when it has one by now.
    TapeAppend&& first_anchor(std::size_t count) && {
        first_anchor_ = count;
        return std::move(*this);
    }
    bool reset() const& noexcept { return reset_; }
    std::size_t first_anchor() const& noexcept { return first_anchor_; }
    const std::optional<std::int64_t>& expected_position() const& noexcept {
        return expected_position_;
    }
    const std::string& turn() const& noexcept { return turn_; }
    const std::function<void(const JsonObject&)>& guard() const& noexcept { return guard_; }

private:
    bool reset_ = false;
    std::size_t first_anchor_ = 0;
    std::optional<std::int64_t> expected_position_;
    std::string turn_;
    std::function<void(const JsonObject&)> guard_;
};

/// Where a tape ends.
struct TapePosition {
    std::int64_t last_id = 0;
    /// How many messages the tape holds: what the stored position of a cubepi::Agent counts. Events and anchors do not
    /// move it, so what else is written during a run does not make the agent's next append stale.
    std::int64_t messages = 0;
};

/// Summary of a tape.
struct TapeInfo {
    std::int64_t entries = 0;
    std::int64_t anchors = 0;
    std::optional<std::string> last_anchor = {};
    std::int64_t entries_since_last_anchor = 0;  ///< all, when there is no anchor
    /// Of the newest `run` event whose data.usage.total_tokens is an integer.
    std::optional<std::int64_t> last_token_usage = {};
    std::optional<double> last_token_cache_hit_rate = {};
};

/// Where tapes are. Append-only; entries of one append become visible together, or not at all (B9). A tape that does not
/// exist reads as empty. Calls may come from several executors at once. Throws cubepi::Error: `not_found` (an anchor),
/// `invalid_argument` (dates, tape names), `storage`, `storage_locked`, `storage_full`.
class TapeStore {
public:
    virtual ~TapeStore() = default;

    /// The names of main tapes (those with exactly one "__"), sorted.
    virtual Task<std::vector<std::string>> list_tapes() = 0;
    /// All names, those of sidecars and of other forms too, sorted.
    virtual Task<std::vector<std::string>> all_tapes() = 0;
    /// The entries that fit, in tape order (or newest first).
    virtual Task<std::vector<TapeEntry>> fetch(std::string tape, TapeQuery query) = 0;
    /// The same, one by one, for what does not fit in memory: calls `visit` (maybe on a worker thread) until it returns
    /// false. Not to be cancelled by anything but that.
    virtual Task<void> visit(std::string tape, TapeQuery query,
                             std::function<bool(const TapeEntry&)> visit);
    /// Gives ids and dates, and stores all entries or none. Where the tape ends now.
    virtual Task<TapePosition> append(std::string tape, std::vector<TapeEntry> entries,
                                      TapeAppend options) = 0;
    virtual Task<TapePosition> position(std::string tape) = 0;
    /// Empties the tape: an explicit wish of a person (D47). Its side state stays.
    virtual Task<void> reset(std::string tape) = 0;
    virtual Task<TapeInfo> info(std::string tape) = 0;
    /// The last `limit` anchors, oldest first.
    virtual Task<std::vector<TapeEntry>> anchors(std::string tape, std::size_t limit) = 0;
};

/// Optional: a small JSON object beside each tape, for what changes and is no history (claims, pending requests).
class TapeStateStore {
public:
    virtual ~TapeStateStore() = default;
    /// Calls `edit` with the tape's state under the tape's lock, stores what it made of it atomically, and gives what
    /// it returned. When it throws, nothing is stored. On a worker thread, maybe; must not use the store.
    virtual Task<Json> edit_state(std::string tape,
                                  std::function<Json(JsonObject& state)> edit) = 0;
    /// For an edit that failed and may be late: made before the next one of this tape, as long as this store is there.
    virtual void edit_state_later(const std::string& /*tape*/,
                                  std::function<void(JsonObject& state)> /*edit*/) {}
    /// The state, without a lock.
    virtual Task<JsonObject> read_state(std::string tape) = 0;
};

/// Whose run a claim on a tape is, and who holds it (D50).
struct TapeClaim {
    std::string run_id = {};
    std::string owner_id = {};

    friend bool operator==(const TapeClaim&, const TapeClaim&) = default;
};

/// Optional: what is appended reaches the tape later, all together (TapeFork). Until then nobody else is to go on from the
/// tape, so a claim that was taken for it is held that long (D50).
class TurnClaims {
public:
    virtual ~TurnClaims() = default;
    /// Nothing of the turn reaches the tape when somebody else has taken this claim over. False: the tape is not one of the
    /// turn.
    virtual bool hold_claim(const std::string& tape, TapeClaim claim) = 0;
    /// Like edit_state, but others see it when the turn is over, merged or not; within the turn one sees it at once. False:
    /// the tape is not one of the turn, and nothing was done.
    virtual bool edit_state_at_end(const std::string& tape,
                                   std::function<void(JsonObject& state)> edit) = 0;
};

/// What a turn has for a tape beside its own.
struct SidecarPart {
    std::string tape = {};
    std::string sidecar = {};             ///< its name in events
    std::vector<TapeEntry> entries = {};  ///< none: the tape is emptied
    TapeAppend options = {};
    bool done = false;                ///< stored, or failed for good
    std::exception_ptr failure = {};  ///< why it was not stored
};

/// Optional: stores a turn and its sidecars in one go, so that nobody takes its claim over in between (D50).
class TurnMerges {
public:
    virtual ~TurnMerges() = default;
    /// append() to `tape`, where the guard of `options` is asked first; then each part is appended to its tape, then what
    /// `entries` makes of them (on a worker thread, maybe) to this one; all of it under this tape's lock. A part that fails
    /// stops nothing.
    virtual Task<TapePosition> merge_turn(
        std::string tape, std::shared_ptr<std::vector<SidecarPart>> parts,
        std::function<std::vector<TapeEntry>(const std::vector<SidecarPart>&)> entries,
        TapeAppend options) = 0;
};

/// Optional: finds entries without reading the tape.
class TapeIndex {
public:
    virtual ~TapeIndex() = default;
    /// The newest entry that carries the message with this id (D42).
    virtual Task<std::optional<TapeEntry>> find_message_entry(std::string tape,
                                                              std::string message_id) = 0;
    /// The newest `event` entry of this name.
    virtual Task<std::optional<TapeEntry>> find_event(std::string tape, std::string name) = 0;
    /// The newest event `cubepi.run` of this run.
    virtual Task<std::optional<TapeEntry>> find_run(std::string tape, std::string run_id) = 0;
};

/// Optional: bytes that entries refer to, each stored once, by hash (B10).
class TapeMediaStore {
public:
    virtual ~TapeMediaStore() = default;
    /// Stores the bytes, unless they are there already, and gives their SHA-256 in hex.
    virtual Task<std::string> put_media(std::string bytes) = 0;
    /// Nothing when there are no such bytes.
    virtual Task<std::optional<std::string>> get_media(std::string sha256) = 0;
};

/// The journal of one turn in progress, beside its tape. Any thread may call. What was written survives `kill -9`.
class TurnJournal {
public:
    virtual ~TurnJournal() = default;
    /// Appends whole lines: those of entries as on a tape, {"said": TEXT}, {"reset": true}, {"behind": ENTRY};
    /// {"sidecar": NAME, "entry": ENTRY} and {"sidecar": NAME, "reset": true}; {"claim": {"run_id", "owner_id"}, "after": N}
    /// of a turn that goes on from N messages under this claim. Blocks.
    virtual void write(std::string_view lines) = 0;
    /// Ends and removes the journal.
    virtual void remove() noexcept = 0;
};

/// Optional: keeps journals of turns, and closes those that a dead process left (B9) when a tape is used first.
class TurnJournalStore {
public:
    virtual ~TurnJournalStore() = default;
    /// Blocks; call it on a worker thread. The journal is made with the first thing written to it.
    virtual std::shared_ptr<TurnJournal> open_journal(const std::string& tape,
                                                      const std::string& turn_id) = 0;
};

}  // namespace bub
