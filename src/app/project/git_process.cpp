#include "git_process.hpp"

#include <algorithm>
#include <memory>
#include <utility>

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

}  // namespace cubepi::app
