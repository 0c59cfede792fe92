#pragma once

#include <filesystem>
#include <string>

#include <cubepi/core/task.hpp>

namespace cubepi::app {

/// Returns the branch of the git repository in which the directory is; empty if there is none, or if its name is not one that may be
/// part of a prompt: the author of the repository has chosen it. Blocks for a moment.
std::string git_branch(std::filesystem::path directory);

/// Returns the branch and the number of changed files: "main, 3 changed files". `runs_git`: git is run, which obeys the configuration
/// of the repository; else, and if git does not answer soon, only the branch is known.
Task<std::string> git_state(std::filesystem::path directory, bool runs_git);

}  // namespace cubepi::app
