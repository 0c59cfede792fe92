#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include <cubepi/core/task.hpp>
#include <cubepi/process/environment.hpp>

// Linked work trees of git (`git worktree`): how they are recognized, and those that the program makes (D212, D244).

namespace cubepi::app {

/// Returns the first line of a small file, without `before`; empty if it does not begin with it. The workspace names the file: it may
/// be a pipe, or endless.
std::string git_file_line(const std::filesystem::path& file, std::string_view before);

/// Returns the directory of the repository of a linked work tree, which git writes there; nothing for other directories. The file `.git`
/// may be of others: the repository must name the work tree, too.
std::optional<std::filesystem::path> repository_of_work_tree(const std::filesystem::path& root);

/// Returns the directory in which the repository of a linked work tree was made, without its `.git`; empty for other directories.
std::filesystem::path main_tree_of(const std::filesystem::path& root);

struct WorkTree {
    std::filesystem::path directory = {};
    std::string branch = {};  ///< of a new one
    bool is_new = false;
};

/// Opens the work tree `name` of the repository of `directory`: `REPOSITORY-name` next to it. If it does not exist, it is created on the
/// branch `name`, which begins at the current commit if it is new. Hooks and filters of the repository are not run. Throws Error:
/// invalid_argument (the name, no repository, a branch or directory that is in use), io (git fails), not_found (git is not installed).
Task<WorkTree> open_work_tree(std::filesystem::path directory, std::string name,
                              EnvironmentPolicy environment);

}  // namespace cubepi::app
