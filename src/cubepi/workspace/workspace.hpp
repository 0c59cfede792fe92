#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cubepi/core/task.hpp>

// The place where tools work: files and processes behind one port. LocalWorkspace is a directory of this machine; a
// container, a remote host or a tree in memory can take its place, and the standard tools work on it unchanged.

namespace cubepi {

enum class FileKind : std::uint8_t { file, directory, symlink, other };

struct FileInfo {
    FileKind kind = FileKind::file;
    std::uint64_t size = 0;  ///< bytes
    std::chrono::system_clock::time_point modified = {};
};

struct DirectoryEntry {
    std::string name;
    FileInfo info;  ///< of the entry itself: a symbolic link is not followed
};

/// A file that is open for reading. Not thread-safe.
class FileReader {
public:
    virtual ~FileReader() = default;
    virtual const FileInfo& info() const noexcept = 0;
    /// Reads up to `size` bytes that follow; 0 at the end. Blocks. Throws Error(io).
    virtual std::size_t read(char* buffer, std::size_t size) = 0;

    FileReader(const FileReader&) = delete;
    FileReader& operator=(const FileReader&) = delete;

protected:
    FileReader() = default;
};

/// A file as rewrite() finds it.
struct FileBefore {
    bool exists = false;
    FileInfo info;  ///< when it exists
    std::optional<std::string>
        content;  ///< absent for a new file, and for one beyond the size limit
};

/// What a command is started with.
struct ProcessRequest {
    std::string command;            ///< for the shell
    std::string working_directory;  ///< relative to the root; empty: the root

    explicit ProcessRequest(std::string command_line, std::string directory = {})
        : command(std::move(command_line)), working_directory(std::move(directory)) {}
};

/// How a command ended: by itself, or by a signal.
struct ExitStatus {
    std::optional<int> code;
    std::optional<int> signal;
    bool ok() const noexcept { return code == 0; }
};

/// A process of a command that was told to end and did not.
struct SurvivingProcess {
    std::int64_t pid = 0;  ///< 0: unknown
    std::string name;
    std::string reason;  ///< "operation not permitted"
};

/// A command that was started, with all processes that it starts. Its standard input is at its end; standard
/// output and standard error arrive in one stream, as they are written. Used on the executor it was started on.
/// The destructor kills what still runs.
class Process {
public:
    virtual ~Process() = default;

    /// Waits for output and appends the bytes to `out`. False when nothing more can come, which may be long after
    /// the command has exited: what it started may still hold the stream. One reader at a time.
    virtual Task<bool> read(std::string& out) = 0;

    /// Appends what is there, without waiting. False when there is nothing.
    virtual bool read_ready(std::string& out) = 0;

    /// True once there is no more output to come.
    virtual bool output_ended() const noexcept = 0;

    /// Stops listening; a read() that waits returns false.
    virtual void close_output() noexcept = 0;

    /// Waits for the command itself to exit.
    virtual Task<ExitStatus> wait() = 0;

    /// Asks all its processes to end (SIGTERM). Does nothing when they are gone.
    virtual void terminate() noexcept = 0;

    /// Ends all its processes (SIGKILL), and returns at once.
    virtual void kill() noexcept = 0;

    /// True once no process of the command is left, as far as is known. A command that has exited may have left some.
    virtual bool all_ended() const noexcept { return true; }

    /// Waits until no process of the command is left. The default waits for the command itself.
    virtual Task<> wait_all();

    /// Ends all its processes, and waits for that. Returns those that could not be ended. The default calls kill().
    virtual Task<std::vector<SurvivingProcess>> end();

    /// Like end(), for a destructor: blocks, for at most about a second. The default calls kill().
    virtual std::vector<SurvivingProcess> end_now() noexcept;

    Process(const Process&) = delete;
    Process& operator=(const Process&) = delete;

protected:
    Process() = default;
};

/// Files and processes under one root. Paths are relative to the root, or absolute and below it.
///
/// The calls on files block and may come from any thread, several at once; they belong on a worker thread. All throw
/// Error: not_found, permission_denied (also for a path that leads out of the workspace), invalid_argument,
/// storage_full, io; the text says which path and what to do.
class Workspace {
public:
    virtual ~Workspace() = default;

    /// The root as people and models are to see it, e.g. an absolute path.
    virtual std::string root() const = 0;

    /// Follows symbolic links.
    virtual FileInfo stat(const std::string& path) = 0;

    /// Opens a regular file for reading.
    virtual std::unique_ptr<FileReader> open(const std::string& path) = 0;

    /// The entries of a directory, sorted by name (bytes), without "." and "..".
    virtual std::vector<DirectoryEntry> list(const std::string& path) = 0;

    /// Replaces or creates a file: readers see the old content or the new one, nothing between. Missing directories are
    /// made. An existing file keeps its mode. True when the file is new.
    virtual bool write(const std::string& path, std::string_view content) = 0;

    /// Reads the file (at most `max_bytes`, else Error(too_large)), calls `change` and writes what it returns. No other
    /// write through this workspace comes between; what `change` throws leaves the file as it is.
    virtual void update(const std::string& path, std::size_t max_bytes,
                        const std::function<std::string(std::string)>& change) = 0;

    /// Checks that the file can be written as write() does, reads it (unless it has more than `max_bytes`), calls `change`
    /// and writes what it returns. Nothing is written when `change` returns nothing or throws: such a call is a
    /// preview that fails as the write would. Missing directories are made only for a write.
    ///
    /// The default implementation consists of stat(), read() and write(). An override lets no other write through this
    /// workspace come between, as update() does.
    using Rewrite = std::function<std::optional<std::string>(const FileBefore&)>;
    virtual void rewrite(const std::string& path, std::size_t max_bytes, const Rewrite& change);

    /// Removes a file, a symbolic link (not its target) or an empty directory.
    virtual void remove(const std::string& path) = 0;

    /// The path of the file that a write to `path` would replace or create: relative to the root, without "." and "..",
    /// and with symbolic links resolved. For decisions that go by the name of a file. Checks nothing else.
    ///
    /// The default implementation resolves the text alone and is right for workspaces without symbolic links.
    virtual std::string write_target(const std::string& path);

    /// Starts a command. Throws Error: not_found (the directory), io.
    virtual Task<std::shared_ptr<Process>> start(ProcessRequest request) = 0;

    /// The whole content of a file. Throws Error(too_large) when it is more than `max_bytes`.
    std::string read(const std::string& path, std::size_t max_bytes);

    Workspace(const Workspace&) = delete;
    Workspace& operator=(const Workspace&) = delete;

protected:
    Workspace() = default;
};

}  // namespace cubepi
