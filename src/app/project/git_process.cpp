#include "git_process.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <fstream>
#include <memory>
#include <string_view>
#include <utility>

#include <cubepi/core/error.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/process.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/process/local_process.hpp>

namespace cubepi::app {

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

}  // namespace cubepi::app
