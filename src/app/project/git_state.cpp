#include "git_state.hpp"

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

namespace cubepi::app {

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
