#include <bub/tape/file/tape_directory.hpp>

#include <algorithm>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/json/parse.hpp>

#include <bub/tape/entry/entry_fields.hpp>
#include <bub/tape/fork/turn_journal.hpp>
#include <bub/tape/support/encoding.hpp>
#include <bub/tape/tape_store_support.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/support/digest.hpp>

namespace bub::detail {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view suffix = ".jsonl";

constexpr std::size_t version_limit = 4096;

[[noreturn]] void refuse_version_file(const fs::path& path, const std::string& why) {
    throw cubepi::CheckpointerError(
        cubepi::ErrorCode::schema_mismatch,
        "the version of the tapes in '" + path.string() + "' cannot be read (" + why +
            "); use the version of the program that wrote it, or restore the file");
}

int version_in(const fs::path& path, const JsonObject& object, std::string_view key) {
    const Json* const value = object.if_contains(key);
    const std::int64_t* const number = value ? value->if_int64() : nullptr;
    if (!number || *number < 1 || *number > 1'000'000)
        refuse_version_file(path, "'" + std::string(key) + "' is not a version");
    return static_cast<int>(*number);
}

fs::path with_suffix(const fs::path& tape, std::string_view more) {
    fs::path path = tape;
    path += more;
    return path;
}

}  // namespace

cubepi::FormatVersion tape_files_version(const fs::path& directory) {
    const fs::path path = directory / "version.json";
    const Descriptor file = Descriptor::open(path, O_RDONLY);
    if (!file) return {tape_files_known, tape_files_known};
    if (file.size() > version_limit) refuse_version_file(path, "it is too long");
    boost::system::error_code failed;
    const Json json = boost::json::parse(file.read_all(), failed);
    if (failed || !json.is_object()) refuse_version_file(path, "it is not a JSON object");
    const JsonObject& object = json.get_object();
    return {version_in(path, object, "version"), version_in(path, object, "readable_from")};
}

TapePaths::TapePaths(const fs::path& directory, const std::string& name)
    : tape(directory / (name + std::string(suffix))),
      lock(with_suffix(tape, ".lock")),
      commit(with_suffix(tape, ".commit")),
      index(with_suffix(tape, ".index")),
      state(with_suffix(tape, ".state")),
      open(with_suffix(tape, ".open")),
      turns(with_suffix(tape, ".turns")) {
    check_tape_name(name);
}

fs::path TapePaths::journal(const std::string& turn_id) const {
    const bool plain = !turn_id.empty() && turn_id.size() < 100 &&
                       std::all_of(
                           turn_id.begin(), turn_id.end(),
                           [](char c) {
                               return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                                      (c >= 'A' && c <= 'Z') || c == '-' || c == '_';
                           });
    return turns / ((plain ? turn_id : cubepi::detail::md5_hex(turn_id)) + ".journal");
}

TapeDirectory::TapeDirectory(FileTapeOptions options)
    : options_(std::move(options)),
      marks_(options_.directory / "requests", options_.sync == TapeSync::append) {
    if (!options_.clock) options_.clock = std::make_shared<cubepi::SystemClock>();
    if (!options_.workers) options_.workers = cubepi::Runtime::standard()->workers;
    if (!options_.log) options_.log = cubepi::Runtime::standard()->log;
}

std::vector<std::string> TapeDirectory::names() const {
    check_version();
    std::vector<std::string> found;
    for (fs::path& path : files_in(options_.directory)) {
        // Killed in its first turn, a session has left a journal and no tape yet.
        std::error_code unknown;
        const fs::file_status status = fs::symlink_status(path, unknown);
        const bool begun = path.extension() == ".turns" && fs::is_directory(status);
        if (begun) path = path.stem();
        if (path.extension() != suffix) continue;
        // A directory, a pipe or a link of such a name is not a tape.
        if (!begun && !fs::is_regular_file(status)) continue;
        found.push_back(path.stem().string());
    }
    std::sort(found.begin(), found.end());
    found.erase(std::unique(found.begin(), found.end()), found.end());
    return found;
}

std::vector<ListedTape> TapeDirectory::newest_tapes_after(const std::optional<ListedTape>& last,
                                                          std::size_t limit,
                                                          const std::string& prefix) const {
    std::vector<ListedTape> files;
    for (std::string& name : names()) {
        if (!is_main_tape(name) || !name.starts_with(prefix)) continue;
        struct stat info = {};
        const TapePaths paths(options_.directory, name);
        const bool written = ::lstat(paths.tape.c_str(), &info) == 0;
        if (!written && ::lstat(paths.turns.c_str(), &info) != 0) continue;
        ListedTape file;
        file.name = std::move(name);
        file.bytes = written ? static_cast<std::uintmax_t>(info.st_size) : 0;
        file.modified = std::chrono::system_clock::time_point(
            std::chrono::seconds(info.st_mtim.tv_sec) +
            std::chrono::microseconds(info.st_mtim.tv_nsec / 1000));
        if (!last || last->precedes(file)) files.push_back(std::move(file));
    }
    keep_newest(files, limit);
    return files;
}

std::shared_ptr<TapeDirectory::CachedTape> TapeDirectory::known(const std::string& name) {
    {
        const std::lock_guard lock(mutex_);
        const auto found = tapes_.find(name);
        if (found != tapes_.end()) return found->second;
    }
    check_version();
    const std::lock_guard lock(mutex_);
    std::shared_ptr<CachedTape>& entry = tapes_[name];
    if (!entry) entry = std::make_shared<CachedTape>();
    return entry;
}

void TapeDirectory::check_version() const {
    const cubepi::FormatVersion found = tape_files_version(options_.directory);
    if (!found.is_refused_by(tape_files_known)) return;
    throw cubepi::CheckpointerError(cubepi::ErrorCode::schema_mismatch,
                                    "the tapes in '" + options_.directory.string() + "' are " +
                                        refusal_text(found, tape_files_known));
}

void TapeDirectory::make_directory() {
    const std::lock_guard lock(mutex_);
    if (made_ && ::access(options_.directory.c_str(), F_OK) == 0) return;
    std::error_code unknown;
    // The user may have put a link in its place.
    if (!fs::is_directory(options_.directory, unknown)) make_private_directory(options_.directory);
    made_ = true;
}

TapeDirectory::Writing TapeDirectory::lock(const std::string& name) {
    TapePaths paths(options_.directory, name);
    make_directory();
    const std::shared_ptr<CachedTape> tape = known(name);
    std::unique_lock here(tape->mutex);
    try {
        FileLock everywhere(paths.lock, LockKind::exclusive, options_.lock_timeout);
        return Writing{name, std::move(paths), tape, std::move(here), std::move(everywhere)};
    } catch (const cubepi::CheckpointerLockTimeoutError&) {
        options_.log->write(
            cubepi::LogLevel::warning, "store.busy",
            {{"store", "tape"}, {"tape", name}, {"waited_ms", options_.lock_timeout.count()}});
        throw;
    }
}

TapeDirectory::Writing TapeDirectory::write_lock(const std::string& name) {
    Writing writing = lock(name);
    finish_commit(writing);
    return writing;
}

Descriptor TapeDirectory::open_visible(const std::string& name, std::uint64_t& end) {
    const TapePaths paths(options_.directory, name);
    close_dead_turns_at_start(name);
    bool can_write = true;
    for (;;) {
        {
            const FileLock lock(paths.lock, LockKind::shared, options_.lock_timeout);
            const bool committing = ::access(paths.commit.c_str(), F_OK) == 0;
            if (!committing || !can_write) {
                Descriptor tape = Descriptor::open(paths.tape, O_RDONLY);
                end = tape ? tape.size() : 0;
                if (committing) end = std::min(end, end_before_commit(paths));
                // Without a lock file no process had written; one may have begun since.
                if (lock || ::access(paths.lock.c_str(), F_OK) != 0) return tape;
                continue;
            }
        }
        // The writer of the commit has ended: taking the lock finishes the commit.
        try {
            (void)write_lock(name);
        } catch (const cubepi::Error& error) {
            if (!may_still_read(error.code())) throw;
            can_write = false;
        }
    }
}

std::shared_ptr<const void> TapeDirectory::open_tape(const std::string& name) {
    const TapePaths paths(options_.directory, name);
    make_directory();
    return std::make_shared<const UseLock>(paths.open, LockKind::shared);
}

std::shared_ptr<const void> TapeDirectory::hold(const std::string& name) {
    check_tape_name(name);
    make_directory();
    return std::make_shared<const FileLock>(options_.directory / (name + ".lock"),
                                            LockKind::exclusive, options_.lock_timeout);
}

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
    std::vector<std::string> tapes = sidecars_of(name, names());
    tapes.push_back(name);
    const fs::path open = TapePaths(options_.directory, name).open;
    std::optional<UseLock> unused;
    try {
        unused.emplace(open, LockKind::exclusive);
    } catch (const cubepi::Error& error) {
        if (error.code() != cubepi::ErrorCode::storage_full) throw;
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
        if (error.code() != cubepi::ErrorCode::storage_full) throw;
    }
    const std::shared_ptr<CachedTape> tape = known(name);
    std::unique_lock here(tape->mutex);
    return Writing{name, TapePaths(options_.directory, name), tape, std::move(here), FileLock()};
}

void TapeDirectory::remove_files(Writing& writing) {
    const TapePaths& paths = writing.paths;
    std::error_code failed;
    std::vector<fs::path> journals;
    if (!fs::is_symlink(paths.turns, failed)) journals = files_in(paths.turns);
    for (const fs::path& file : journals) {
        const Descriptor journal = Descriptor::open(file, O_RDWR);
        if (!journal || try_lock(journal)) continue;
        throw cubepi::CheckpointerLockTimeoutError(
            cubepi::ErrorCode::storage_locked, "a turn is in progress on tape '" + writing.name +
                                                   "' (" + file.string() +
                                                   "); wait for its end, or end that process");
    }
    writing.known->tail.reset();
    fs::remove_all(paths.turns, failed);
    // A journal that remains would bring a part of the tape back.
    if (failed) throw_system("remove", paths.turns, failed.value());
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
