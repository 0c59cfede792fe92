#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/core/process.hpp>
#include <cubepi/core/task.hpp>
#include <cubepi/process/environment.hpp>

namespace cubepi::app {

/// Returns the branch of the git repository in which the directory is; empty if there is none, or if its name is not one that may be
/// part of a prompt: the author of the repository has chosen it. Blocks for a moment.
std::string git_branch(std::filesystem::path directory);

/// Returns the branch and the number of changed files: "main, 3 changed files". `launcher` starts git, which runs programs that the
/// configuration of the repository names, and which commands of the model may have changed. Null, or if git does not answer soon:
/// only the branch is known.
Task<std::string> git_state(std::filesystem::path directory,
                            std::shared_ptr<ProcessLauncher> launcher);

struct GitOutput {
    std::string text = {};
    std::string errors = {};
    bool ok = false;
    bool cut =
        false;  ///< `text` is only the beginning, of whole lines, or of parts that end with a zero byte
};

/// Git in one directory. Settings of the repository that run programs do not apply: its author need not be the user.
class GitProcess {
public:
    GitProcess(std::string directory, EnvironmentPolicy environment);

    /// Overrides a setting for the following calls.
    void set(std::string key, std::string value);
    void set_timeout(std::chrono::seconds timeout) { timeout_ = timeout; }
    void set_max_output(std::size_t bytes) { max_output_ = bytes; }

    /// Throws Error(not_found) if git is not installed. A failure of git is in the output.
    Task<GitOutput> run(std::vector<std::string> arguments);

private:
    std::string directory_;
    EnvironmentPolicy environment_;
    std::size_t settings_ = 0;
    std::chrono::seconds timeout_ = std::chrono::seconds(20);
    std::size_t max_output_ = std::size_t{2} << 20;
};

/// Returns the names of the settings that match a regular expression, without those of the user and the system. `git` must outlive the
/// task.
Task<std::vector<std::string>> settings_of_repository(GitProcess& git, std::string pattern);

/// Overrides the programs that the repository's own configuration runs on the contents of files. `git` must outlive the task.
Task<> disarm_filters(GitProcess& git);

/// Splits the output of git at each `end`.
std::vector<std::string_view> parts_of(std::string_view text, char end);

// Linked work trees of git (`git worktree`): how they are recognized, and those that the program makes (D212, D244).

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
