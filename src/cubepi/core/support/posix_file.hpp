#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <fcntl.h>

namespace cubepi::detail {

// The system calls for files, in the one form that this project uses. Nothing here throws for a failed call: the result is
// empty or false and errno is the reason, so that each module reports it in its own words. Calls that a signal interrupts
// (EINTR) are repeated. The functions that are noexcept do not allocate memory, so a child may call them after a fork.

/// Owns a file descriptor; -1 means none. The destructor keeps errno.
class UniqueFd {
public:
    UniqueFd() noexcept = default;
    explicit UniqueFd(int fd) noexcept : fd_(fd) {}
    UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    UniqueFd& operator=(UniqueFd&& other) noexcept {
        std::swap(fd_, other.fd_);
        return *this;
    }
    ~UniqueFd();

    int get() const noexcept { return fd_; }
    int release() noexcept { return std::exchange(fd_, -1); }
    explicit operator bool() const noexcept { return fd_ >= 0; }

private:
    int fd_ = -1;
};

/// openat(2) with O_CLOEXEC and O_NOCTTY added to `flags`. `mode` is that of a file that O_CREAT creates.
UniqueFd open_file(const char* path, int flags, unsigned mode = 0600,
                   int directory = AT_FDCWD) noexcept;

/// Returns the number of bytes read, which is less than `size` only at the end of the file; nothing on failure.
std::optional<std::size_t> read_at(int fd, std::uint64_t offset, char* to,
                                   std::size_t size) noexcept;

/// Writes all bytes. After a failure a part of them may have been written.
bool write_all(int fd, std::string_view bytes) noexcept;
bool write_all_at(int fd, std::uint64_t offset, std::string_view bytes) noexcept;

/// Makes the contents of a file, or the names in a directory, durable: fdatasync(2). Also true if the file system does not
/// support that, because then there is nothing to wait for.
bool sync_file(int fd) noexcept;

enum class LockKind { shared, exclusive };

/// flock(2) without waiting. False with EWOULDBLOCK means that another process holds the lock.
bool try_flock(int fd, LockKind kind) noexcept;

/// The new contents of a file under a temporary name. replace() renames it, so that readers see either the old contents or
/// the new. The destructor removes a temporary file that was not renamed.
class ReplacementFile {
public:
    /// Takes ownership of `fd`, a file just created at `temporary`, which is relative to the open directory `directory`.
    /// Without a valid `fd` there is nothing to remove.
    ReplacementFile(UniqueFd fd, std::filesystem::path temporary, int directory = AT_FDCWD);
    ReplacementFile(const ReplacementFile&) = delete;
    ReplacementFile& operator=(const ReplacementFile&) = delete;
    ~ReplacementFile();

    int get() const noexcept { return fd_.get(); }
    explicit operator bool() const noexcept { return static_cast<bool>(fd_); }

    /// Closes the file and renames it to `path`, which is relative to the same directory. Does not sync anything: call
    /// sync_file() before, and for the directory after it, if the replacement must survive a power failure.
    bool replace(const std::filesystem::path& path) noexcept;

private:
    UniqueFd fd_;
    const std::filesystem::path temporary_;
    const int directory_;
    bool exists_;
};

/// The system's text for an errno value: "No such file or directory".
std::string errno_text(int error_number);

/// Returns true if `error_number` means that a disk, a quota or a limit of the file size is exhausted.
bool is_out_of_space(int error_number) noexcept;

/// Names the kind of file for a mode of stat(2) that is not a regular file's: "a pipe", "a directory"; empty for a regular
/// file.
std::string_view kind_if_not_regular(unsigned mode) noexcept;

/// The same for the file at `path`, following symbolic links; also empty if the file cannot be examined. Opening a pipe
/// blocks until its other end is opened: check a path with this before reading it.
std::string_view kind_if_not_regular(const std::filesystem::path& path) noexcept;

}  // namespace cubepi::detail
