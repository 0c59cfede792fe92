#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <bub/tape/tape_store.hpp>
#include <bub/tape/turn_lease.hpp>
#include <cubepi/core/error.hpp>

// The lines of a turn's journal: written while the turn is in progress, read by the process that closes it after a crash; and the
// entries that become of them.

namespace bub::detail {

/// The contents of a turn's journal.
struct JournaledTurn {
    std::string id = {};
    bool reset = false;
    std::vector<TapeEntry> entries = {};
    std::vector<TapeEntry> behind = {};  ///< follow all other entries
    std::string partial_text = {};       ///< displayed text that is not part of an entry yet
    std::vector<TapeClaim> claims = {};  ///< under which it continues from `after` messages
    std::int64_t after = 0;
    std::optional<TurnLease> lease = {};  ///< under which it is written

    bool empty() const {
        return entries.empty() && behind.empty() && partial_text.empty() && !reset;
    }
};

/// Ignores a torn last line and unreadable lines.
JournaledTurn read_journal(std::string_view text);
/// Whether a store that failed with this code, at closing what a dead process has left, can be read as it is: on a full disk, or
/// without the permission to write.
constexpr bool may_still_read(cubepi::ErrorCode code) noexcept {
    return code == cubepi::ErrorCode::storage_full || code == cubepi::ErrorCode::permission_denied;
}
/// Returns the first line of the journal of a turn.
std::string journal_head(const std::string& turn_id, std::chrono::system_clock::time_point started,
                         const std::optional<TurnLease>& lease = {});
/// Returns true if the entry holds the text of an answer, which supersedes the text before it.
bool is_answer(const TapeEntry& entry);
/// When entries reach the journal: with the next ones, or with the end of the turn, if these follow in time (D272).
enum class JournalTime : std::uint8_t {
    at_once,
    like_text,  ///< an answer that ends a run, and its extra: within the time for text that was shown
    later,      ///< the end of a run whose answer says the same, and the tokens of a step
};
/// `before`: the entries of the turn that precede them.
JournalTime journal_time(const std::vector<TapeEntry>& entries,
                         const std::vector<TapeEntry>& before);
/// Adds the displayed text, the trailing entries, and the marker that the turn was interrupted; or, if a question of the
/// turn waits for an answer, that it is suspended (B23).
void close_dead_turn(JournaledTurn& turn, bool waits);
/// The append that ends a dead turn.
struct DeadTurn {
    std::vector<TapeEntry> entries = {};
    TapeAppend options = {};
};
/// Returns close_dead_turn(); or refused_turn() if another process has superseded the turn and continued the tape (D50).
DeadTurn end_dead_turn(JournaledTurn turn, bool superseded, bool waits);
/// Returns the turn's entries as one event, which is excluded from the context and does not change the position.
TapeEntry refused_turn(JournaledTurn turn, std::string_view status, std::string reason);
/// Returns displayed text that is in no entry, as an assistant message.
TapeEntry partial_text_entry(std::string text, const std::string& turn_id, std::string_view status);
TapeEntry turn_marker(const std::string& turn_id, std::string_view status);

/// Returns the turn's entries that are written to the tape, in the tape's order: results of single calls are omitted if
/// the entry of their complete batch follows, and a hand-off among calls is placed after their results.
std::vector<TapeEntry> mergeable(const std::vector<TapeEntry>& entries);
/// Returns the number of leading entries that are the anchor of a tape without one (TapeAppend::first_anchor).
std::size_t first_anchor_in(const std::vector<TapeEntry>& entries);
void drop_first(std::vector<TapeEntry>& entries, std::size_t count);

/// The lines of a journal that are not yet written, in order. Thread-safe.
///
/// One thread at a time writes, without the mutex: the functions that do not say that they block return at once, even while a
/// server does not answer.
class JournalBuffer {
public:
    using Open = std::function<std::shared_ptr<TurnJournal>()>;

    /// The position of lines in all lines of the journal.
    struct Lines {
        std::size_t begin = 0;
        std::size_t end = 0;
        std::size_t changes = 0;
    };

    /// Creates the journal before the first write. Blocks.
    void open(const Open& open);
    void add_partial_text(std::string_view text);
    Lines add(const std::vector<TapeEntry>& entries, bool reset);
    /// Removes lines that could not be written. Returns false if they were written after all, are being written, or have moved.
    bool take_back(const Lines& lines);
    void add_behind(const std::vector<TapeEntry>& entries);
    /// Records that the turn continues from `after` messages under this claim.
    void add_claim(const TapeClaim& claim, std::int64_t after);
    /// Returns false also while lines are being written, which may fail.
    bool empty() const;
    bool is_writing() const;
    /// Writes all lines. `open` creates the journal if there is none yet. Blocks.
    void drain(const Open& open);
    /// Does the same; but if another thread is writing, leaves the lines to it instead of waiting.
    void drain_or_leave(const Open& open);
    /// Waits until no thread writes. Blocks.
    void wait() const;
    /// From now on, drain() writes nothing; a write in progress continues.
    void stop();
    /// Takes stop() back.
    void resume();
    /// Stops, waits for the write in progress, and removes the journal. Blocks.
    void remove();
    /// Returns null before open() and the first write.
    std::shared_ptr<TurnJournal> journal() const;

private:
    void end_partial_text();
    /// Makes a line of the partial text, except for the beginning of a character.
    void end_whole_text();
    void drain(std::unique_lock<std::mutex> lock, const Open& open);
    void write(const std::string& lines, const Open& open);

    mutable std::mutex mutex_;
    mutable std::condition_variable written_;
    std::string lines_;
    std::size_t start_ = 0;  ///< the position of `lines_` in all lines
    std::string partial_text_;
    std::size_t changes_ = 0;  ///< number of lines taken back, which changes positions
    bool writing_ = false;
    bool more_ = false;  ///< the thread that writes has to look for lines again
    bool stopped_ = false;
    std::shared_ptr<TurnJournal> journal_;
};

}  // namespace bub::detail
