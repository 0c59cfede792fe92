#include <cubepi/workspace/files/checkpoint_journal.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <functional>
#include <thread>
#include <utility>

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cubepi/core/error.hpp>
#include <cubepi/core/ids.hpp>
#include <cubepi/core/support/digest.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/net/utf8.hpp>
#include <cubepi/schema/json_text.hpp>
#include <cubepi/workspace/files/file_access.hpp>

namespace cubepi::detail {

namespace {

constexpr std::string_view hex_suffix = "_hex";
constexpr std::size_t copy_step = std::size_t{64} * 1024;

/// Names of files need not be UTF-8.
void put_bytes(JsonObject& to, std::string_view key, const std::string& bytes) {
    if (is_utf8(bytes)) {
        to[key] = bytes;
        return;
    }
    to[std::string(key) + std::string(hex_suffix)] = hex_of(bytes);
}

std::string get_bytes(const JsonObject& from, std::string_view key) {
    if (from.contains(key)) return text_member(from, key);
    const std::string text = text_member(from, std::string(key) + std::string(hex_suffix));
    const auto value = [](char c) {
        return static_cast<unsigned>(c >= 'a' ? c - 'a' + 10 : c - '0') & 15U;
    };
    std::string bytes;
    for (std::size_t i = 0; i + 1 < text.size(); i += 2)
        bytes += static_cast<char>(value(text[i]) << 4 | value(text[i + 1]));
    return bytes;
}

Json to_json(const FileVersion& version) {
    if (!version.exists) return nullptr;
    JsonObject json{{"sha256", version.sha256}, {"bytes", version.bytes}};
    if (version.mode) json["mode"] = *version.mode;
    return json;
}

FileVersion version_in(const JsonObject& record, std::string_view key) {
    FileVersion version;
    const JsonObject* const json = object_member(record, key);
    if (!json) return version;
    version.exists = true;
    version.sha256 = text_member(*json, "sha256");
    version.bytes = static_cast<std::uint64_t>(integer_member(*json, "bytes").value_or(0));
    if (const auto mode = integer_member(*json, "mode"))
        version.mode = static_cast<unsigned>(*mode) & 07777U;
    return version;
}

constexpr std::array<std::string_view, 3> kinds{"change", "undo", "redo"};

std::string line_of(const ChangeRecord& record) {
    JsonObject json{{"change", record.number},
                    {"kind", kinds[static_cast<std::size_t>(record.kind)]},
                    {"prompt", replace_broken_utf8(record.prompt)}};
    put_bytes(json, "root", record.root);
    put_bytes(json, "path", record.path);
    json["before"] = to_json(record.before);
    json["after"] = to_json(record.after);
    json["copied"] = record.copied;
    if (!record.covers.empty())
        json["covers"] = JsonArray(record.covers.begin(), record.covers.end());
    if (!record.batch.empty()) json["batch"] = record.batch;
    if (record.applied) json["applied"] = *record.applied;
    return json_text(json) + "\n";
}

/// Returns nothing for a line that is not a record.
std::optional<ChangeRecord> record_in(const JsonObject& json) {
    const auto number = integer_member(json, "change");
    const auto kind = std::find(kinds.begin(), kinds.end(), string_member(json, "kind"));
    if (!number || *number <= 0 || kind == kinds.end()) return std::nullopt;
    ChangeRecord record;
    record.number = static_cast<std::uint64_t>(*number);
    record.kind = static_cast<ChangeRecord::Kind>(kind - kinds.begin());
    record.prompt = text_member(json, "prompt");
    record.root = get_bytes(json, "root");
    record.path = get_bytes(json, "path");
    record.before = version_in(json, "before");
    record.after = version_in(json, "after");
    record.copied = flag_member(json, "copied");
    record.batch = text_member(json, "batch");
    if (const JsonArray* const covers = array_member(json, "covers")) {
        for (const Json& one : *covers) {
            if (one.is_number()) record.covers.push_back(one.to_number<std::uint64_t>());
        }
    }
    if (json.contains("applied")) record.applied = flag_member(json, "applied");
    return record;
}

std::string outcome_line(std::uint64_t number, bool applied) {
    return json_text(JsonObject{{"settled", number}, {"applied", applied}}) + "\n";
}

/// A digest, and nothing else, names a file of the directory of copies.
bool is_digest(std::string_view name) {
    return name.size() == 64 && name.find_first_not_of("0123456789abcdef") == name.npos;
}

}  // namespace

CheckpointJournal::CheckpointJournal(FileCheckpointOptions options)
    : options_(std::move(options)) {}

CheckpointJournal::Hold::Hold(CheckpointJournal& journal, bool create)
    : journal_(journal), alone_(journal.mutex_) {
    if (!journal_.open(create)) return;
    journal_.acquire();
    try {
        journal_.refresh();
        if (!std::exchange(journal_.swept_, true)) journal_.remove_unused(Unused::all);
    } catch (...) {
        ::flock(journal_.lock_.get(), LOCK_UN);
        throw;
    }
}

CheckpointJournal::Hold::~Hold() {
    if (journal_.lock_) ::flock(journal_.lock_.get(), LOCK_UN);
}

/// Returns false if the directory does not exist. One that was removed is made again.
bool CheckpointJournal::open(bool create) {
    struct stat info{};
    if (directory_ && ::fstat(directory_.get(), &info) == 0 && info.st_nlink > 0) return true;
    directory_ = UniqueFd();
    objects_ = UniqueFd();
    lock_ = UniqueFd();
    journal_ = UniqueFd();
    records_.clear();
    const std::string path = options_.directory.string();
    const auto fail = [&path] { throw_file_error("open the directory", path, errno); };
    if (create) make_private_directory(options_.directory);
    UniqueFd directory = open_file(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    dropped_ = 0;
    if (!directory && errno == ENOENT && !create) return false;
    if (!directory || ::fstat(directory.get(), &info) != 0) fail();
    if (info.st_uid != ::geteuid() || (info.st_mode & 077) != 0) {
        throw Error(ErrorCode::permission_denied,
                    path + " is accessible to other users. Run chmod 700 on it.");
    }
    constexpr const char* objects = "objects";
    if (::mkdirat(directory.get(), objects, 0700) != 0 && errno != EEXIST) fail();
    objects_ = open_file(objects, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, directory.get());
    if (objects_) lock_ = open_file("lock", O_RDWR | O_CREAT | O_NOFOLLOW, 0600, directory.get());
    if (!objects_ || !lock_) fail();
    directory_ = std::move(directory);
    return true;
}

void CheckpointJournal::acquire() {
    constexpr std::chrono::seconds longest(10);
    const auto end = std::chrono::steady_clock::now() + longest;
    auto pause = std::chrono::microseconds(50);
    while (!try_flock(lock_.get(), LockKind::exclusive)) {
        if (errno != EWOULDBLOCK) throw_file_error("lock", options_.directory.string(), errno);
        if (std::chrono::steady_clock::now() >= end) {
            throw Error(ErrorCode::storage_locked, "another process has locked " +
                                                       options_.directory.string() +
                                                       " for 10 s; end it, or continue it");
        }
        std::this_thread::sleep_for(pause);
        if (pause < std::chrono::milliseconds(10)) pause *= 2;
    }
}

/// Reads the lines that other processes have added. The file is another one after changes were dropped.
void CheckpointJournal::refresh() {
    struct stat now{};
    struct stat known{};
    const bool exists = ::fstatat(directory_.get(), "journal", &now, AT_SYMLINK_NOFOLLOW) == 0;
    const bool is_known = exists && journal_ && ::fstat(journal_.get(), &known) == 0 &&
                          known.st_ino == now.st_ino && known.st_dev == now.st_dev &&
                          static_cast<std::uint64_t>(now.st_size) >= read_to_;
    if (!is_known) {
        records_.clear();
        read_to_ = 0;
        dropped_ = 0;
        journal_ =
            open_file("journal", O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW, 0600, directory_.get());
        if (!journal_ || ::fstat(journal_.get(), &now) != 0)
            throw_file_error("open", (options_.directory / "journal").string(), errno);
        if (!exists) (void)sync_file(directory_.get());
    }
    const auto size = static_cast<std::uint64_t>(now.st_size);
    std::string text(static_cast<std::size_t>(size > read_to_ ? size - read_to_ : 0), '\0');
    const auto got = read_at(journal_.get(), read_to_, text.data(), text.size());
    if (!got) throw_file_error("read", (options_.directory / "journal").string(), errno);
    std::string_view rest(text.data(), *got);
    for (auto end = rest.find('\n'); end != rest.npos; end = rest.find('\n')) {
        take_line(rest.substr(0, end));
        rest.remove_prefix(end + 1);
        read_to_ += end + 1;
    }
}

void CheckpointJournal::take_line(std::string_view line) {
    boost::system::error_code failed;
    const Json json = boost::json::parse(line, failed);
    const JsonObject* const object = failed ? nullptr : json.if_object();
    if (!object) return;
    if (const auto number = integer_member(*object, "settled")) {
        // Among the newest, as a rule.
        const auto found = std::find_if(records_.rbegin(), records_.rend(), [&](const auto& one) {
            return one.number == static_cast<std::uint64_t>(*number);
        });
        if (found != records_.rend()) found->applied = flag_member(*object, "applied");
    } else if (const auto dropped = integer_member(*object, "dropped")) {
        dropped_ = static_cast<std::uint64_t>(*dropped);
        last_ = std::max(last_,
                         static_cast<std::uint64_t>(integer_member(*object, "last").value_or(0)));
    } else if (std::optional<ChangeRecord> record = record_in(*object)) {
        last_ = std::max(last_, record->number);
        records_.push_back(std::move(*record));
    }
}

void CheckpointJournal::append(const std::string& line, bool durable) {
    // A killed process, or a full disk, may have left a part of a line.
    bool written = ::ftruncate(journal_.get(), static_cast<off_t>(read_to_)) == 0 &&
                   write_all(journal_.get(), line);
    if (written && durable) written = sync_file(journal_.get());
    if (!written) {
        const int code = errno;
        (void)!::ftruncate(journal_.get(), static_cast<off_t>(read_to_));
        throw_file_error("write", (options_.directory / "journal").string(), code);
    }
    read_to_ += line.size();
}

std::map<std::string, std::uint64_t> CheckpointJournal::copies() const {
    std::map<std::string, std::uint64_t> all;
    for (const ChangeRecord& record : records_) {
        if (record.copied && record.before.exists) all[record.before.sha256] = record.before.bytes;
    }
    return all;
}

std::string CheckpointJournal::store(const Source& source, std::uint64_t bytes) {
    const std::uint64_t most = std::min(options_.max_file_bytes, options_.max_total_bytes);
    const auto check_size = [most](std::uint64_t size) {
        if (size <= most) return;
        throw Error(ErrorCode::too_large, "it has " + std::to_string(size) +
                                              " bytes, and copies of more than " +
                                              std::to_string(most) + " are not made");
    };
    check_size(bytes);
    const std::string temporary = "new-" + RandomIds().next();
    ReplacementFile copy(open_file(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW,
                                   0600, objects_.get()),
                         temporary, objects_.get());
    const auto fail = [this] {
        throw_file_error("write a copy to", (options_.directory / "objects").string(), errno);
    };
    if (!copy) fail();
    Sha256 digest;
    std::vector<char> buffer(copy_step);
    std::uint64_t size = 0;
    while (const std::size_t got = source(buffer.data(), buffer.size())) {
        const std::string_view part(buffer.data(), got);
        check_size(size += got);
        digest.add(part);
        if (!write_all(copy.get(), part)) fail();
    }
    const std::string name = digest.hex();
    // The record says that it exists; a copy of that name may be left of a process that was killed.
    if (copies().contains(name) && ::faccessat(objects_.get(), name.c_str(), R_OK, 0) == 0)
        return name;
    free_space(size);
    if (!sync_file(copy.get()) || !copy.replace(name) || !sync_file(objects_.get())) fail();
    return name;
}

std::string CheckpointJournal::load(const FileVersion& version) {
    const auto fail = [this](const std::string& what) {
        throw Error(ErrorCode::not_found,
                    "its copy in " + (options_.directory / "objects").string() + " " + what);
    };
    if (!is_digest(version.sha256)) fail("does not exist");
    const UniqueFd file =
        open_file(version.sha256.c_str(), O_RDONLY | O_NOFOLLOW, 0, objects_.get());
    if (!file) fail("cannot be read: " + errno_text(errno));
    std::string content(static_cast<std::size_t>(version.bytes), '\0');
    const auto got = read_at(file.get(), 0, content.data(), content.size());
    if (!got || *got != content.size() || sha256_hex(content) != version.sha256) fail("is damaged");
    return content;
}

void CheckpointJournal::add(ChangeRecord& record) {
    const std::size_t most = std::max<std::size_t>(options_.max_changes, 1);
    if (records_.size() >= most) {
        // Some more, so that the file is not written again for each change.
        const std::size_t excess = records_.size() + 1 - most + most / 10;
        const auto end =
            records_.begin() + static_cast<std::ptrdiff_t>(std::min(excess, records_.size()));
        dropped_ +=
            static_cast<std::uint64_t>(std::count_if(records_.begin(), end, [](const auto& one) {
                return one.kind == ChangeRecord::Kind::change;
            }));
        records_.erase(records_.begin(), end);
        record.number = ++last_;
        // With this one, whose copy is in use from now on.
        records_.push_back(record);
        return rewrite();
    }
    record.number = last_ + 1;
    append(line_of(record), true);
    last_ = record.number;
    records_.push_back(record);
}

void CheckpointJournal::record_outcome(std::uint64_t number, bool applied) noexcept {
    try {
        const auto found = std::find_if(records_.rbegin(), records_.rend(),
                                        [&](const auto& one) { return one.number == number; });
        if (found == records_.rend()) return;
        found->applied = applied;
        append(outcome_line(number, applied), false);
    } catch (const std::exception&) {
        // The next reader compares the file with the record.
    }
}

/// Drops the oldest changes until `bytes` more bytes of copies are within the limit.
void CheckpointJournal::free_space(std::uint64_t bytes) {
    bool changed = false;
    for (;;) {
        std::uint64_t total = bytes;
        for (const auto& [name, size] : copies()) total += size;
        if (total <= options_.max_total_bytes || records_.empty()) break;
        // Up to the first one with a copy; those before it free nothing.
        auto end = std::find_if(records_.begin(), records_.end(),
                                [](const auto& one) { return one.copied && one.before.exists; });
        if (end != records_.end()) ++end;
        dropped_ +=
            static_cast<std::uint64_t>(std::count_if(records_.begin(), end, [](const auto& one) {
                return one.kind == ChangeRecord::Kind::change;
            }));
        records_.erase(records_.begin(), end);
        changed = true;
    }
    if (changed) rewrite();
}

std::string CheckpointJournal::all_lines() const {
    std::string text = json_text(JsonObject{{"dropped", dropped_}, {"last", last_}}) + "\n";
    for (const ChangeRecord& record : records_) text += line_of(record);
    return text;
}

void CheckpointJournal::rewrite() {
    const std::string text = all_lines();
    const std::string temporary = "journal-" + RandomIds().next();
    ReplacementFile file(open_file(temporary.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600,
                                   directory_.get()),
                         temporary, directory_.get());
    const bool written = file && write_all(file.get(), text) && sync_file(file.get()) &&
                         file.replace("journal") && sync_file(directory_.get());
    const int code = errno;
    // Read from the beginning by the next holder, also after a failure.
    journal_ = UniqueFd();
    if (!written) throw_file_error("write", (options_.directory / "journal").string(), code);
    refresh();
    remove_unused(Unused::complete);
}

void CheckpointJournal::copy_to(const std::filesystem::path& directory) const {
    make_private_directory(directory);
    const std::filesystem::path objects = directory / "objects";
    make_private_directory(objects);
    for (const auto& [name, size] : copies()) {
        const std::filesystem::path target = objects / name;
        // A copy never changes, so both directories may have the same file.
        const bool linked =
            ::linkat(objects_.get(), name.c_str(), AT_FDCWD, target.c_str(), 0) == 0;
        if (linked || errno == EEXIST || errno == ENOENT) continue;
        std::error_code failed;
        std::filesystem::copy_file(options_.directory / "objects" / name, target, failed);
        if (failed) throw_file_error("write", target.string(), failed.value());
    }
    const std::filesystem::path journal = directory / "journal";
    const UniqueFd file =
        open_file(journal.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
    if (!file && errno == EEXIST)
        throw Error(ErrorCode::invalid_state, journal.string() + " exists already");
    if (!file || !write_all(file.get(), all_lines()) || !sync_file(file.get()))
        throw_file_error("write", journal.string(), errno);
}

/// Removes copies without a record. Incomplete ones are those of a process that was killed, or the one that is being stored.
void CheckpointJournal::remove_unused(Unused which) {
    const std::map<std::string, std::uint64_t> used = copies();
    UniqueFd listed = open_file(".", O_RDONLY | O_DIRECTORY, 0, objects_.get());
    DIR* const raw = listed ? ::fdopendir(listed.get()) : nullptr;
    if (raw == nullptr) return;
    listed.release();
    const std::unique_ptr<DIR, int (*)(DIR*)> directory(raw, &::closedir);
    std::vector<std::string> unused;
    while (const dirent* const found = ::readdir(directory.get())) {
        const std::string name = found->d_name;
        if (name == "." || name == ".." || used.contains(name)) continue;
        if (which == Unused::all || is_digest(name)) unused.push_back(name);
    }
    for (const std::string& name : unused) ::unlinkat(objects_.get(), name.c_str(), 0);
}

}  // namespace cubepi::detail
