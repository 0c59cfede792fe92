#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <bub/tape/file/descriptor.hpp>
#include <bub/tape/file_tape_store.hpp>
#include <cubepi/core/format_version.hpp>

// A directory of tapes, and the files next to each tape: its index, the marks of its pending requests, and the journals of its
// turns in progress.

namespace bub::detail {

/// The identity of a tape's file and the part of it that is known.
struct TapeMark {
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    std::uint64_t covered = 0;    ///< bytes, up to the end of a line
    std::uint64_t tail_hash = 0;  ///< of the bytes before `covered`

    static TapeMark of(const Descriptor& tape, std::uint64_t covered);
    /// Returns true if the tape is still this file and begins with the known part.
    bool holds(const Descriptor& tape) const;
};

/// The sums over a tape, as stored on disk.
struct IndexHeader {
    static constexpr std::uint64_t this_version = 0x3130'5844'4942'5543;  // "CUBIDX01"
    static constexpr std::int64_t none = -1;

    std::uint64_t version = this_version;
    TapeMark mark = {};
    std::uint64_t records = 0;
    std::int64_t entries = 0;
    std::int64_t last_id = 0;
    std::int64_t messages = 0;
    std::int64_t anchors = 0;
    std::int64_t last_anchor_offset = none;
    std::int64_t entries_since_anchor = 0;
    std::int64_t usage_total = none;
    std::int64_t usage_prompt = none;
    std::int64_t usage_cached = none;
    std::uint64_t has_usage = 0;
    std::uint64_t checksum = 0;
};

enum class IndexKind : std::uint64_t { anchor = 1, event = 2, message = 3, run = 4 };

/// The location of an item on a tape.
struct IndexRecord {
    std::uint64_t hash = 0;
    std::uint64_t place = 0;  ///< offset of the line * 16 + kind

    IndexKind kind() const { return static_cast<IndexKind>(place & 15U); }
    std::uint64_t offset() const { return place >> 4U; }
};

std::uint64_t hash_of(std::string_view text);

/// The index of a tape: sums over all of it, and the locations of anchors, events, messages and runs. It is a cache
/// that can be deleted at any time. Memory does not grow with the tape (unless the index cannot be written, e.g. on a
/// read-only file system).
class TapeIndexFile {
public:
    /// Opens the index in `path` as it is stored for the first `end` bytes of `tape`, which must exist as long as the index.
    TapeIndexFile(std::filesystem::path path, const Descriptor& tape, std::uint64_t end);

    /// Reads what the stored index does not cover. Short new parts are not written to disk.
    TapeIndexFile& complete();
    /// Returns the number of bytes that the index covers.
    std::uint64_t covered() const noexcept { return sums_.mark.covered; }
    const IndexHeader& sums() const noexcept { return sums_; }
    /// Calls `wanted` for records of this kind from the newest to the oldest until it returns false. With `hash`, only
    /// for records with that hash.
    void newest_first(IndexKind kind, std::optional<std::uint64_t> hash,
                      const std::function<bool(std::uint64_t offset)>& wanted) const;

    /// Returns the sums stored on disk if they belong to this tape; else nothing. Reads one block.
    static std::optional<IndexHeader> stored(const std::filesystem::path& path,
                                             const Descriptor& tape);

private:
    void read_sums();
    void catch_up(bool can_write);
    void add(std::string_view line, std::uint64_t offset);
    void write_records();
    bool try_write_records();
    void save(std::uint64_t covered);

    std::filesystem::path path_;
    const Descriptor& tape_;
    std::uint64_t end_ = 0;
    Descriptor file_;        ///< none: it does not exist, or cannot be written
    bool has_more_ = false;  ///< the stored index covers more than the caller sees of the tape
    IndexHeader sums_;
    std::vector<IndexRecord> fresh_;  ///< after sums_.records, not on disk yet
};

/// The times of a pending request, and its tape.
struct RequestMark {
    double created_at = 0;
    double expires_at = 0;  ///< infinite: does not expire
    std::string tape = {};

    friend auto operator<=>(const RequestMark&, const RequestMark&) = default;
    friend bool operator==(const RequestMark&, const RequestMark&) = default;
};

using RequestMarkSet = std::set<RequestMark>;

/// Returns the marks of the requests in a side state that have not expired.
RequestMarkSet marks_of(const std::string& tape, const JsonObject& state);

/// The index of the pending requests of a directory of tapes: a directory with an empty file, a mark, for each request,
/// which is named after the request's times and tape. A mark is created before the side state with its request is
/// stored, and removed afterwards, both under the tape's lock. So a killed process may leave a mark without a request, but
/// never a request without a mark. No lock is needed to read the marks.
class RequestMarks {
public:
    RequestMarks(std::filesystem::path directory, bool sync);

    /// Returns false if the index is new, or has been removed: then there may be requests without a mark.
    bool is_complete() const;
    std::vector<RequestMark> read() const;
    /// Creates the marks that are not in `present`.
    void add(const RequestMarkSet& marks, const RequestMarkSet& present) const;
    /// Removes the marks that are not in `wanted`. A mark that cannot be removed stays, which is harmless.
    void remove(const RequestMarkSet& marks, const RequestMarkSet& wanted) const noexcept;
    /// Records that each stored request has a mark.
    void set_complete() const;

private:
    std::filesystem::path path_of(const RequestMark& mark) const;

    std::filesystem::path directory_;
    bool sync_;
};

/// The journal of a turn in a file, which is locked while the process lives: another process that acquires the lock knows
/// that it has died.
class TurnJournalFile final : public TurnJournal {
public:
    /// `lock_timeout` limits the wait for a process that looks whether the journal is that of a dead one. `looked` is cleared when
    /// a turn that has not ended is left in the journal: the next use of the tape closes it.
    TurnJournalFile(std::filesystem::path directory, std::filesystem::path path,
                    std::string turn_id, std::shared_ptr<cubepi::Clock> clock,
                    std::chrono::milliseconds lock_timeout,
                    std::shared_ptr<std::atomic<bool>> looked);
    ~TurnJournalFile() override;
    TurnJournalFile(const TurnJournalFile&) = delete;
    TurnJournalFile& operator=(const TurnJournalFile&) = delete;

    void write(std::string_view lines) override;
    void remove() noexcept override;

private:
    void open();
    void open_file();

    const std::filesystem::path directory_;
    const std::filesystem::path path_;
    const std::string turn_id_;
    const std::shared_ptr<cubepi::Clock> clock_;
    const std::chrono::milliseconds lock_timeout_;
    const std::shared_ptr<std::atomic<bool>> looked_;
    std::mutex mutex_;
    Descriptor file_;
    bool removed_ = false;
};

/// The files of one tape.
struct TapePaths {
    TapePaths(const std::filesystem::path& directory, const std::string& name);

    std::filesystem::path tape;    ///< NAME.jsonl
    std::filesystem::path lock;    ///< locked by the writer
    std::filesystem::path commit;  ///< exists while several entries are written: all of them
    std::filesystem::path index;
    std::filesystem::path state;
    std::filesystem::path open;   ///< locked by the processes that have the tape open
    std::filesystem::path turns;  ///< a directory with a journal for each turn in progress

    std::filesystem::path journal(const std::string& turn_id) const;
};

/// The version of the files of a directory that this program knows.
inline constexpr int tape_files_known = 1;

/// Returns the version of the files in a directory of tapes: `version.json`, an object with "version" and "readable_from"
/// (D208). A directory without that file, which this version does not write, has version 1. Throws CheckpointerError.
cubepi::FormatVersion tape_files_version(const std::filesystem::path& directory);

/// Where the tape ended before the commit that a dead process has left.
std::uint64_t end_before_commit(const TapePaths& paths);

struct JournaledTurn;

/// A directory of tapes. All functions block; thread-safe.
class TapeDirectory {
public:
    explicit TapeDirectory(FileTapeOptions options);

    const FileTapeOptions& options() const noexcept { return options_; }
    /// Returns all names, sorted.
    std::vector<std::string> names() const;
    std::vector<ListedTape> newest_tapes_after(const std::optional<ListedTape>& last,
                                               std::size_t limit, const std::string& prefix) const;

    void visit(const std::string& name, const TapeQuery& query,
               const std::function<bool(const TapeEntry&)>& visit);
    TapePosition append(const std::string& name, std::vector<TapeEntry> entries,
                        const TapeAppend& options);
    TapePosition position(const std::string& name);
    void reset(const std::string& name);
    TapeInfo info(const std::string& name);
    std::vector<TapeEntry> anchors(const std::string& name, std::size_t limit);
    std::optional<TapeEntry> find(const std::string& name, TapeKey key, const std::string& value);
    void remove(const std::string& name);
    std::shared_ptr<const void> open_tape(const std::string& name);
    bool has_open_turn(const std::string& name);

    std::shared_ptr<const void> hold(const std::string& name);
    Json edit_state(const std::string& name, const std::function<Json(JsonObject&)>& edit);
    void edit_state_later(const std::string& name, std::function<void(JsonObject&)> edit);
    JsonObject read_state(const std::string& name);
    cubepi::QuestionPage list_requests(const cubepi::QuestionQuery& query);
    std::string put_media(const std::string& bytes);
    std::optional<std::string> get_media(const std::string& sha256);
    std::shared_ptr<TurnJournal> open_journal(const std::string& name, const std::string& turn_id);

private:
    /// The end of the tape when it was last written or read.
    struct Tail {
        TapeMark mark = {};
        std::int64_t modified = 0;
        std::int64_t last_id = 0;
        std::optional<std::int64_t> messages = {};
        bool ended = true;  ///< the last byte is a line feed, or there is none
    };
    /// The data of a tape that is cached in memory.
    struct CachedTape {
        std::mutex mutex;
        std::optional<Tail> tail;
        std::mutex late_mutex;
        std::vector<std::function<void(JsonObject&)>> late;  ///< pending edits of the state
        std::mutex start;  ///< held while turns of dead processes are closed, before the first use
        std::atomic<bool> looked_for_turns = false;
    };
    /// The exclusive right to write a tape, among all threads and processes.
    struct Writing;
    struct Range {
        std::uint64_t from = 0;
        std::uint64_t to = 0;
    };

    std::shared_ptr<CachedTape> known(const std::string& name);
    /// Throws CheckpointerError(schema_mismatch) if a later program has written what this one must not use.
    void check_version() const;
    void make_directory();
    Writing lock(const std::string& name);
    /// lock(), after which the tape is as the last writer meant it to be.
    Writing write_lock(const std::string& name);
    Writing lock_to_remove(const std::string& name);
    /// Opens the tape for reading and sets `end` to the end of its visible part.
    Descriptor open_visible(const std::string& name, std::uint64_t& end);
    void close_dead_turns(Writing& writing);
    void close_dead_turns_at_start(const std::string& name);
    void close_turn(Writing& writing, const std::filesystem::path& journal);
    /// Returns true if the turn's claim has been superseded and the tape was continued (D50).
    bool is_superseded(const Writing& writing, const JournaledTurn& turn);
    bool has_open_question(const std::string& name);
    void remove_files(Writing& writing);
    /// Returns the number of edits.
    static std::size_t make_late_edits(CachedTape& tape, JsonObject& state);
    void write_state(const Writing& writing, const JsonObject& before,
                     const JsonObject& state) const;
    std::vector<RequestMark> build_marks();
    /// Makes the marks of a tape those of its side state. `known` are the marks that were there before.
    void correct_marks(const std::string& name, const std::vector<RequestMark>& known);
    void finish_commit(Writing& writing);
    /// Returns the end of the tape before `entries`. Checks the expected position and the ids, and drops the first anchor if
    /// the tape has one.
    Tail tail_for(Writing& writing, const Descriptor& tape, std::uint64_t size,
                  std::vector<TapeEntry>& entries, const TapeAppend& options) const;
    /// Assigns ids, dates and positions, and returns the lines of the entries. Moves `tail` after them.
    std::string block_of(std::vector<TapeEntry>& entries, Tail& tail, bool keep_ids) const;
    TapePosition append_locked(Writing& writing, std::vector<TapeEntry> entries,
                               const TapeAppend& options);
    void write_block(Writing& writing, const Descriptor& tape, std::uint64_t size,
                     const std::string& block, bool replaces, const std::string& turn,
                     bool all_or_none);
    Tail tail_of(const Descriptor& tape, std::uint64_t end) const;
    Tail current_tail(CachedTape& known, const Descriptor& tape, std::uint64_t end) const;
    void count_messages(Tail& tail, const TapePaths& paths, const Descriptor& tape,
                        std::uint64_t end) const;
    void newest_first(const TapePaths& paths, const Descriptor& tape, std::uint64_t end,
                      IndexKind kind, const std::string* value,
                      const std::function<bool(const FileLine&)>& wanted) const;
    std::optional<Range> find_anchor(const TapePaths& paths, const Descriptor& tape,
                                     std::uint64_t end, const std::string* name) const;
    Range slice(const TapePaths& paths, const Descriptor& tape, std::uint64_t end,
                const TapeQuery& query) const;

    FileTapeOptions options_;
    RequestMarks marks_;
    std::mutex mutex_;
    std::map<std::string, std::shared_ptr<CachedTape>> tapes_;
    bool made_ = false;
};

struct TapeDirectory::Writing {
    std::string name;
    TapePaths paths;
    std::shared_ptr<CachedTape> known;
    std::unique_lock<std::mutex> here;
    FileLock everywhere;
};

}  // namespace bub::detail
