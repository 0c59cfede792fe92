#include <bub/tape/file/descriptor.hpp>

#include <algorithm>
#include <cerrno>
#include <thread>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cubepi/core/error.hpp>
#include <cubepi/core/support/posix_file.hpp>

namespace bub::detail {

using cubepi::detail::try_flock;
using cubepi::detail::UniqueFd;

namespace {

/// The number of bytes that the readers of lines read at once.
constexpr std::size_t block = std::size_t{128} << 10U;

[[noreturn]] void throw_not_a_file(const std::filesystem::path& path, std::string_view kind) {
    throw cubepi::CheckpointerError(cubepi::ErrorCode::storage,
                                    "cannot open " + path.string() + ": it is " +
                                        std::string(kind) +
                                        ", where a file is stored; move it away",
                                    std::string(), std::string(), path.string());
}

[[noreturn]] void throw_not_a_directory(const std::filesystem::path& path, std::string_view kind) {
    throw cubepi::CheckpointerError(cubepi::ErrorCode::storage,
                                    "cannot use the directory " + path.string() + ": it is " +
                                        std::string(kind) + "; move it away",
                                    std::string(), std::string(), path.string());
}

UniqueFd open_checked(const std::filesystem::path& path, int flags, unsigned mode) {
    // With a symbolic link, a user who can create one here could have another file read or overwritten.
    const bool directory = (flags & O_DIRECTORY) != 0;
    if (!directory) flags |= O_NOFOLLOW;
    // O_NONBLOCK: a pipe of this name must not have us wait for its other end.
    UniqueFd fd = cubepi::detail::open_file(path.c_str(), flags | O_NONBLOCK, mode);
    if (directory && fd) return fd;
    if (!fd) {
        const int reason = errno;
        if (reason == ENOENT && (flags & O_CREAT) == 0) return fd;
        if (!directory && reason == ELOOP) throw_not_a_file(path, "a symbolic link");
        const std::string_view kind = cubepi::detail::kind_if_not_regular(path);
        if (!directory && !kind.empty()) throw_not_a_file(path, kind);
        throw_system("open", path, reason);
    }
    struct stat info = {};
    if (::fstat(fd.get(), &info) != 0) throw_system("inspect", path, errno);
    const std::string_view kind = cubepi::detail::kind_if_not_regular(info.st_mode);
    if (!kind.empty()) throw_not_a_file(path, kind);
    return fd;
}

}  // namespace

void throw_system(const std::string& verb, const std::filesystem::path& path, int error_number) {
    cubepi::ErrorCode code = cubepi::ErrorCode::storage;
    const char* advice = "; check the directory and its disk";
    if (cubepi::detail::is_out_of_space(error_number)) {
        code = cubepi::ErrorCode::storage_full;
        advice = "; free some space and try again";
    }
    if (error_number == EACCES || error_number == EPERM || error_number == EROFS) {
        code = cubepi::ErrorCode::permission_denied;
        advice = "; give this user access to it";
    }
    throw cubepi::CheckpointerError(code,
                                    "cannot " + verb + " " + path.string() + ": " +
                                        cubepi::detail::errno_text(error_number) + advice,
                                    std::string(), std::string(), path.string());
}

Descriptor Descriptor::open(const std::filesystem::path& path, int flags, unsigned mode) {
    Descriptor made;
    made.path_ = path;
    made.fd_ = open_checked(path, flags, mode);
    return made;
}

std::uint64_t Descriptor::size() const {
    struct stat info = {};
    if (::fstat(get(), &info) != 0) throw_system("inspect", path_, errno);
    return static_cast<std::uint64_t>(info.st_size);
}

std::int64_t Descriptor::modified() const {
    struct stat info = {};
    if (::fstat(get(), &info) != 0) throw_system("inspect", path_, errno);
    return info.st_mtim.tv_sec * 1'000'000'000 + info.st_mtim.tv_nsec;
}

std::size_t Descriptor::read_at(std::uint64_t offset, char* to, std::size_t size) const {
    const auto done = cubepi::detail::read_at(get(), offset, to, size);
    if (!done) throw_system("read", path_, errno);
    return *done;
}

std::string Descriptor::read_all() const {
    std::string text(size(), '\0');
    text.resize(read_at(0, text.data(), text.size()));
    return text;
}

void Descriptor::write(std::string_view bytes) const {
    if (!cubepi::detail::write_all(get(), bytes)) throw_system("write", path_, errno);
}

void Descriptor::write_at(std::uint64_t offset, std::string_view bytes) const {
    if (!cubepi::detail::write_all_at(get(), offset, bytes)) throw_system("write", path_, errno);
}

void Descriptor::truncate(std::uint64_t size) const {
    if (::ftruncate(get(), static_cast<off_t>(size)) != 0) throw_system("shorten", path_, errno);
}

void Descriptor::sync() const {
    if (!cubepi::detail::sync_file(get())) throw_system("write to the disk", path_, errno);
}

void sync_directory_of(const std::filesystem::path& path) {
    const std::filesystem::path directory = path.parent_path();
    Descriptor::open(directory.empty() ? "." : directory, O_RDONLY | O_DIRECTORY).sync();
}

bool try_lock(const Descriptor& file) {
    if (try_flock(file.get(), LockKind::exclusive)) return true;
    if (errno != EWOULDBLOCK) throw_system("lock", file.path(), errno);
    return false;
}

bool open_locked(Descriptor& file, const std::filesystem::path& path, int flags, LockKind kind,
                 std::chrono::milliseconds timeout) {
    const auto end = std::chrono::steady_clock::now() + timeout;
    auto pause = std::chrono::microseconds(50);
    Descriptor opened;
    for (;;) {
        if (!opened) opened = Descriptor::open(path, flags);
        if (!opened) break;
        if (try_flock(opened.get(), kind)) {
            struct stat info = {};
            if (::fstat(opened.get(), &info) == 0 && info.st_nlink > 0) break;
            opened = Descriptor();
            continue;
        }
        if (errno != EWOULDBLOCK) throw_system("lock", path, errno);
        if (std::chrono::steady_clock::now() >= end) return false;
        std::this_thread::sleep_for(pause);
        if (pause < std::chrono::milliseconds(10)) pause *= 2;
    }
    file = std::move(opened);
    return true;
}

FileLock::FileLock(const std::filesystem::path& path, LockKind kind,
                   std::chrono::milliseconds timeout) {
    const int flags = kind == LockKind::shared ? O_RDONLY : O_RDWR | O_CREAT;
    if (open_locked(file_, path, flags, kind, timeout)) return;
    throw cubepi::CheckpointerLockTimeoutError(
        cubepi::ErrorCode::storage_locked,
        "another process has been writing for longer than " + std::to_string(timeout.count()) +
            " ms (it holds " + path.string() + "); try again, or end that process",
        std::string(), std::string(), path.string());
}

UseLock::UseLock(const std::filesystem::path& path, LockKind kind) {
    for (;;) {
        file_ = Descriptor::open(path, O_RDWR | O_CREAT);
        struct flock wanted = {};
        wanted.l_type = kind == LockKind::shared ? F_RDLCK : F_WRLCK;
        wanted.l_whence = SEEK_SET;
        if (::fcntl(file_.get(), F_SETLK, &wanted) == 0) {
            struct stat info = {};
            if (::fstat(file_.get(), &info) == 0 && info.st_nlink > 0) return;
            continue;  // another process has just removed the file
        }
        if (errno == EINTR) continue;
        if (errno != EAGAIN && errno != EACCES) throw_system("lock", path, errno);
        struct flock other = wanted;
        if (::fcntl(file_.get(), F_GETLK, &other) == 0 && other.l_type == F_UNLCK) continue;
        const std::string owner =
            other.l_pid > 0 ? "process " + std::to_string(other.l_pid) : "another process";
        throw cubepi::CheckpointerLockTimeoutError(
            cubepi::ErrorCode::storage_locked,
            "it is open in " + owner + "; leave that chat, or end that process");
    }
}

void replace_file(const std::filesystem::path& path, std::string_view bytes, bool sync) {
    std::filesystem::path fresh = path;
    fresh += ".new";
    UniqueFd fd = open_checked(fresh, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    cubepi::detail::ReplacementFile file(std::move(fd), fresh);
    if (!cubepi::detail::write_all(file.get(), bytes)) throw_system("write", fresh, errno);
    if (sync && !cubepi::detail::sync_file(file.get()))
        throw_system("write to the disk", fresh, errno);
    if (!file.replace(path)) throw_system("write", path, errno);
    if (sync) sync_directory_of(path);
}

std::optional<std::string> read_file(const std::filesystem::path& path) {
    const Descriptor file = Descriptor::open(path, O_RDONLY);
    if (!file) return std::nullopt;
    return file.read_all();
}

void remove_file(const std::filesystem::path& path) {
    if (::unlink(path.c_str()) != 0 && errno != ENOENT) throw_system("remove", path, errno);
}

std::vector<std::filesystem::path> files_in(const std::filesystem::path& directory) {
    std::vector<std::filesystem::path> files;
    std::error_code failed;
    for (std::filesystem::directory_iterator file(directory, failed), end; !failed && file != end;
         file.increment(failed))
        files.push_back(file->path());
    if (failed && failed.value() != ENOENT && failed.value() != ENOTDIR)
        throw_system("read the directory", directory, failed.value());
    return files;
}

void make_private_directory(const std::filesystem::path& path) {
    struct stat info = {};
    if (::mkdir(path.c_str(), 0700) == 0) return;
    if (errno == ENOENT && path.has_parent_path() && path.parent_path() != path) {
        make_private_directory(path.parent_path());
        if (::mkdir(path.c_str(), 0700) == 0) return;
    }
    const int reason = errno;
    if (reason != EEXIST) throw_system("create the directory", path, reason);
    if (::lstat(path.c_str(), &info) != 0 || S_ISDIR(info.st_mode)) return;
    throw_not_a_directory(path, S_ISLNK(info.st_mode) ? "a symbolic link" : "a file");
}

LineReader::LineReader(const Descriptor& file, std::uint64_t from, std::uint64_t to)
    : file_(file), at_(from), read_(from), to_(to) {}

bool LineReader::fill() {
    if (read_ >= to_) return false;
    if (start_ > 0) {
        buffer_.erase(0, start_);
        searched_ -= start_;
        start_ = 0;
    }
    const std::size_t had = buffer_.size();
    const auto want = static_cast<std::size_t>(std::min<std::uint64_t>(block + had, to_ - read_));
    buffer_.resize(had + want);
    const std::size_t got = file_.read_at(read_, buffer_.data() + had, want);
    buffer_.resize(had + got);
    read_ += got;
    if (got < want) to_ = read_;  // the file was truncated meanwhile
    return got > 0;
}

bool LineReader::next(FileLine& line) {
    std::size_t feed = buffer_.find('\n', searched_);
    while (feed == buffer_.npos) {
        searched_ = buffer_.size();
        if (!fill()) break;
        feed = buffer_.find('\n', searched_);
    }
    line.ended = feed != buffer_.npos;
    const std::size_t end = line.ended ? feed : buffer_.size();
    if (!line.ended && end == start_) return false;
    line.text = std::string_view(buffer_).substr(start_, end - start_);
    line.offset = at_;
    const std::size_t behind = line.ended ? end + 1 : end;
    at_ += behind - start_;
    line.end = at_;
    start_ = behind;
    searched_ = behind;
    return true;
}

BackwardLineReader::BackwardLineReader(const Descriptor& file, std::uint64_t from, std::uint64_t to)
    : file_(file), from_(from), start_(to), size_(0) {}

bool BackwardLineReader::fill() {
    if (start_ <= from_) return false;
    // A line that is longer than the buffered part doubles the block size, so that it is not moved too often.
    const std::uint64_t want =
        std::min<std::uint64_t>(std::max<std::uint64_t>(block, size_), start_ - from_);
    std::string grown(static_cast<std::size_t>(want + size_), '\0');
    const std::size_t got =
        file_.read_at(start_ - want, grown.data(), static_cast<std::size_t>(want));
    if (got < want) return false;  // the file was truncated meanwhile
    std::copy_n(buffer_.begin(), static_cast<std::ptrdiff_t>(size_),
                grown.begin() + static_cast<std::ptrdiff_t>(want));
    buffer_ = std::move(grown);
    start_ -= want;
    size_ += want;
    searched_ += want;
    return true;
}

bool BackwardLineReader::next(FileLine& line) {
    if (size_ == 0) {
        searched_ = 0;
        if (!fill()) return false;
        searched_ = size_;
    }
    const std::uint64_t end = size_;
    line.ended = buffer_[static_cast<std::size_t>(end - 1)] == '\n';
    const std::uint64_t text_end = line.ended ? end - 1 : end;
    searched_ = std::min(searched_, text_end);
    std::uint64_t begin = 0;
    std::uint64_t moved = start_;
    for (;;) {
        const std::size_t feed = searched_ == 0
                                     ? std::string::npos
                                     : buffer_.rfind('\n', static_cast<std::size_t>(searched_ - 1));
        if (feed != std::string::npos) {
            begin = feed + 1;
            break;
        }
        searched_ = 0;
        if (!fill()) {
            begin = 0;
            break;
        }
    }
    moved -= start_;  // distance by which the buffered bytes moved
    line_.assign(buffer_, static_cast<std::size_t>(begin),
                 static_cast<std::size_t>(text_end + moved - begin));
    line.text = line_;
    line.offset = start_ + begin;
    line.end = start_ + end + moved;
    size_ = begin;
    searched_ = begin;
    return true;
}

}  // namespace bub::detail
