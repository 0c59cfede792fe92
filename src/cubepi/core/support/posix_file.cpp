#include <cubepi/core/support/posix_file.hpp>

#include <cerrno>
#include <cstdio>
#include <system_error>

#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace cubepi::detail {

namespace {

/// Repeats a system call that a signal interrupted.
template <class Call>
auto repeated(const Call& call) {
    auto result = call();
    while (result < 0 && errno == EINTR) result = call();
    return result;
}

}  // namespace

UniqueFd::~UniqueFd() {
    if (fd_ < 0) return;
    const int saved = errno;
    ::close(fd_);
    errno = saved;
}

UniqueFd open_file(const char* path, int flags, unsigned mode, int directory) noexcept {
    return UniqueFd(
        repeated([&] { return ::openat(directory, path, flags | O_CLOEXEC | O_NOCTTY, mode); }));
}

std::optional<std::size_t> read_at(int fd, std::uint64_t offset, char* to,
                                   std::size_t size) noexcept {
    std::size_t done = 0;
    while (done < size) {
        const auto at = static_cast<off_t>(offset + done);
        const ssize_t got = repeated([&] { return ::pread(fd, to + done, size - done, at); });
        if (got < 0) return std::nullopt;
        if (got == 0) break;
        done += static_cast<std::size_t>(got);
    }
    return done;
}

bool write_all(int fd, std::string_view bytes) noexcept {
    while (!bytes.empty()) {
        const ssize_t written = repeated([&] { return ::write(fd, bytes.data(), bytes.size()); });
        if (written < 0) return false;
        bytes.remove_prefix(static_cast<std::size_t>(written));
    }
    return true;
}

bool write_all_at(int fd, std::uint64_t offset, std::string_view bytes) noexcept {
    while (!bytes.empty()) {
        const auto at = static_cast<off_t>(offset);
        const ssize_t written =
            repeated([&] { return ::pwrite(fd, bytes.data(), bytes.size(), at); });
        if (written < 0) return false;
        bytes.remove_prefix(static_cast<std::size_t>(written));
        offset += static_cast<std::uint64_t>(written);
    }
    return true;
}

bool sync_file(int fd) noexcept {
    const int result = repeated([&] { return ::fdatasync(fd); });
    return result == 0 || errno == EINVAL || errno == ENOSYS;
}

bool try_flock(int fd, LockKind kind) noexcept {
    const int operation = kind == LockKind::shared ? LOCK_SH : LOCK_EX;
    return repeated([&] { return ::flock(fd, operation | LOCK_NB); }) == 0;
}

ReplacementFile::ReplacementFile(UniqueFd fd, std::filesystem::path temporary, int directory)
    : fd_(std::move(fd)),
      temporary_(std::move(temporary)),
      directory_(directory),
      exists_(static_cast<bool>(fd_)) {}

ReplacementFile::~ReplacementFile() {
    if (!exists_) return;
    const int saved = errno;
    ::unlinkat(directory_, temporary_.c_str(), 0);
    errno = saved;
}

bool ReplacementFile::replace(const std::filesystem::path& path) noexcept {
    // Some file systems report a full disk only here. An interrupted close has closed the file.
    if (::close(fd_.release()) != 0 && errno != EINTR) return false;
    if (::renameat(directory_, temporary_.c_str(), directory_, path.c_str()) != 0) return false;
    exists_ = false;
    return true;
}

std::string errno_text(int error_number) { return std::generic_category().message(error_number); }

bool is_out_of_space(int error_number) noexcept {
    return error_number == ENOSPC || error_number == EDQUOT || error_number == EFBIG;
}

std::string_view kind_if_not_regular(unsigned mode) noexcept {
    switch (mode & S_IFMT) {
        case S_IFREG: return {};
        case S_IFDIR: return "a directory";
        case S_IFIFO: return "a pipe";
        case S_IFSOCK: return "a socket";
        case S_IFCHR:
        case S_IFBLK: return "a device";
        default: return "not a regular file";
    }
}

std::string_view kind_if_not_regular(const std::filesystem::path& path) noexcept {
    struct stat info = {};
    return ::stat(path.c_str(), &info) == 0 ? kind_if_not_regular(info.st_mode)
                                            : std::string_view();
}

}  // namespace cubepi::detail
