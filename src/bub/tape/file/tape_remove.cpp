#include <algorithm>
#include <optional>

#include <unistd.h>

#include <bub/tape/file/tape_errors.hpp>
#include <bub/tape/file/tape_writing.hpp>
#include <cubepi/core/error.hpp>

// Empties and removes tapes.

namespace bub::detail {

using cubepi::ErrorCode;

void TapeDirectory::reset(const std::string& name) {
    const TapePaths paths(options_.directory, name);
    if (::access(paths.tape.c_str(), F_OK) != 0 && ::access(paths.lock.c_str(), F_OK) != 0) return;
    Writing writing = write_lock(name);
    writing.known->tail.reset();
    remove_file(paths.index);
    remove_file(paths.tape);
}

void TapeDirectory::remove(const std::string& name) {
    if (::access(options_.directory.c_str(), F_OK) != 0) return;
    std::vector<std::string> tapes;
    // NAME__X is a sidecar of NAME, unless NAME has no "__" itself: then it is the tape of another session.
    if (is_main_tape(name)) tapes = names();
    std::erase_if(tapes, [&](const std::string& one) { return !one.starts_with(name + "__"); });
    tapes.push_back(name);
    const std::filesystem::path open = TapePaths(options_.directory, name).open;
    std::optional<UseLock> unused;
    try {
        unused.emplace(open, LockKind::exclusive);
    } catch (const cubepi::Error& error) {
        if (error.code() != ErrorCode::storage_full) throw;
    }
    for (const std::string& one : tapes) {
        Writing writing = lock_to_remove(one);
        remove_files(writing);
    }
    remove_file(open);
}

/// Deleting must work on a full disk, so a commit that is about to be deleted is not finished. If there is no space even for a
/// lock file, no other process can have created one to write.
TapeDirectory::Writing TapeDirectory::lock_to_remove(const std::string& name) {
    try {
        return lock(name);
    } catch (const cubepi::Error& error) {
        if (error.code() != ErrorCode::storage_full) throw;
    }
    const std::shared_ptr<CachedTape> tape = known(name);
    std::unique_lock here(tape->mutex);
    return Writing{name, TapePaths(options_.directory, name), tape, std::move(here), FileLock()};
}

void TapeDirectory::remove_files(Writing& writing) {
    namespace fs = std::filesystem;
    const TapePaths& paths = writing.paths;
    std::error_code failed;
    const bool linked = fs::is_symlink(paths.turns, failed);
    for (fs::directory_iterator file(linked ? fs::path() : paths.turns, failed), end;
         !failed && file != end; file.increment(failed)) {
        const Descriptor journal = Descriptor::open(file->path(), O_RDWR);
        if (!journal || try_lock(journal)) continue;
        throw cubepi::CheckpointerLockTimeoutError(
            cubepi::ErrorCode::storage_locked, "a turn is in progress on tape '" + writing.name +
                                                   "' (" + file->path().string() +
                                                   "); wait for its end, or end that process");
    }
    writing.known->tail.reset();
    fs::remove_all(paths.turns, failed);
    RequestMarkSet marks;
    try {
        marks = marks_of(writing.name, read_state(writing.name));
    } catch (const cubepi::Error&) {
        // A damaged side state is removed too; list_requests() removes its marks.
    }
    for (const fs::path& file : {paths.commit, paths.tape, paths.index, paths.state, paths.lock})
        remove_file(file);
    marks_.remove(marks, {});
}

}  // namespace bub::detail
