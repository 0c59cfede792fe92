#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <bub/tape/file/descriptor.hpp>
#include <bub/tape/file/request_marks.hpp>
#include <bub/tape/file/tape_index_file.hpp>
#include <bub/tape/file_tape_store.hpp>
#include <cubepi/core/error.hpp>

namespace bub::detail {

struct JournaledTurn;
struct TapePaths;

/// Whether a store that failed with this code, at closing what a dead process has left, can be read as it is: on a full disk, or
/// without the permission to write.
constexpr bool may_still_read(cubepi::ErrorCode code) noexcept {
    return code == cubepi::ErrorCode::storage_full || code == cubepi::ErrorCode::permission_denied;
}
/// Where the tape ended before the commit that a dead process has left.
std::uint64_t end_before_commit(const TapePaths& paths);

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

/// A directory of tapes. All functions block; thread-safe.
class TapeDirectory {
public:
    explicit TapeDirectory(FileTapeOptions options);

    const FileTapeOptions& options() const noexcept { return options_; }
    /// Returns all names, sorted.
    std::vector<std::string> names() const;
    std::vector<ListedTape> newest_tapes() const;

    void visit(const std::string& name, const TapeQuery& query,
               const std::function<bool(const TapeEntry&)>& visit);
    TapePosition append(const std::string& name, std::vector<TapeEntry> entries,
                        const TapeAppend& options);
    TapePosition position(const std::string& name);
    void reset(const std::string& name);
    TapeInfo info(const std::string& name);
    std::vector<TapeEntry> anchors(const std::string& name, std::size_t limit);
    std::optional<TapeEntry> find(const std::string& name, IndexKind kind, const std::string& key);
    void copy(const std::string& name, const std::filesystem::path& target);
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

}  // namespace bub::detail
