#pragma once

#include <chrono>
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
#include <cubepi/agent/question_store.hpp>

namespace bub {

/// The options of an append.
class TapeAppend {
public:
    TapeAppend() {}
    /// Empties the tape in the same step, before the entries are appended.
    TapeAppend&& reset(bool value = true) && {
        reset_ = value;
        return std::move(*this);
    }
    /// Sets the tape's message position as known to the caller (see TapePosition). If another message has been appended
    /// since, nothing is stored and cubepi::StaleAppendError is thrown (D20).
    TapeAppend&& expected_position(std::int64_t value) && {
        expected_position_ = value;
        return std::move(*this);
    }
    /// Sets the turn to which the entries belong. Its journal is removed in the same step.
    TapeAppend&& turn(std::string id) && {
        turn_ = std::move(id);
        return std::move(*this);
    }
    /// Rejects the append with cubepi::StaleAppendError if another process has closed the turn of turn(): it took this process
    /// for dead. Without effect in a store whose journals no other process can close, and for a turn without a journal.
    TapeAppend&& turn_must_be_open(bool value = true) && {
        turn_must_be_open_ = value;
        return std::move(*this);
    }
    /// The entries keep their ids, each of which must be greater than the one before and than the last id of the tape, and
    /// cubepi::StaleAppendError is thrown otherwise: for copies of tapes.
    TapeAppend&& keep_ids(bool value = true) && {
        keep_ids_ = value;
        return std::move(*this);
    }
    /// Sets a function that is called with the tape's side state under the tape's lock, before anything is stored; it
    /// throws to reject the append. It runs on a worker thread and must not use the store.
    TapeAppend&& guard(std::function<void(const JsonObject& state)> value) && {
        guard_ = std::move(value);
        return std::move(*this);
    }
    /// Marks the first `count` entries as an anchor for a tape without one; they are omitted if the tape has an anchor
    /// by then.
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
    bool turn_must_be_open() const& noexcept { return turn_must_be_open_; }
    bool keep_ids() const& noexcept { return keep_ids_; }
    const std::function<void(const JsonObject&)>& guard() const& noexcept { return guard_; }

private:
    bool reset_ = false;
    std::size_t first_anchor_ = 0;
    std::optional<std::int64_t> expected_position_;
    std::string turn_;
    bool turn_must_be_open_ = false;
    bool keep_ids_ = false;
    std::function<void(const JsonObject&)> guard_;
};

/// The end of a tape.
struct TapePosition {
    std::int64_t last_id = 0;
    /// The number of messages on the tape: the stored position of a cubepi::Agent. Events and anchors do not count, so
    /// other entries written during a run do not make the agent's next append stale.
    std::int64_t messages = 0;
};

/// A key by which an entry is found: the id of a message that it carries (D42), the name of an `event` entry, the run of an event
/// `cubepi.run`.
enum class TapeKey : std::uint8_t { message, event, run };

/// A summary of a tape.
struct TapeInfo {
    std::int64_t entries = 0;
    std::int64_t anchors = 0;
    std::optional<std::string> last_anchor = {};
    std::int64_t entries_since_last_anchor = 0;  ///< all entries if there is no anchor
    /// From the newest `run` event whose data.usage.total_tokens is an integer.
    std::optional<std::int64_t> last_token_usage = {};
    std::optional<double> last_token_cache_hit_rate = {};
};

/// A store of tapes. Append-only; entries of one append become visible together, or not at all (B9). A tape that does
/// not exist reads as empty. Each tape also has a small JSON object, its side state, for mutable data that is not
/// history (claims, pending requests). Throws cubepi::Error: `not_found` (an anchor), `invalid_argument` (dates, tape
/// names), `storage`, `storage_locked`, `storage_full`.
///
/// Thread rules: any thread may call any function at any time, on several executors at once; a task resumes on the executor
/// that awaits it and never blocks it. That executor must outlive the call. The store must outlive the tasks that it returned,
/// unless an implementation states otherwise. Writes of one tape are executed one after another, also those of other
/// processes that share the store; their order is that of the locks and not that of the calls. Functions that are passed
/// (`edit`, a guard, `visit`) are called during the task, by one thread at a time, on the executor of the call or on a worker
/// thread; they must not use the store, and in a store that repeats transactions they may be called more than once.
/// state_file() and edit_state_later() return at once. Cancelling a task ends its wait; whether a write that had begun is stored
/// is then undefined, but it is stored whole or not at all.
///
/// A store implements the pure virtual functions; `tape_store_support.hpp` has what their implementations share, and
/// docs/guides/bub/tape-stores.md a complete store. The other functions have defaults that read the tape; override
/// those that the store can answer faster. Further abilities are the optional interfaces below.
class TapeStore {
public:
    virtual ~TapeStore() = default;

    /// Returns all names of tapes with entries, including those of sidecars and names of other forms, sorted.
    virtual Task<std::vector<std::string>> all_tapes() = 0;
    /// Returns the matching entries in tape order (or newest first).
    virtual Task<std::vector<TapeEntry>> fetch(std::string tape, TapeQuery query) = 0;
    /// Assigns ids and dates, and stores all entries or none. Returns the new end of the tape.
    virtual Task<TapePosition> append(std::string tape, std::vector<TapeEntry> entries,
                                      TapeAppend options) = 0;
    virtual Task<TapePosition> position(std::string tape) = 0;
    /// Calls `edit` with the tape's side state under the tape's lock, stores the edited state atomically, and returns
    /// the result of `edit`. If `edit` throws, nothing is stored. It may run on a worker thread and must not use the
    /// store.
    virtual Task<Json> edit_state(std::string tape,
                                  std::function<Json(JsonObject& state)> edit) = 0;
    /// Returns the side state without locking.
    virtual Task<JsonObject> read_state(std::string tape) = 0;
    /// Returns a page of the pending requests in the side states of all tapes, those without entries too, as
    /// QuestionStore::list_requests() does. InboxBuilder of `tape_store_support.hpp` builds it from the states; a store with many
    /// tapes needs an index.
    virtual Task<cubepi::QuestionPage> list_requests(cubepi::QuestionQuery query) = 0;

    /// Returns the names of main tapes (those with exactly one "__"), sorted.
    Task<std::vector<std::string>> list_tapes();
    /// Visits the matching entries one by one, for results that do not fit in memory: calls `visit` (possibly on a
    /// worker thread) until it returns false. Cannot be cancelled otherwise.
    virtual Task<void> visit(std::string tape, TapeQuery query,
                             std::function<bool(const TapeEntry&)> visit);
    /// Empties the tape; only on an explicit request of the user (D47). Its side state is preserved.
    virtual Task<void> reset(std::string tape);
    virtual Task<TapeInfo> info(std::string tape);
    /// Returns the last `limit` anchors, oldest first.
    virtual Task<std::vector<TapeEntry>> anchors(std::string tape, std::size_t limit);
    /// Returns the file of the tape's side state, for error messages. By default empty.
    virtual std::string state_file(const std::string& tape) const;
    /// Schedules an edit of the side state that failed and may be applied late: it precedes the next edit of this tape,
    /// as long as the store exists. By default the edit is dropped.
    virtual void edit_state_later(const std::string& tape,
                                  std::function<void(JsonObject& state)> edit);
    /// Returns the newest entry with this key.
    virtual Task<std::optional<TapeEntry>> find(std::string tape, TapeKey key, std::string value);

    Task<std::optional<TapeEntry>> find_message_entry(std::string tape, std::string message_id) {
        return find(std::move(tape), TapeKey::message, std::move(message_id));
    }
    Task<std::optional<TapeEntry>> find_event(std::string tape, std::string name) {
        return find(std::move(tape), TapeKey::event, std::move(name));
    }
    Task<std::optional<TapeEntry>> find_run(std::string tape, std::string run_id) {
        return find(std::move(tape), TapeKey::run, std::move(run_id));
    }
};

/// The run of a claim on a tape, and the claim's owner (D50).
struct TapeClaim {
    std::string run_id = {};
    std::string owner_id = {};

    friend bool operator==(const TapeClaim&, const TapeClaim&) = default;
};

/// Optional: bytes that entries refer to, each stored once, by hash (B10).
class TapeMediaStore {
public:
    virtual ~TapeMediaStore() = default;
    /// Stores the bytes, unless they are stored already, and returns their SHA-256 in hex.
    virtual Task<std::string> put_media(std::string bytes) = 0;
    /// Returns nothing if there are no such bytes.
    virtual Task<std::optional<std::string>> get_media(std::string sha256) = 0;
};

/// The journal of one turn in progress. Thread-safe. Written data survives `kill -9`.
class TurnJournal {
public:
    virtual ~TurnJournal() = default;
    /// Appends whole lines: entries in the format of a tape, {"text": TEXT}, {"reset": true}, {"behind": ENTRY}, and
    /// {"claim": {"run_id", "owner_id"}, "after": N} of a turn that continues from N messages under this claim. Blocks.
    virtual void write(std::string_view lines) = 0;
    /// Ends and removes the journal. Blocks; called on a worker thread.
    virtual void remove() noexcept = 0;
};

/// Optional: stores the journals of turns, and closes those left by a dead process (B9) when a tape is first used.
class TurnJournalStore {
public:
    virtual ~TurnJournalStore() = default;
    /// Opens a journal; the file is created by the first write to it. Blocks; call it on a worker thread.
    virtual std::shared_ptr<TurnJournal> open_journal(const std::string& tape,
                                                      const std::string& turn_id) = 0;
    /// Returns the least time between two writes of text that is shown. A write to a database costs more than one to a file.
    virtual std::chrono::milliseconds text_interval() const { return {}; }
};

}  // namespace bub
