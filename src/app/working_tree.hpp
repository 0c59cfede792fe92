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

/// Returns the difference between earlier versions of files and the present ones. Blocks.
std::vector<PagerItem> changes_since(const std::vector<EarlierFile>& files, Workspace& workspace);

}  // namespace cubepi::app
