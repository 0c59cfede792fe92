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

#include <cubepi/core/process.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/task.hpp>
#include <cubepi/process/sandbox.hpp>

// The files and processes that tools work on, as one interface. LocalWorkspace is a directory of this machine; an
// implementation for a container, a remote host or a tree in memory works with the standard tools unchanged.

namespace cubepi {

struct JudgedFile;

enum class FileKind : std::uint8_t { file, directory, symlink, other };

struct FileInfo {
    FileKind kind = FileKind::file;
    std::uint64_t size = 0;  ///< bytes
    std::chrono::system_clock::time_point modified = {};
    std::optional<unsigned> mode = {};  ///< permission bits as of chmod(2); absent: unknown
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
    /// Reads up to `size` further bytes; returns 0 at the end. Blocks. Throws Error(io).
    virtual std::size_t read(char* buffer, std::size_t size) = 0;

    FileReader(const FileReader&) = delete;
    FileReader& operator=(const FileReader&) = delete;

protected:
    FileReader() = default;
};

/// A file before rewrite() changes it.
struct FileBefore {
    bool exists = false;
    FileInfo info;  ///< valid if it exists
    std::optional<std::string>
        content;  ///< absent for a new file and for one that exceeds the size limit
};

/// A file after replace() has changed it.
struct FileAfter {
    std::optional<std::string> content;  ///< absent: the file is removed
    std::optional<unsigned> mode;  ///< permission bits; absent: those that a write would leave
};

/// The sandbox of one command.
enum class CommandSandbox : std::uint8_t {
    standard,   ///< that of the workspace, if it has one
    read_only,  ///< the same without writes; a workspace without a sandbox refuses
    none,       ///< for a command of the user
};

/// The parameters of a command to start.
struct ProcessRequest {
    std::string command;            ///< executed by the shell
    std::string working_directory;  ///< relative to the root; empty: the root
    std::shared_ptr<const Runtime> runtime = Runtime::standard();  ///< never null
    CommandSandbox sandbox = CommandSandbox::standard;

    explicit ProcessRequest(std::string command_line, std::string directory = {})
        : command(std::move(command_line)), working_directory(std::move(directory)) {}
};

/// Files and processes under one root. Paths are relative to the root, or absolute and below it.
///
/// The members for files block and may be called from any thread, also concurrently; call them on a worker thread. All throw
/// Error: not_found, permission_denied (also for a path that leads out of the workspace), invalid_argument, storage_full, io;
/// the text names the path and the remedy.
class Workspace {
public:
    virtual ~Workspace() = default;

    /// The root as shown to users and models, e.g. an absolute path.
    virtual std::string root() const = 0;

    /// Follows symbolic links.
    virtual FileInfo stat(const std::string& path) = 0;

    /// Opens a regular file for reading.
    virtual std::unique_ptr<FileReader> open(const std::string& path) = 0;

    /// The entries of a directory, sorted by name (bytes), without "." and "..".
    virtual std::vector<DirectoryEntry> list(const std::string& path) = 0;

    /// Replaces or creates a file atomically: readers see either the old content or the new one. Creates missing directories.
    /// Preserves the mode of an existing file. Returns true if the file is new.
    virtual bool write(const std::string& path, std::string_view content) = 0;

    /// Reads the file (at most `max_bytes`, else Error(too_large)), calls `change` and writes its result. No other write
    /// through this workspace happens in between. If `change` throws, the file is unchanged.
    virtual void update(const std::string& path, std::size_t max_bytes,
                        const std::function<std::string(std::string)>& change) = 0;

    /// Checks that the file can be written as write() does, reads it (unless it has more than `max_bytes`), calls `change`
    /// and writes its result. Writes nothing if `change` returns nothing or throws: such a call is a preview that fails as the
    /// write would. Creates missing directories only for a write.
    ///
    /// The default implementation calls stat(), read() and write(). An override must prevent other writes through this
    /// workspace in between, as update() does.
    using Rewrite = std::function<std::optional<std::string>(const FileBefore&)>;
    virtual void rewrite(const std::string& path, std::size_t max_bytes, const Rewrite& change);

    /// As rewrite(), but also removes files and sets their mode, and refuses a path with a symbolic link anywhere in it: `path`
    /// is a result of write_target(), and a link in it has been put there since.
    ///
    /// The default implementation calls stat(), read(), write() and remove(), and leaves the mode.
    using Replace = std::function<std::optional<FileAfter>(const FileBefore&)>;
    virtual void replace(const std::string& path, std::size_t max_bytes, const Replace& change);

    /// Removes a file, a symbolic link (not its target) or an empty directory.
    virtual void remove(const std::string& path) = 0;

    /// Returns the path of the file that a write to `path` would replace or create: relative to the root, without "." and
    /// "..", with symbolic links resolved. For decisions based on file names. Checks nothing else.
    ///
    /// The default implementation normalizes the text and is correct for workspaces without symbolic links.
    virtual std::string write_target(const std::string& path);

    /// Returns the same files and locks, but refuses a path with a symbolic link anywhere in it: such a link has been put there since
    /// the path was resolved. Null, as in the default implementation: the workspace has no symbolic links.
    virtual std::shared_ptr<Workspace> without_links() { return nullptr; }

    /// Starts a command without standard input, whose standard error is a part of its output. Throws Error: not_found (the
    /// directory), io.
    virtual Task<std::shared_ptr<Process>> start(ProcessRequest request) = 0;

    /// The sandbox of commands; null: they are not sandboxed by this process, as in the default implementation. May make it.
    virtual std::shared_ptr<const SandboxProfile> sandbox() const { return nullptr; }
    /// Returns true if there is one, and does not make it.
    virtual bool has_sandbox() const { return sandbox() != nullptr; }

    /// Returns the whole content of a file. Throws Error(too_large) if it exceeds `max_bytes`.
    std::string read(const std::string& path, std::size_t max_bytes);

    Workspace(const Workspace&) = delete;
    Workspace& operator=(const Workspace&) = delete;

protected:
    Workspace() = default;
};

/// The file of a call, as a tool opens it.
struct CallFile {
    std::shared_ptr<Workspace> workspace;
    std::string path;
};

/// Returns the file by which a policy has decided about a call with this argument `path`, so that links that have changed since do not
/// lead to another one. Without such a decision, and in a workspace without symbolic links: the path as it is. For tools, with
/// ToolContext::judged_file().
CallFile file_of_call(std::shared_ptr<Workspace> workspace, std::string path,
                      const std::optional<JudgedFile>& judged);

}  // namespace cubepi
