#include "session_changes.hpp"

#include <utility>

#include <bub/tape/session_tape_store.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/support/digest.hpp>
#include <cubepi/workspace/local_workspace.hpp>

#include "../config/paths.hpp"

namespace cubepi::app {

std::filesystem::path checkpoint_directory(const bub::TapeStore& tapes, const std::string& tape) {
    const auto* const sessions = dynamic_cast<const bub::SessionTapeStore*>(&tapes);
    if (!sessions) return {};
    // Two stores may have a tape of the same name.
    const std::string place = cubepi::detail::sha256_hex(sessions->location());
    return checkpoints_path() / (tape + "-" + place.substr(0, 8));
}

SessionChanges::SessionChanges(std::shared_ptr<Workspace> workspace)
    : workspace_(std::move(workspace)) {}

void SessionChanges::follow(const bub::TapeStore& tapes, const std::string& tape) {
    std::vector<std::string> left = take_problems();
    const std::lock_guard lock(mutex_);
    problems_ = std::move(left);
    checkpoints_.reset();
    temporary_.reset();
    directory_ = checkpoint_directory(tapes, tape);
    if (directory_.empty()) {
        try {
            directory_ = temporary_.emplace("undo").path();
        } catch (const Error& error) {
            problems_.push_back("Changes of files cannot be undone: " + std::string(error.what()));
            return;
        }
    }
    checkpoints_ = std::make_shared<FileCheckpoints>(FileCheckpointOptions().in(directory_));
}

void SessionChanges::copy_to(const bub::TapeStore& tapes, const std::string& tape) const {
    std::filesystem::path from;
    {
        const std::lock_guard lock(mutex_);
        from = directory_;
    }
    const std::filesystem::path to = checkpoint_directory(tapes, tape);
    if (!from.empty() && !to.empty()) FileCheckpoints::copy(from, to);
}

std::shared_ptr<FileCheckpoints> SessionChanges::checkpoints() const {
    const std::lock_guard lock(mutex_);
    return checkpoints_;
}

std::vector<std::shared_ptr<Workspace>> SessionChanges::workspaces() const {
    const std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<Workspace>> all{workspace_};
    if (notes_) all.push_back(notes_);
    return all;
}

std::shared_ptr<Workspace> SessionChanges::notes(const std::filesystem::path& directory) {
    const std::lock_guard lock(mutex_);
    if (!notes_)
        notes_ = std::make_shared<LocalWorkspace>(directory, WorkspacePolicy().without_links());
    return notes_;
}

std::vector<std::string> SessionChanges::take_problems() {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> all = std::exchange(problems_, {});
    if (!checkpoints_) return all;
    for (std::string& one : checkpoints_->take_problems()) all.push_back(std::move(one));
    return all;
}

}  // namespace cubepi::app
