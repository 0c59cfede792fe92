#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cubepi/agent/tool_context.hpp>
#include <cubepi/workspace/workspace.hpp>

namespace cubepi {

struct FileCheckpointOptions {
    /// The directory of the copies, outside of the workspace: created with mode 0700 at the first change, refused if others can
    /// access it. Several processes may use one directory.
    std::filesystem::path directory;
    /// The limit of all copies together, and the number of changes; the oldest ones are dropped when a new one does not fit.
    std::uint64_t max_total_bytes = 256 * 1024 * 1024;
    std::size_t max_changes = 2000;
    /// A change of a larger file cannot be taken back.
    std::uint64_t max_file_bytes = 64 * 1024 * 1024;

    FileCheckpointOptions() {}
    FileCheckpointOptions&& in(std::filesystem::path path) && {
        directory = std::move(path);
        return std::move(*this);
    }
};

/// The changes of one prompt, of its sub-agents too.
struct PromptChanges {
    std::string prompt = {};  ///< FileCheckpoints::prompt_of()
    std::vector<std::string> files =
        {};  ///< with changes that are not taken back, in the order of the changes
    std::size_t taken_back = 0;  ///< changes that are
};

/// The outcome of undo() or redo() for one file.
struct RestoredFile {
    enum class Outcome : std::uint8_t {
        restored,   ///< has its earlier content again
        created,    ///< exists again
        removed,    ///< does not exist again
        unchanged,  ///< had that content already
        conflict,   ///< left alone: it is not as the last change left it
        failed,     ///< left alone: there is no copy, or it cannot be written
    };
    std::string path = {};
    Outcome outcome = Outcome::restored;
    std::string reason = {};  ///< of conflict and failed
    /// Older changes of the prompt remain, because something else changed the file between them.
    bool is_partial = false;
};

/// A file as it was before the first of several changes.
struct EarlierFile {
    std::string path = {};
    bool existed = false;
    std::optional<std::string> content = {};  ///< absent: it did not exist, or there is no copy
};

/// Copies of files from before tools changed them, by which the changes can be taken back (D158).
///
/// The tools write and edit, made with this object in their FileToolOptions, and the memory tool record each change before they make it:
/// a copy of the file by its SHA-256, equal contents once, and the hash of what they are about to write. Both are durable by then, so
/// a process that is killed at any point leaves a file that can be restored. Changes by other means, such as commands, are
/// not covered; they are recognized, because undo() leaves a file alone that is not as the last change left it.
///
/// Changes belong to the prompt of a user. All members block, and any thread may call them; those that throw throw
/// Error: storage_locked, permission_denied, io, and what they state.
class FileCheckpoints {
public:
    /// Accesses no file.
    explicit FileCheckpoints(FileCheckpointOptions options);
    ~FileCheckpoints();
    FileCheckpoints(const FileCheckpoints&) = delete;
    FileCheckpoints& operator=(const FileCheckpoints&) = delete;

    /// Returns the prompt of a call: the id of its run, or of the run that started it as a sub-agent.
    static std::string prompt_of(const ToolContext& context);

    /// A change between its record and its end. The destructor records that it was not made, unless made() was called.
    class Change {
    public:
        Change(std::shared_ptr<FileCheckpoints> checkpoints, std::uint64_t number)
            : checkpoints_(std::move(checkpoints)), number_(number) {}
        ~Change();
        Change(const Change&) = delete;
        Change& operator=(const Change&) = delete;
        /// Records that the file was changed.
        void made() noexcept { made_ = true; }

    private:
        std::shared_ptr<FileCheckpoints> checkpoints_;
        std::uint64_t number_;
        bool made_ = false;
    };

    /// Records that a tool is about to write `content` to `path`, or to remove it if `content` is absent. Called in the function
    /// that rewrite() calls, for example, with its argument. Returns null if the change cannot be recorded: it is made
    /// nevertheless, and take_problems() says that it cannot be taken back.
    static std::unique_ptr<Change> record(const std::shared_ptr<FileCheckpoints>& checkpoints,
                                          Workspace& workspace, const std::string& path,
                                          const FileBefore& before,
                                          std::optional<std::string_view> content,
                                          std::string prompt) noexcept;

    /// Returns sentences about changes that cannot be taken back, since the last call.
    std::vector<std::string> take_problems();

    /// Returns the prompts with changes of files of this workspace, in the order of their first change.
    std::vector<PromptChanges> prompts(Workspace& workspace);
    /// Returns the number of changes that the limits have dropped.
    std::uint64_t dropped();

    /// Takes back all changes of these prompts, and returns what became of each file; empty: there are none. A file that is not
    /// as the last of these changes left it is not touched. Files are opened by the rules of the
    /// workspace, and a symbolic link that has taken the place of a file or a directory is not followed. Directories that were
    /// created stay.
    std::vector<RestoredFile> undo(Workspace& workspace, const std::vector<std::string>& prompts);
    /// Makes the changes of the last undo() again, unless tools have changed files since; empty: there is none. The same rules
    /// apply.
    std::vector<RestoredFile> redo(Workspace& workspace);

    /// Returns the files that these prompts have changed, as they were before the first of the changes.
    std::vector<EarlierFile> before(Workspace& workspace, const std::vector<std::string>& prompts);

    /// Copies the records and the files of a directory to a new one, for a session that continues another. Does nothing if there
    /// are none.
    static void copy(const std::filesystem::path& from, const std::filesystem::path& to);

private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace cubepi
