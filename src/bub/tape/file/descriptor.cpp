#include <bub/tape/file/descriptor.hpp>

#include <cerrno>
#include <thread>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bub/tape/file/tape_errors.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/support/posix_file.hpp>

namespace bub::detail {

using cubepi::detail::try_flock;
using cubepi::detail::UniqueFd;

namespace {

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

}  // namespace bub::detail
