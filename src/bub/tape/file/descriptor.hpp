#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cubepi/core/support/posix_file.hpp>

namespace bub::detail {

using cubepi::detail::LockKind;

/// An open file with its path: core/support/posix_file.hpp with exceptions. All functions throw CheckpointerError with
/// the path in its text.
class Descriptor {
public:
    Descriptor() = default;
    /// Opens a regular file, or a directory if `flags` contain O_DIRECTORY. Returns an invalid descriptor if the file does
    /// not exist and O_CREAT is not set. Rejects symbolic links and other kinds of files, without waiting for a pipe.
    static Descriptor open(const std::filesystem::path& path, int flags, unsigned mode = 0600);

    explicit operator bool() const noexcept { return static_cast<bool>(fd_); }
    int get() const noexcept { return fd_.get(); }
    const std::filesystem::path& path() const noexcept { return path_; }

    std::uint64_t size() const;
    /// Returns the time of the last write, in nanoseconds since 1970.
    std::int64_t modified() const;
    /// Reads fewer bytes than `size` only at the end of the file.
    std::size_t read_at(std::uint64_t offset, char* to, std::size_t size) const;
    std::string read_all() const;
    void write(std::string_view bytes) const;
    void write_at(std::uint64_t offset, std::string_view bytes) const;
    void truncate(std::uint64_t size) const;
    void sync() const;

private:
    cubepi::detail::UniqueFd fd_;
    std::filesystem::path path_;
};

/// Opens a file and locks it with flock(2), waiting up to `timeout`; opens it again if its previous holder has removed it. Returns
/// false if the file stays locked. `file` is invalid if the file does not exist and O_CREAT is not set.
[[nodiscard]] bool open_locked(Descriptor& file, const std::filesystem::path& path, int flags,
                               LockKind kind, std::chrono::milliseconds timeout);

/// An flock(2) lock on a file of its own, held until destruction.
class FileLock {
public:
    FileLock() = default;
    /// Waits up to `timeout`; throws CheckpointerLockTimeoutError. A shared lock on a file that does not exist is
    /// empty, because nothing has been written.
    FileLock(const std::filesystem::path& path, LockKind kind, std::chrono::milliseconds timeout);
    explicit operator bool() const noexcept { return static_cast<bool>(file_); }

private:
    Descriptor file_;
};

/// An fcntl(2) lock on a file of its own, held until destruction: shared by the processes that use a resource,
/// exclusive to remove it. Unlike FileLock it identifies the blocking process, and does not exclude users in the same
/// process; a process may have only one per file, because closing the file releases all locks of the process on it.
class UseLock {
public:
    /// Throws CheckpointerLockTimeoutError immediately, with the id of a process that holds the lock.
    UseLock(const std::filesystem::path& path, LockKind kind);

private:
    Descriptor file_;
};

/// Makes a file's name durable, as Descriptor::sync does for its contents.
void sync_directory_of(const std::filesystem::path& path);

/// Returns true if the lock was acquired without waiting.
bool try_lock(const Descriptor& file);

/// Writes `bytes` to a new file and renames it to `path`, so that readers see either the old file or the new one.
void replace_file(const std::filesystem::path& path, std::string_view bytes, bool sync);
/// Returns nothing if the file does not exist.
std::optional<std::string> read_file(const std::filesystem::path& path);
void remove_file(const std::filesystem::path& path);
/// Throws CheckpointerError with the code for `error_number` and with `path`: "cannot VERB PATH: reason".
[[noreturn]] void throw_system(const std::string& verb, const std::filesystem::path& path,
                               int error_number);
/// Returns the paths of the files in a directory, in no order; none if the path is not a directory.
std::vector<std::filesystem::path> files_in(const std::filesystem::path& directory);
/// Creates a directory that only this user can enter, with its missing parents. An existing directory keeps its mode.
/// Throws Error if the path is a file or a symbolic link.
void make_private_directory(const std::filesystem::path& path);

/// One line of a file, without its line feed. Valid until the reader's next call.
struct FileLine {
    std::string_view text = {};
    std::uint64_t offset = 0;  ///< of its first byte
    std::uint64_t end = 0;     ///< after its line feed
    bool ended = true;         ///< false: the last line, without a line feed
};

/// A reader of the lines of a part of a file, in order. Memory: one block and the longest line.
class LineReader {
public:
    LineReader(const Descriptor& file, std::uint64_t from, std::uint64_t to);
    /// Returns false at the end.
    bool next(FileLine& line);

private:
    bool fill();

    const Descriptor& file_;
    std::uint64_t at_;    ///< offset of buffer_[start_]
    std::uint64_t read_;  ///< offset of the next read
    std::uint64_t to_;
    std::string buffer_;
    std::size_t start_ = 0;
    std::size_t searched_ = 0;
};

/// A reader of the lines of a file from the end (`to`) to the beginning (`from`, the start of a line).
class BackwardLineReader {
public:
    BackwardLineReader(const Descriptor& file, std::uint64_t from, std::uint64_t to);
    /// Returns false at the beginning.
    bool next(FileLine& line);

private:
    bool fill();

    const Descriptor& file_;
    std::uint64_t from_;
    std::uint64_t start_;  ///< offset of buffer_[0]
    std::string buffer_;   ///< bytes [start_, start_ + size) that were not returned yet
    std::uint64_t size_;   ///< number of bytes of buffer_ not returned yet
    std::uint64_t searched_ =
        0;  ///< no line feed from buffer_[searched_] on (except the last line's own)
    std::string line_;
};

}  // namespace bub::detail
