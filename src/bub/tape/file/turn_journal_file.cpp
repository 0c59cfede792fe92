#include <algorithm>

#include <fcntl.h>
#include <unistd.h>

#include <bub/tape/checkpointer/side_state.hpp>
#include <bub/tape/file/tape_directory.hpp>
#include <bub/tape/fork/turn_journal.hpp>
#include <cubepi/core/error.hpp>

// The journals of turns, and the end of turns that dead processes have left.

namespace bub::detail {

TurnJournalFile::TurnJournalFile(std::filesystem::path directory, std::filesystem::path path,
                                 std::string turn_id, std::shared_ptr<cubepi::Clock> clock,
                                 std::chrono::milliseconds lock_timeout,
                                 std::shared_ptr<std::atomic<bool>> looked)
    : directory_(std::move(directory)),
      path_(std::move(path)),
      turn_id_(std::move(turn_id)),
      clock_(std::move(clock)),
      lock_timeout_(lock_timeout),
      looked_(std::move(looked)) {}

TurnJournalFile::~TurnJournalFile() {
    if (removed_) return;
    file_ = Descriptor();  // unlocks it
    *looked_ = false;
}

/// Another process may find the new file before it is locked: it locks it, sees that it belongs to no turn, and removes it
/// with the directory.
void TurnJournalFile::open_file() {
    for (int attempt = 0;; ++attempt) {
        make_private_directory(directory_);
        bool locked = false;
        try {
            locked = open_locked(file_, path_, O_RDWR | O_APPEND | O_CREAT, LockKind::exclusive,
                                 lock_timeout_);
        } catch (const cubepi::Error&) {
            if (attempt == 10) throw;
            continue;
        }
        if (locked) return;
        throw cubepi::CheckpointerLockTimeoutError(
            cubepi::ErrorCode::storage_locked,
            "turn '" + turn_id_ + "' is in progress in another process (" + path_.string() + ")");
    }
}

void TurnJournalFile::open() {
    open_file();
    const std::string head = journal_head(turn_id_, clock_->wall());
    try {
        file_.write(head);
    } catch (...) {
        // A journal without its head belongs to no turn: the next lines start it from scratch.
        ::unlink(path_.c_str());
        file_ = Descriptor();
        throw;
    }
}

void TurnJournalFile::write(std::string_view lines) {
    const std::lock_guard lock(mutex_);
    if (removed_) return;
    if (!file_) open();
    const std::uint64_t size = file_.size();
    try {
        file_.write(lines);
    } catch (...) {
        // The lines will be written again, and must not follow a partial copy of themselves.
        file_.truncate(size);
        throw;
    }
}

void TurnJournalFile::remove() noexcept {
    const std::lock_guard lock(mutex_);
    removed_ = true;
    if (file_) ::unlink(path_.c_str());
    ::rmdir(directory_.c_str());
    file_ = Descriptor();
}

void TapeDirectory::close_dead_turns_at_start(const std::string& name) {
    const std::shared_ptr<CachedTape> tape = known(name);
    if (tape->looked_for_turns) return;
    const std::lock_guard lock(tape->start);
    if (tape->looked_for_turns) return;
    if (::access(TapePaths(options_.directory, name).turns.c_str(), F_OK) == 0) {
        try {
            Writing writing = write_lock(name);
            close_dead_turns(writing);
        } catch (const cubepi::Error& error) {
            // A process that may only read returns the entries that exist. The turn is closed when there is space again.
            if (!may_still_read(error.code())) throw;
            if (error.code() == cubepi::ErrorCode::storage_full) return;
        }
    }
    tape->looked_for_turns = true;
}

namespace {

std::vector<std::filesystem::path> journals_of(const TapePaths& paths) {
    namespace fs = std::filesystem;
    std::vector<fs::path> journals;
    std::error_code failed;
    if (fs::is_symlink(paths.turns, failed)) return journals;
    for (fs::directory_iterator file(paths.turns, failed), end; !failed && file != end;
         file.increment(failed)) {
        if (file->path().extension() == ".journal") journals.push_back(file->path());
    }
    std::sort(journals.begin(), journals.end());
    return journals;
}

}  // namespace

void TapeDirectory::close_dead_turns(Writing& writing) {
    for (const std::filesystem::path& journal : journals_of(writing.paths))
        close_turn(writing, journal);
    ::rmdir(writing.paths.turns.c_str());
}

bool TapeDirectory::has_open_turn(const std::string& name) {
    if (::access(TapePaths(options_.directory, name).turns.c_str(), F_OK) != 0) return false;
    Writing writing = write_lock(name);
    close_dead_turns(writing);
    return !journals_of(writing.paths).empty();
}

void TapeDirectory::close_turn(Writing& writing, const std::filesystem::path& journal) {
    const Descriptor file = Descriptor::open(journal, O_RDWR);
    if (!file || !try_lock(file)) return;  // its process is alive
    JournaledTurn turn = read_journal(file.read_all());
    if (turn.id.empty() || turn.empty()) {
        remove_file(journal);
        return;
    }
    const bool superseded = is_superseded(writing, turn);
    if (!superseded)
        options_.log->write(cubepi::LogLevel::warning, "tape.turn_closed",
                            {{"tape", writing.name}});
    const std::string id = turn.id;
    DeadTurn dead =
        end_dead_turn(std::move(turn), superseded, !superseded && has_open_question(writing.name));
    const TapeAppend options = std::move(dead.options).turn(id);
    (void)append_locked(writing, std::move(dead.entries), options);
    // Removed by its path, because the file name for a turn id may have changed since: a journal is never closed twice.
    remove_file(journal);
}

bool TapeDirectory::has_open_question(const std::string& name) {
    try {
        return !marks_of(name, read_state(name)).empty();
    } catch (const cubepi::Error&) {
        return false;  // an unreadable state is reported to those who need it
    }
}

bool TapeDirectory::is_superseded(const Writing& writing, const JournaledTurn& turn) {
    const JsonObject state = read_state(writing.name);
    if (SideState(state).holds_all(turn.claims)) return false;
    const Descriptor tape = Descriptor::open(writing.paths.tape, O_RDONLY);
    if (!tape) return turn.after != 0;
    Tail tail = tail_of(tape, tape.size());
    count_messages(tail, writing.paths, tape, tape.size());
    return *tail.messages != turn.after;
}

std::shared_ptr<TurnJournal> TapeDirectory::open_journal(const std::string& name,
                                                         const std::string& turn_id) {
    TapePaths paths(options_.directory, name);
    make_directory();
    if (::access(paths.turns.c_str(), F_OK) == 0) {
        Writing writing = write_lock(name);
        close_dead_turns(writing);
    }
    const std::shared_ptr<CachedTape> tape = known(name);
    tape->looked_for_turns = true;
    std::shared_ptr<std::atomic<bool>> looked(tape, &tape->looked_for_turns);
    return std::make_shared<TurnJournalFile>(paths.turns, paths.journal(turn_id), turn_id,
                                             options_.clock, options_.lock_timeout,
                                             std::move(looked));
}

}  // namespace bub::detail
