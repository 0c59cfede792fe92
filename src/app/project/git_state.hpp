#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include <cubepi/core/process.hpp>
#include <cubepi/core/task.hpp>

namespace cubepi::app {

/// Returns the branch of the git repository in which the directory is; empty if there is none, or if its name is not one that may be
/// part of a prompt: the author of the repository has chosen it. Blocks for a moment.
std::string git_branch(std::filesystem::path directory);

/// Returns the branch and the number of changed files: "main, 3 changed files". `launcher` starts git, which runs programs that the
/// configuration of the repository names, and which commands of the model may have changed. Null, or if git does not answer soon:
/// only the branch is known.
Task<std::string> git_state(std::filesystem::path directory,
                            std::shared_ptr<ProcessLauncher> launcher);

}  // namespace cubepi::app
