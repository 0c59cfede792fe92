#include "git.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <fstream>
#include <iterator>
#include <memory>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <bub/builtin/project_files.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/process.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/support/trimmed.hpp>
#include <cubepi/process/local_process.hpp>

#include "../shell_quoting.hpp"
#include "../terminal/terminal_stream.hpp"

namespace cubepi::app {

namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const std::string& why) { throw Error(ErrorCode::invalid_argument, why); }

/// A name of a directory and of a branch, on one level.
void check_name(const std::string& name) {
    constexpr std::size_t longest = 64;
    const auto is_plain = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               c == '-' || c == '_' || c == '.';
    };
    const bool fits = !name.empty() && name.size() <= longest && name.front() != '-' &&
                      name.front() != '.' && name.back() != '.' && !name.ends_with(".lock") &&
                      name.find("..") == std::string::npos &&
                      std::all_of(name.begin(), name.end(), is_plain);
    if (!fits)
        refuse("'" + visible(name) +
               "' is not a name of a work tree; use at most 64 letters, digits, '-', '_' and '.', "
               "such as: -w fix-login");
}

/// Returns the repository's own directory of git, or that of a linked work tree. Throws for any other: its files may name the
/// repository of another project, which a downloaded directory must not make writable.
fs::path repository_at(const fs::path& root) {
    const fs::path git = root / ".git";
    std::error_code failed;
    const fs::file_status status = fs::symlink_status(git, failed);
    if (!fs::exists(status))
        refuse(visible(root.string()) +
               " is not in a git repository, so it has no work trees.\n  Make one with a commit: "
               "git init");
    std::optional<fs::path> repository;
    if (fs::is_regular_file(status)) {
        repository = repository_of_work_tree(root);
    } else if (fs::is_directory(status) &&
               !fs::exists(fs::symlink_status(git / "commondir", failed))) {
        repository = fs::canonical(git, failed);
    }
    // Git would write what it creates into the repository that such a link names.
    const auto is_link = [&](const char* name) {
        return fs::is_symlink(fs::symlink_status(*repository / name, failed));
    };
    constexpr const char* written[] = {"worktrees", "refs", "logs", "objects", "HEAD"};
    if (!repository || repository->empty() ||
        std::any_of(std::begin(written), std::end(written), is_link))
        refuse("the repository of " + visible(root.string()) +
               " is in another place, as that of a submodule.\n  Make a work tree yourself, and "
               "work there: git worktree add DIR; cubepi -C DIR");
    return *std::move(repository);
}

/// Removes ".git", which the directory of git is named or ends with.
fs::path without_git(const fs::path& repository) {
    if (repository.filename() == ".git") return repository.parent_path();
    return repository.extension() == ".git" ? fs::path(repository).replace_extension() : repository;
}

struct ListedTree {
    fs::path directory = {};
    std::string branch = {};  ///< empty: none is checked out
    bool is_complete = true;  ///< false: git creates it, or was stopped while it did
};

/// Parses the output of `git worktree list --porcelain -z`.
std::vector<ListedTree> listed_trees(std::string_view text) {
    constexpr std::string_view directory = "worktree ";
    constexpr std::string_view branch = "branch refs/heads/";
    constexpr std::string_view unfinished = "locked initializing";
    std::vector<ListedTree> trees;
    for (const std::string_view line : parts_of(text, '\0')) {
        if (line.starts_with(directory)) {
            trees.emplace_back().directory = line.substr(directory.size());
        } else if (line.starts_with(branch) && !trees.empty()) {
            trees.back().branch = line.substr(branch.size());
        } else if (line == unfinished && !trees.empty()) {
            trees.back().is_complete = false;
        }
    }
    return trees;
}

[[noreturn]] void git_failed(const std::string& what, const GitOutput& output) {
    constexpr std::size_t longest = 500;
    const std::string reason(cubepi::detail::trimmed(output.errors));
    throw Error(ErrorCode::io, "git cannot " + what + ": " +
                                   (reason.empty() ? "it was stopped" : reason.substr(0, longest)));
}

/// Creates a work tree with the branch `name`, which begins at the current commit if it is new. `is_known`: its directory was removed
/// without git. `git` must outlive the task.
Task<> create_tree(GitProcess& git, std::string place, std::string name, bool is_known) {
    std::vector<std::string> arguments = {"rev-parse", "--verify", "--quiet", "HEAD"};
    const GitOutput commit = co_await git.run(std::move(arguments));
    if (!commit.ok) refuse("the repository has no commit yet, which a work tree needs");
    arguments = {"show-ref", "--verify", "--quiet", "refs/heads/" + name};
    const GitOutput branch = co_await git.run(std::move(arguments));
    arguments = {"worktree", "add", "--quiet"};
    if (is_known) arguments.emplace_back("--force");
    if (!branch.ok) arguments.insert(arguments.end(), {"-b", name});
    arguments.push_back(place);
    if (branch.ok) arguments.push_back(name);
    const GitOutput added = co_await git.run(std::move(arguments));
    if (!added.ok) git_failed("create the work tree " + visible(place), added);
}

/// A condition may hold in the new work tree only, where its settings could not be overridden.
Task<> refuse_conditional_settings(GitProcess& git) {
    const std::vector<std::string> found = co_await settings_of_repository(git, "^includeif\\.");
    if (found.empty()) co_return;
    refuse(
        "the configuration of the repository has conditional includes (includeIf), which "
        "may run programs in a new work tree.\n  Make it yourself: git worktree add DIR; "
        "cubepi -C DIR");
}

}  // namespace

GitProcess::GitProcess(std::string directory, EnvironmentPolicy environment)
    : directory_(std::move(directory)), environment_(std::move(environment)) {
    environment_.set["GIT_OPTIONAL_LOCKS"] = "0";
    environment_.set["GIT_NO_LAZY_FETCH"] = "1";
    environment_.set["GIT_ALLOW_PROTOCOL"] = "none";
    environment_.set["LC_ALL"] = "C.UTF-8";
    set("core.fsmonitor", "false");
    set("core.hooksPath", "/dev/null");
    set("core.quotePath", "false");
}

void GitProcess::set(std::string key, std::string value) {
    const std::string number = std::to_string(settings_++);
    environment_.set["GIT_CONFIG_KEY_" + number] = std::move(key);
    environment_.set["GIT_CONFIG_VALUE_" + number] = std::move(value);
    environment_.set["GIT_CONFIG_COUNT"] = std::to_string(settings_);
}

Task<GitOutput> GitProcess::run(std::vector<std::string> arguments) {
    ProcessOptions options("git");
    options.arguments = std::move(arguments);
    options.directory = directory_;
    options.environment = child_environment(environment_);
    options.input = false;
    options.timeout = timeout_;
    const std::shared_ptr<ProcessLauncher> launcher = launcher_of(*Runtime::standard());
    const std::shared_ptr<Process> process = co_await launcher->start(std::move(options));
    GitOutput output;
    bool more = true;
    while (more && !output.cut) {
        more = co_await process->read(output.text);
        output.cut = output.text.size() > max_output_;
    }
    if (output.cut) {
        constexpr std::string_view ends("\n\0", 2);
        output.text.resize(output.text.find_last_of(ends, max_output_) + 1);
        process->kill();
    }
    // Few bytes: they fit into the pipe.
    while (!output.cut && output.errors.size() < max_output_) {
        const bool has_more = co_await process->read_error(output.errors);
        if (!has_more) break;
    }
    const ExitStatus status = co_await process->wait();
    output.ok = status.ok() || output.cut;
    co_return output;
}

std::vector<std::string_view> parts_of(std::string_view text, char end) {
    std::vector<std::string_view> parts;
    while (!text.empty()) {
        const std::size_t at = std::min(text.find(end), text.size());
        parts.push_back(text.substr(0, at));
        text.remove_prefix(std::min(at + 1, text.size()));
    }
    return parts;
}

Task<std::vector<std::string>> settings_of_repository(GitProcess& git, std::string pattern) {
    std::vector<std::string> listing = {"config", "--includes",   "--show-scope",    "--name-only",
                                        "-z",     "--get-regexp", std::move(pattern)};
    const GitOutput found = co_await git.run(std::move(listing));
    const std::vector<std::string_view> parts = parts_of(found.text, '\0');
    std::vector<std::string> names;
    for (std::size_t i = 0; i + 1 < parts.size(); i += 2) {
        if (parts[i] != "global" && parts[i] != "system") names.emplace_back(parts[i + 1]);
    }
    co_return names;
}

Task<> disarm_filters(GitProcess& git) {
    std::vector<std::string> keys = co_await settings_of_repository(git, "^filter\\.");
    for (std::string& key : keys) {
        const bool is_required = key.ends_with(".required");
        git.set(std::move(key), is_required ? "false" : "");
    }
}

namespace {

constexpr std::chrono::milliseconds git_limit(500);
constexpr std::uint64_t max_git_output = 1'000'000;

/// Returns the number of files that git reports as changed. Throws Error.
Task<std::ptrdiff_t> changed_files(std::filesystem::path directory,
                                   std::shared_ptr<ProcessLauncher> launcher) {
    ProcessOptions options("git");
    options.arguments = {"--no-optional-locks", "-c", "core.fsmonitor=false", "status",
                         "--porcelain"};
    options.directory = directory.string();
    options.input = false;
    options.max_output_bytes = max_git_output;
    options.timeout = git_limit;
    Task<std::shared_ptr<Process>> starting = launcher->start(std::move(options));
    const std::shared_ptr<Process> process = co_await std::move(starting);
    std::string output;
    bool has_more = true;
    while (has_more) has_more = co_await process->read(output);
    const ExitStatus status = co_await process->wait();
    if (status.code != 0) throw Error(ErrorCode::io, "git has failed");
    co_return std::count(output.begin(), output.end(), '\n');
}

/// The file `.git` of a linked work tree names its directory.
std::filesystem::path git_directory_in(const std::filesystem::path& directory) {
    constexpr std::string_view beginning = "gitdir: ";
    std::filesystem::path git = directory / ".git";
    std::error_code failed;
    std::string line;
    if (!std::filesystem::is_regular_file(git, failed)) return git;
    if (std::ifstream file(git); std::getline(file, line) && line.starts_with(beginning))
        return directory / line.substr(beginning.size());
    return git;
}

}  // namespace

std::string git_branch(std::filesystem::path directory) {
    constexpr std::string_view reference = "ref: refs/heads/";
    constexpr std::string_view plain =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._/-";
    for (int i = 0; i < 32; ++i) {
        std::string head;
        if (std::ifstream file(git_directory_in(directory) / "HEAD"); std::getline(file, head)) {
            const std::string branch =
                head.starts_with(reference) ? head.substr(reference.size()) : std::string();
            const bool is_plain =
                branch.size() <= 100 && branch.find_first_not_of(plain) == std::string::npos;
            return is_plain ? branch : std::string();
        }
        if (directory == directory.parent_path()) break;
        directory = directory.parent_path();
    }
    return {};
}

Task<std::string> git_state(std::filesystem::path directory,
                            std::shared_ptr<ProcessLauncher> launcher) {
    std::string text = git_branch(directory);
    if (text.empty() || !launcher) co_return text;
    Task<std::ptrdiff_t> counting = changed_files(std::move(directory), std::move(launcher));
    Outcome<std::ptrdiff_t> changed = co_await outcome_of(std::move(counting));
    if (changed.cancelled()) changed.rethrow();
    if (!changed.ok()) co_return text;
    const std::ptrdiff_t count = std::move(changed).value();
    text += count == 0
                ? ", no changed files"
                : ", " + std::to_string(count) + (count == 1 ? " changed file" : " changed files");
    co_return text;
}

std::string git_file_line(const fs::path& file, std::string_view before) {
    std::error_code failed;
    if (!fs::is_regular_file(file, failed)) return {};
    std::ifstream stream(file);
    constexpr std::size_t longest = 4096;
    std::string line(longest, '\0');
    stream.read(line.data(), static_cast<std::streamsize>(line.size()));
    line.resize(static_cast<std::size_t>(stream.gcount()));
    line.erase(std::min(line.find('\n'), line.size()));
    return line.starts_with(before) ? line.substr(before.size()) : std::string();
}

std::optional<fs::path> repository_of_work_tree(const fs::path& root) {
    const fs::path git = root / ".git";
    std::error_code failed;
    if (!fs::is_regular_file(fs::symlink_status(git, failed))) return std::nullopt;
    const std::string named = git_file_line(git, "gitdir: ");
    if (named.empty()) return std::nullopt;
    // Everything is read below one resolved path: a command may exchange the links in the given one meanwhile.
    const fs::path place = fs::canonical((root / named).lexically_normal(), failed);
    if (failed) return std::nullopt;
    const std::string back = git_file_line(place / "gitdir", "");
    const std::string common = git_file_line(place / "commondir", "");
    if (back.empty() || common.empty()) return std::nullopt;
    // By its text: a command could link the path of a work tree that was removed from a temporary directory to this one.
    const fs::path own = fs::canonical(root, failed) / ".git";
    if (failed || (place / back).lexically_normal() != own) return std::nullopt;
    fs::path repository = (place / common).lexically_normal();
    if (!repository.has_filename()) repository = repository.parent_path();
    if (place.parent_path() != repository / "worktrees") return std::nullopt;
    // A directory of git, and not any directory that has one named `worktrees`.
    const bool is_repository =
        fs::is_regular_file(fs::symlink_status(repository / "HEAD", failed)) &&
        fs::is_directory(fs::symlink_status(repository / "objects", failed));
    if (!is_repository) return std::nullopt;
    return repository;
}

fs::path main_tree_of(const fs::path& root) {
    const std::optional<fs::path> repository = repository_of_work_tree(root);
    return repository ? without_git(*repository) : fs::path();
}

Task<WorkTree> open_work_tree(fs::path directory, std::string name, EnvironmentPolicy environment) {
    constexpr std::chrono::minutes longest_checkout(10);
    check_name(name);
    const fs::path root = bub::project_root(directory);
    const fs::path repository = repository_at(root);
    GitProcess git(root.string(), std::move(environment));
    git.set_timeout(longest_checkout);
    co_await disarm_filters(git);
    co_await refuse_conditional_settings(git);
    std::vector<std::string> arguments = {"rev-parse", "--path-format=absolute",
                                          "--git-common-dir"};
    const GitOutput common = co_await git.run(std::move(arguments));
    if (!common.ok) git_failed("use " + visible(root.string()), common);
    // The environment may name another one.
    std::error_code failed;
    const fs::path used = fs::canonical(fs::path(cubepi::detail::trimmed(common.text)), failed);
    if (failed || used != repository)
        refuse("git uses the repository " + visible(used.string()) + " in " +
               visible(root.string()) + "; unset GIT_DIR and similar variables");

    const std::string place = without_git(repository).string() + "-" + name;
    WorkTree tree;
    tree.directory = place;
    arguments = {"worktree", "list", "--porcelain", "-z"};
    const GitOutput list = co_await git.run(std::move(arguments));
    const std::vector<ListedTree> trees = listed_trees(list.text);
    const auto listed = std::find_if(trees.begin(), trees.end(), [&](const ListedTree& one) {
        return one.directory == tree.directory;
    });
    const bool is_listed = listed != trees.end();
    if (is_listed && !listed->is_complete)
        refuse("the work tree " + visible(place) +
               " is being created, or its creation was stopped.\n  To remove what there is: git "
               "worktree remove -f -f " +
               shell_word(place));
    if (fs::exists(fs::symlink_status(tree.directory, failed))) {
        if (!is_listed || repository_of_work_tree(tree.directory) != repository)
            refuse(visible(place) + " exists and is not a work tree of " +
                   visible(repository.string()) + "; choose another name");
        co_return tree;
    }
    for (const ListedTree& one : trees) {
        if (one.branch == name && one.directory != tree.directory)
            refuse("the branch '" + name + "' is checked out in " +
                   visible(one.directory.string()) +
                   ".\n  Choose another name, or work there: cubepi -C " +
                   shell_word(one.directory.string()));
    }
    co_await create_tree(git, place, name, is_listed);
    if (repository_of_work_tree(tree.directory) != repository)
        throw Error(ErrorCode::io, visible(place) + " was created, but is not a work tree of " +
                                       visible(repository.string()));
    tree.branch = std::move(name);
    tree.is_new = true;
    co_return tree;
}

}  // namespace cubepi::app
