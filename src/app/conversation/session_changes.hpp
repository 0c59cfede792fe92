#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <bub/tape/tape_store.hpp>
#include <cubepi/workspace/file_checkpoints.hpp>
#include <cubepi/workspace/temporary_directory.hpp>
#include <cubepi/workspace/workspace.hpp>

namespace cubepi::app {

/// Returns where the copies of the files are that the tools of a session have changed: a directory of this machine, also if the
/// tape is in a database. Removed with the session.
std::filesystem::path checkpoint_directory(const bub::TapeStore& tapes, const std::string& tape);

/// The changes of files by the tools of the current session. Thread-safe.
class SessionChanges {
public:
    /// `workspace` is that of the tools.
    explicit SessionChanges(std::shared_ptr<Workspace> workspace);

    /// The changes from now on belong to the session of this tape. The copies of one that is not saved are removed with the object,
    /// or by the next call.
    void follow(const bub::TapeStore& tapes, const std::string& tape);
    /// Copies those of the current session to the directory of another one, which continues it. Throws Error.
    void copy_to(const bub::TapeStore& tapes, const std::string& tape) const;

    /// Null if changes cannot be recorded.
    std::shared_ptr<FileCheckpoints> checkpoints() const;
    /// Returns the workspace of the tools, and that of the notes if the tools have used it.
    std::vector<std::shared_ptr<Workspace>> workspaces() const;
    /// Returns the workspace of the notes in this directory, which exists.
    std::shared_ptr<Workspace> notes(const std::filesystem::path& directory);
    /// Returns sentences about changes that cannot be taken back, since the last call.
    std::vector<std::string> take_problems();

private:
    const std::shared_ptr<Workspace> workspace_;
    mutable std::mutex mutex_;
    std::shared_ptr<Workspace> notes_;
    std::filesystem::path directory_;
    std::optional<TemporaryDirectory> temporary_;
    std::shared_ptr<FileCheckpoints> checkpoints_;
    std::vector<std::string> problems_;
};

}  // namespace cubepi::app
