#include <algorithm>

#include <fcntl.h>
#include <unistd.h>

#include <bub/tape/file/side_state.hpp>
#include <bub/tape/file/tape_writing.hpp>
#include <bub/tape/file/turn_journal_file.hpp>
#include <bub/tape/fork/fork_entries.hpp>
#include <bub/tape/fork/turn_journal.hpp>
#include <cubepi/core/error.hpp>

// Opens the journals of turns, and closes the turns that dead processes have left.

namespace bub::detail {

using cubepi::ErrorCode;

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
            if (error.code() == ErrorCode::storage_full) return;
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
    if (is_superseded(writing, turn)) {
        TapeAppend options = TapeAppend().turn(turn.id);
        std::vector<TapeEntry> entries;
        entries.push_back(
            refused_turn(std::move(turn), "interrupted", "another process had continued the tape"));
        (void)append_locked(writing, std::move(entries), options);
        remove_file(journal);
        return;
    }
    options_.log->write(cubepi::LogLevel::warning, "tape.turn_closed", {{"tape", writing.name}});
    close_dead_turn(turn, has_open_question(writing.name));
    const std::size_t first = turn.reset ? 0 : first_anchor_in(turn.entries);
    TapeAppend options = TapeAppend().reset(turn.reset).turn(turn.id).first_anchor(first);
    (void)append_locked(writing, std::move(turn.entries), options);
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
    const bool superseded =
        std::any_of(turn.claims.begin(), turn.claims.end(), [&state](const TapeClaim& claim) {
            return !SideState(state).holds(claim.run_id, claim.owner_id);
        });
    if (!superseded) return false;
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
    known(name)->looked_for_turns = true;
    return std::make_shared<TurnJournalFile>(paths.turns, paths.journal(turn_id), turn_id,
                                             options_.clock, options_.lock_timeout);
}

}  // namespace bub::detail
