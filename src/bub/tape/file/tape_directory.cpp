#include <bub/tape/file/tape_directory.hpp>

#include <algorithm>
#include <array>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bub/tape/entry/entry_facts.hpp>
#include <bub/tape/entry/json_text.hpp>
#include <bub/tape/file/digest.hpp>
#include <bub/tape/file/line_reader.hpp>
#include <bub/tape/file/tape_errors.hpp>
#include <bub/tape/file/tape_writing.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/schema/python_json.hpp>

namespace bub::detail {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view suffix = ".jsonl";

fs::path with_suffix(const fs::path& tape, std::string_view more) {
    fs::path path = tape;
    path += more;
    return path;
}

}  // namespace

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
    return turns / ((plain ? turn_id : md5_hex(turn_id)) + ".journal");
}

TapeDirectory::TapeDirectory(FileTapeOptions options) : options_(std::move(options)) {
    if (!options_.clock) options_.clock = std::make_shared<cubepi::SystemClock>();
    if (!options_.workers) options_.workers = cubepi::Runtime::standard()->workers;
}

std::vector<std::string> TapeDirectory::names() const {
    std::vector<std::string> found;
    std::error_code failed;
    for (fs::directory_iterator file(options_.directory, failed), end; !failed && file != end;
         file.increment(failed)) {
        fs::path path = file->path();
        // Killed in its first turn, a session has left a journal and no tape yet.
        std::error_code unknown;
        const fs::file_status status = file->symlink_status(unknown);
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

std::vector<TapeFileInfo> TapeDirectory::list_files() const {
    std::vector<TapeFileInfo> files;
    for (std::string& name : names()) {
        if (!is_main_tape(name)) continue;
        struct stat info = {};
        const TapePaths paths(options_.directory, name);
        const bool written = ::lstat(paths.tape.c_str(), &info) == 0;
        if (!written && ::lstat(paths.turns.c_str(), &info) != 0) continue;
        TapeFileInfo file;
        file.name = std::move(name);
        file.bytes = written ? static_cast<std::uintmax_t>(info.st_size) : 0;
        file.modified = std::chrono::system_clock::time_point(
            std::chrono::seconds(info.st_mtim.tv_sec) +
            std::chrono::microseconds(info.st_mtim.tv_nsec / 1000));
        files.push_back(std::move(file));
    }
    std::sort(files.begin(), files.end(), [](const TapeFileInfo& a, const TapeFileInfo& b) {
        return a.modified != b.modified ? a.modified > b.modified : a.name < b.name;
    });
    return files;
}

std::shared_ptr<TapeDirectory::CachedTape> TapeDirectory::known(const std::string& name) {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<CachedTape>& entry = tapes_[name];
    if (!entry) entry = std::make_shared<CachedTape>();
    return entry;
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
    FileLock everywhere(paths.lock, LockKind::exclusive, options_.lock_timeout);
    return Writing{name, std::move(paths), tape, std::move(here), std::move(everywhere)};
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

TapeDirectory::Tail TapeDirectory::tail_of(const Descriptor& tape, std::uint64_t end) const {
    constexpr std::uint64_t far_enough = std::uint64_t{1} << 20U;
    Tail tail;
    struct stat info = {};
    ::fstat(tape.get(), &info);
    tail.modified = info.st_mtim.tv_sec * 1'000'000'000 + info.st_mtim.tv_nsec;
    tail.mark = TapeMark::of(tape, end);
    BackwardLineReader lines(tape, 0, end);
    FileLine line;
    bool has_id = false;
    std::int64_t since = 0;
    bool begun = false;
    while (lines.next(line)) {
        if (!begun) tail.ended = line.ended;
        begun = true;
        if (has_id && end - line.offset > far_enough) return tail;
        const std::optional<LineFacts> found = line_facts(line.text);
        if (!found) continue;
        if (!has_id) tail.last_id = found->id;
        has_id = true;
        if (found->facts.position) {
            tail.messages = *found->facts.position + since;
            return tail;
        }
        since += found->facts.messages;
    }
    tail.messages = since;
    return tail;
}

TapeDirectory::Tail TapeDirectory::current_tail(CachedTape& known, const Descriptor& tape,
                                                std::uint64_t end) const {
    struct stat info = {};
    ::fstat(tape.get(), &info);
    const std::int64_t modified = info.st_mtim.tv_sec * 1'000'000'000 + info.st_mtim.tv_nsec;
    const bool same = known.tail && known.tail->mark.covered == end &&
                      known.tail->modified == modified && known.tail->mark.holds(tape);
    if (!same) known.tail = tail_of(tape, end);
    return *known.tail;
}

void TapeDirectory::count_messages(Tail& tail, const TapePaths& paths, const Descriptor& tape,
                                   std::uint64_t end) const {
    if (!tail.messages) tail.messages = TapeIndexFile(paths.index, tape, end).sums().messages;
}

TapePosition TapeDirectory::position(const std::string& name) {
    std::uint64_t end = 0;
    const Descriptor tape = open_visible(name, end);
    TapePosition found;
    if (!tape) return found;
    Tail tail = tail_of(tape, end);
    count_messages(tail, TapePaths(options_.directory, name), tape, end);
    found.last_id = tail.last_id;
    found.messages = *tail.messages;
    return found;
}

TapeInfo TapeDirectory::info(const std::string& name) {
    TapeInfo info;
    std::uint64_t end = 0;
    const Descriptor tape = open_visible(name, end);
    if (!tape) return info;
    const TapeIndexFile index(TapePaths(options_.directory, name).index, tape, end);
    const IndexHeader& sums = index.sums();
    info.entries = sums.entries;
    info.anchors = sums.anchors;
    info.entries_since_last_anchor = sums.entries_since_anchor;
    if (sums.last_anchor_offset != IndexHeader::none) {
        LineReader lines(tape, static_cast<std::uint64_t>(sums.last_anchor_offset), end);
        FileLine line;
        const auto found = lines.next(line) ? line_facts(line.text) : std::nullopt;
        info.last_anchor = found && !found->facts.name.empty() ? found->facts.name : "-";
    }
    if (sums.has_usage != 0) {
        RunUsage usage;
        usage.total = sums.usage_total;
        if (sums.usage_prompt != IndexHeader::none) usage.prompt = sums.usage_prompt;
        if (sums.usage_cached != IndexHeader::none) usage.cached = sums.usage_cached;
        info.last_token_usage = usage.total;
        info.last_token_cache_hit_rate = usage.hit_rate();
    }
    return info;
}

std::vector<TapeEntry> TapeDirectory::anchors(const std::string& name, std::size_t limit) {
    std::vector<TapeEntry> found;
    std::uint64_t end = 0;
    const Descriptor tape = open_visible(name, end);
    if (!tape || limit == 0) return found;
    const TapeIndexFile index(TapePaths(options_.directory, name).index, tape, end);
    index.newest_first(IndexKind::anchor, std::nullopt, [&](std::uint64_t offset) {
        LineReader lines(tape, offset, end);
        FileLine line;
        if (!lines.next(line)) return true;
        if (auto entry = read_tape_line(line.text)) found.push_back(std::move(*entry));
        return found.size() < limit;
    });
    std::reverse(found.begin(), found.end());
    return found;
}

std::optional<TapeEntry> TapeDirectory::find(const std::string& name, IndexKind kind,
                                             const std::string& key) {
    std::optional<TapeEntry> found;
    std::uint64_t end = 0;
    const Descriptor tape = open_visible(name, end);
    if (!tape) return found;
    const TapeIndexFile index(TapePaths(options_.directory, name).index, tape, end);
    index.newest_first(kind, hash_of(key), [&](std::uint64_t offset) {
        LineReader lines(tape, offset, end);
        FileLine line;
        const auto facts = lines.next(line) ? line_facts(line.text) : std::nullopt;
        if (!facts) return true;
        const EntryFacts& have = facts->facts;
        const bool same = kind == IndexKind::message
                              ? std::find(have.message_ids.begin(), have.message_ids.end(), key) !=
                                    have.message_ids.end()
                          : kind == IndexKind::run ? have.run_id == key
                                                   : have.name == key;
        if (same) found = read_tape_line(line.text);
        return !same;
    });
    return found;
}

void TapeDirectory::copy(const std::string& name, const fs::path& target) {
    std::uint64_t end = 0;
    const Descriptor tape = open_visible(name, end);
    if (!tape) {
        throw cubepi::Error(cubepi::ErrorCode::not_found,
                            "there is no tape '" + name + "' in " + options_.directory.string());
    }
    const Descriptor out = Descriptor::open(target, O_WRONLY | O_CREAT | O_TRUNC);
    std::string block(std::size_t{256} << 10U, '\0');
    for (std::uint64_t at = 0; at < end;) {
        const auto want = static_cast<std::size_t>(std::min<std::uint64_t>(block.size(), end - at));
        const std::size_t got = tape.read_at(at, block.data(), want);
        if (got == 0) break;
        out.write(std::string_view(block).substr(0, got));
        at += got;
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

Json TapeDirectory::edit_state(const std::string& name,
                               const std::function<Json(JsonObject&)>& edit) {
    const Writing writing = write_lock(name);
    const JsonObject before = read_state(name);
    JsonObject state = before;
    const std::size_t late = make_late_edits(*writing.known, state);
    Json result = edit(state);
    write_state(writing, before, state);
    const std::lock_guard lock(writing.known->late_mutex);
    auto& edits = writing.known->late;
    edits.erase(edits.begin(), edits.begin() + static_cast<std::ptrdiff_t>(late));
    return result;
}

void TapeDirectory::edit_state_later(const std::string& name,
                                     std::function<void(JsonObject&)> edit) {
    const std::shared_ptr<CachedTape> tape = known(name);
    const std::lock_guard lock(tape->late_mutex);
    tape->late.push_back(std::move(edit));
}

std::size_t TapeDirectory::make_late_edits(CachedTape& tape, JsonObject& state) {
    const std::lock_guard lock(tape.late_mutex);
    for (const auto& edit : tape.late) edit(state);
    return tape.late.size();
}

void TapeDirectory::write_state(const Writing& writing, const JsonObject& before,
                                const JsonObject& state) const {
    if (state == before) return;
    if (state.empty()) {
        remove_file(writing.paths.state);
        return;
    }
    check_depth(writing.name, state);
    std::string text;
    append_json_text(text, state);
    text += '\n';
    replace_file(writing.paths.state, text, options_.sync == TapeSync::append);
}

JsonObject TapeDirectory::read_state(const std::string& name) {
    const std::optional<std::string> text = read_file(TapePaths(options_.directory, name).state);
    if (!text) return {};
    try {
        Json state = cubepi::parse_lenient(*text);
        if (JsonObject* object = state.if_object()) return std::move(*object);
    } catch (const cubepi::Error&) {
        // The store always replaces this file as a whole, so another program has written it.
    }
    const std::string file = TapePaths(options_.directory, name).state.string();
    throw cubepi::CheckpointCorruptionError("the side state of tape '" + name +
                                                "' cannot be read; delete " + file +
                                                " to continue without claims and pending requests",
                                            name, "tape", name + ".jsonl.state", file);
}

std::string TapeDirectory::put_media(const std::string& bytes) {
    make_directory();
    std::string name = sha256_hex(bytes);
    const fs::path directory = options_.directory / "media";
    make_private_directory(directory);
    const fs::path file = directory / name;
    if (::access(file.c_str(), F_OK) != 0) replace_file(file, bytes, false);
    return name;
}

std::optional<std::string> TapeDirectory::get_media(const std::string& sha256) {
    check_tape_name(sha256);
    return read_file(options_.directory / "media" / sha256);
}

}  // namespace bub::detail
