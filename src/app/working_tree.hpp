#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <cubepi/core/task.hpp>
#include <cubepi/process/environment.hpp>
#include <cubepi/workspace/file_checkpoints.hpp>
#include <cubepi/workspace/workspace.hpp>

#include "terminal/pager.hpp"

namespace cubepi::app {

// The changes of files as diffs, an item per file.

/// Returns the difference between the last commit and the files of a git repository below `directory`, with the files that git neither
/// tracks nor ignores. Absent: there is no repository, or git cannot be run. Nothing that the configuration of the repository names is
/// executed. Throws Error if git fails.
Task<std::optional<std::vector<PagerItem>>> git_changes(std::filesystem::path directory,
                                                        EnvironmentPolicy environment);

/// A work tree of git next to the repository.
struct WorkTree {
    std::filesystem::path directory = {};
    bool is_new = false;
};

/// Opens the work tree `name` of the repository of `directory`: `REPOSITORY-name` next to it. If it does not exist, it is created on the
/// branch `name`, which begins at the current commit if it is new. Hooks of the repository are not run. Throws Error: invalid_argument
/// (the name, no repository, a directory that is another one), io (git fails).
Task<WorkTree> open_work_tree(std::filesystem::path directory, std::string name,
                              EnvironmentPolicy environment);

/// Returns the difference between earlier versions of files and the present ones. Blocks.
std::vector<PagerItem> changes_since(const std::vector<EarlierFile>& files, Workspace& workspace);

}  // namespace cubepi::app
