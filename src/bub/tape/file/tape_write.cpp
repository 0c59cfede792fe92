#include <algorithm>
#include <limits>

#include <fcntl.h>
#include <unistd.h>

#include <bub/tape/checkpointer/side_state.hpp>
#include <bub/tape/entry/entry_fields.hpp>
#include <bub/tape/file/tape_directory.hpp>
#include <bub/tape/fork/turn_journal.hpp>
#include <bub/tape/support/encoding.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/support/digest.hpp>
#include <cubepi/schema/python_json.hpp>

// Appends to tapes, and writes the files next to them: the side state of each, media, and the journals of turns. Ends turns that dead
// processes have left.

namespace bub::detail {

namespace {

/// The header of the commit file; the block to be written to the tape follows it.
struct CommitHeader {
    std::uint64_t offset = 0;
    std::uint64_t size = 0;
    std::string turn = {};
    bool replaces = false;
};

std::string commit_text(const CommitHeader& header, const std::string& block) {
    JsonObject line;
    line["offset"] = header.offset;
    line["size"] = header.size;
    line["turn"] = header.turn;
    line["replaces"] = header.replaces;
    std::string text;
    append_json_text(text, line);
    text += '\n';
    text += block;
    return text;
}

/// Returns false if the text is not a commit file.
bool read_commit(std::string_view text, CommitHeader& header, std::string_view& block) {
    const std::size_t feed = text.find('\n');
    if (feed == text.npos) return false;
    try {
        const Json json = cubepi::parse_lenient(text.substr(0, feed));
        const JsonObject& line = json.as_object();
        header.offset = line.at("offset").to_number<std::uint64_t>();
        header.size = line.at("size").to_number<std::uint64_t>();
        header.turn = std::string(line.at("turn").as_string());
        header.replaces = line.at("replaces").as_bool();
    } catch (const std::exception&) {
        return false;
    }
    block = text.substr(feed + 1);
    return block.size() == header.size;
}

}  // namespace

std::uint64_t end_before_commit(const TapePaths& paths) {
    const std::optional<std::string> text = read_file(paths.commit);
    CommitHeader header;
    std::string_view block;
    const bool extends = text && read_commit(*text, header, block) && !header.replaces;
    return extends ? header.offset : std::numeric_limits<std::uint64_t>::max();
}

namespace {

std::vector<TapeEntry> entries_of(std::string_view block) {
    std::vector<TapeEntry> entries;
    while (!block.empty()) {
        const std::size_t feed = block.find('\n');
        if (auto entry = read_tape_line(block.substr(0, feed)))
            entries.push_back(std::move(*entry));
        block.remove_prefix(feed == block.npos ? block.size() : feed + 1);
    }
    return entries;
}

bool needs_position(const std::vector<TapeEntry>& entries, const TapeAppend& options) {
    if (options.expected_position()) return true;
    for (const TapeEntry& entry : entries) {
        if (stored_messages(entry)) return true;
    }
    return false;
}

[[noreturn]] void throw_ids_at_end(const std::string& tape) {
    throw cubepi::CheckpointerError(
        cubepi::ErrorCode::storage,
        "the ids of tape '" + tape +
            "' are at their end (its last entry has one near 2^63), so nothing was "
            "stored; correct the id of that entry, or empty the tape");
}

void remove_journal(const TapePaths& paths, const std::string& turn) {
    if (turn.empty()) return;
    remove_file(paths.journal(turn));
    ::rmdir(paths.turns.c_str());
}

}  // namespace

TapePosition TapeDirectory::append(const std::string& name, std::vector<TapeEntry> entries,
                                   const TapeAppend& options) {
    check_depth(name, entries);
    close_dead_turns_at_start(name);
    Writing writing = write_lock(name);
    return append_locked(writing, std::move(entries), options);
}

TapeDirectory::Tail TapeDirectory::tail_for(Writing& writing, const Descriptor& tape,
                                            std::uint64_t size, std::vector<TapeEntry>& entries,
                                            const TapeAppend& options) const {
    const TapePaths& paths = writing.paths;
    Tail tail;
    tail.messages = 0;
    if (tape) tail = current_tail(*writing.known, tape, size);
    if (tape && needs_position(entries, options)) count_messages(tail, paths, tape, size);
    if (options.expected_position() && *options.expected_position() != *tail.messages)
        throw_stale(writing.name, *options.expected_position(), *tail.messages);
    if (options.reset()) {
        tail = Tail();
        tail.messages = 0;
    } else if (tape && options.first_anchor() > 0 && find_anchor(paths, tape, size, nullptr)) {
        drop_first(entries, options.first_anchor());
    }
    const auto free_ids =
        std::numeric_limits<std::int64_t>::max() - std::max<std::int64_t>(tail.last_id, 0);
    if (static_cast<std::uint64_t>(free_ids) < entries.size()) throw_ids_at_end(writing.name);
    return tail;
}

std::string TapeDirectory::block_of(std::vector<TapeEntry>& entries, Tail& tail,
                                    bool keep_ids) const {
    std::string block = tail.ended ? "" : "\n";
    const std::string now = tape_date(options_.clock->wall());
    for (TapeEntry& entry : entries) {
        assign_id(entry, tail.last_id, keep_ids);
        if (entry.date.empty()) entry.date = now;
        if (tail.messages) tail.messages = set_position(entry, *tail.messages);
        block += tape_line(entry);
    }
    return block;
}

TapePosition TapeDirectory::append_locked(Writing& writing, std::vector<TapeEntry> entries,
                                          const TapeAppend& options) {
    const TapePaths& paths = writing.paths;
    if (options.guard()) options.guard()(read_state(writing.name));
    const bool writes = !entries.empty() && !options.reset();
    Descriptor tape = Descriptor::open(paths.tape, writes ? O_RDWR | O_APPEND | O_CREAT : O_RDONLY);
    const std::uint64_t size = tape ? tape.size() : 0;
    Tail tail = tail_for(writing, tape, size, entries, options);
    if (!tail.ended) {
        options_.log->write(cubepi::LogLevel::warning, "tape.torn_line",
                            {{"tape", writing.name}, {"bytes", size}});
    }
    std::string block = block_of(entries, tail, options.keep_ids());
    TapePosition end;
    end.last_id = tail.last_id;
    end.messages = tail.messages.value_or(-1);
    if (entries.empty() && !options.reset()) {
        remove_journal(paths, options.turn());
        return end;
    }
    const bool all_or_none = entries.size() > 1 || !options.turn().empty() || options.reset();
    writing.known->tail.reset();
    if (options.reset() && entries.empty()) block.clear();
    write_block(writing, tape, size, block, options.reset(), options.turn(), all_or_none);
    if (options.reset()) return end;
    tail.modified = tape.modified();
    tail.mark = TapeMark::of(tape, size + block.size());
    tail.ended = true;
    writing.known->tail = std::move(tail);
    return end;
}

/// The commit file contains the whole block before the tape has a byte of it, and is removed after the tape has all of
/// it: a process that finds a commit file completes the append.
void TapeDirectory::write_block(Writing& writing, const Descriptor& tape, std::uint64_t size,
                                const std::string& block, bool replaces, const std::string& turn,
                                bool all_or_none) {
    const TapePaths& paths = writing.paths;
    if (all_or_none) {
        CommitHeader header;
        header.offset = size;
        header.size = block.size();
        header.turn = turn;
        header.replaces = replaces;
        replace_file(paths.commit, commit_text(header, block), false);
    }
    if (replaces) {
        try {
            finish_commit(writing);
        } catch (...) {
            // The caller is told that the append failed, so recovery must not complete it later.
            remove_file(paths.commit);
            throw;
        }
        return;
    }
    try {
        tape.write(block);
        if (options_.sync == TapeSync::append) {
            tape.sync();
            if (size == 0) sync_directory_of(paths.tape);
        }
    } catch (...) {
        // Nothing was stored: a full disk leaves no partial entries.
        tape.truncate(size);
        if (all_or_none) remove_file(paths.commit);
        throw;
    }
    if (!all_or_none) return;
    remove_journal(paths, turn);
    remove_file(paths.commit);
}

void TapeDirectory::finish_commit(Writing& writing) {
    const TapePaths& paths = writing.paths;
    if (::access(paths.commit.c_str(), F_OK) != 0) return;
    const std::optional<std::string> text = read_file(paths.commit);
    CommitHeader header;
    std::string_view block;
    if (!text || !read_commit(*text, header, block)) {
        remove_file(paths.commit);
        return;
    }
    writing.known->tail.reset();
    if (header.replaces) {
        remove_file(paths.index);
        if (block.empty()) {
            remove_file(paths.tape);
        } else {
            replace_file(paths.tape, block, options_.sync == TapeSync::append);
        }
    } else {
        const Descriptor tape = Descriptor::open(paths.tape, O_RDWR | O_APPEND | O_CREAT);
        const std::uint64_t size = tape.size();
        std::string there;
        if (size >= header.offset) {
            there.resize(static_cast<std::size_t>(
                std::min<std::uint64_t>(size - header.offset, block.size())));
            there.resize(tape.read_at(header.offset, there.data(), there.size()));
        }
        if (size >= header.offset && block.starts_with(there)) {
            tape.write(block.substr(there.size()));
            if (options_.sync == TapeSync::append) tape.sync();
        } else {
            // Another program wrote without locks in between, or replaced the file: the entries are appended after
            // that.
            remove_file(paths.commit);
            TapeAppend options = TapeAppend().turn(header.turn);
            (void)append_locked(writing, entries_of(block), options);
            return;
        }
    }
    remove_journal(paths, header.turn);
    remove_file(paths.commit);
    options_.log->write(cubepi::LogLevel::warning, "tape.append_completed",
                        {{"tape", writing.name}, {"bytes", block.size()}});
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
    check_depth(writing.name, state);
    RequestMarkSet old_marks;
    RequestMarkSet marks;
    if (cubepi::detail::list_of(before, "pending") != cubepi::detail::list_of(state, "pending")) {
        old_marks = marks_of(writing.name, before);
        marks = marks_of(writing.name, state);
    }
    marks_.add(marks, old_marks);
    if (state.empty()) {
        remove_file(writing.paths.state);
    } else {
        std::string text;
        append_json_text(text, state);
        text += '\n';
        replace_file(writing.paths.state, text, options_.sync == TapeSync::append);
    }
    marks_.remove(old_marks, marks);
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
    std::string name = cubepi::detail::sha256_hex(bytes);
    const std::filesystem::path directory = options_.directory / "media";
    make_private_directory(directory);
    const std::filesystem::path file = directory / name;
    if (::access(file.c_str(), F_OK) != 0) replace_file(file, bytes, false);
    return name;
}

std::optional<std::string> TapeDirectory::get_media(const std::string& sha256) {
    check_tape_name(sha256);
    return read_file(options_.directory / "media" / sha256);
}

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
    std::error_code unknown;
    std::vector<std::filesystem::path> journals;
    if (std::filesystem::is_symlink(paths.turns, unknown)) return journals;
    journals = files_in(paths.turns);
    std::erase_if(journals, [](const auto& path) { return path.extension() != ".journal"; });
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
