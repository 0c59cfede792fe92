#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <cubepi/core/runtime.hpp>
#include <cubepi/core/task.hpp>

namespace cubepi::app {

/// Returns the names of the files below a directory, relative to it, that a user may want to name in a prompt: those that git tracks and
/// those that it does not ignore; without git, or outside of a repository, those that a walk finds, without hidden ones. Sorted by depth,
/// then by name; bounded, so that a name may be missing in a very large directory. No command of the repository's configuration runs.
Task<std::vector<std::string>> project_names(std::shared_ptr<const Runtime> runtime,
                                             std::filesystem::path directory);

}  // namespace cubepi::app
