#include "project_names.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <system_error>
#include <utility>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/offload.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/net/utf8.hpp>

#include "../project/git_process.hpp"

namespace cubepi::app {

namespace {

constexpr std::size_t most_names = 50'000;
constexpr std::size_t most_bytes = std::size_t{8} << 20;
constexpr std::chrono::seconds git_timeout(5);
constexpr int deepest = 12;

/// Throws what the start or the limits throw.
Task<std::string> ask_git(std::string directory) {
    GitProcess git(std::move(directory), EnvironmentPolicy());
    git.set_timeout(git_timeout);
    git.set_max_output(most_bytes);
    std::vector<std::string> arguments = {"ls-files", "-z", "--cached", "--others",
                                          "--exclude-standard"};
    GitOutput output = co_await git.run(std::move(arguments));
    if (!output.ok) throw Error(ErrorCode::unsupported, "not a git repository");
    co_return std::move(output.text);
}

std::vector<std::string> names_in(const std::string& output) {
    std::vector<std::string> names;
    for (std::size_t at = 0; at < output.size() && names.size() < most_names;) {
        const std::size_t end = output.find('\0', at);
        if (end == std::string::npos) break;
        std::string name = output.substr(at, end - at);
        if (!name.empty() && is_utf8(name)) names.push_back(std::move(name));
        at = end + 1;
    }
    return names;
}

std::vector<std::string> walk(const std::filesystem::path& directory) {
    std::vector<std::string> names;
    std::error_code failed;
    using Walk = std::filesystem::recursive_directory_iterator;
    Walk entry(directory, std::filesystem::directory_options::skip_permission_denied, failed);
    for (std::size_t seen = 0; !failed && entry != Walk() && seen < most_names;
         entry.increment(failed), ++seen) {
        const std::string name = entry->path().filename().string();
        std::error_code ignored;
        const bool is_directory = entry->is_directory(ignored);
        const bool hidden = name.starts_with('.') || name == "node_modules";
        if (is_directory && (hidden || entry.depth() >= deepest)) entry.disable_recursion_pending();
        if (is_directory || hidden || !is_utf8(name)) continue;
        names.push_back(entry->path().lexically_relative(directory).string());
    }
    return names;
}

void sort_by_depth(std::vector<std::string>& names) {
    const auto depth = [](const std::string& name) {
        return std::count(name.begin(), name.end(), '/');
    };
    std::sort(names.begin(), names.end(), [&](const std::string& a, const std::string& b) {
        const auto left = depth(a);
        const auto right = depth(b);
        return left != right ? left < right : a < b;
    });
    names.erase(std::unique(names.begin(), names.end()), names.end());
}

}  // namespace

Task<std::vector<std::string>> project_names(std::shared_ptr<const Runtime> runtime,
                                             std::filesystem::path directory) {
    Outcome<std::string> listed = co_await outcome_of(ask_git(directory.string()));
    if (!listed && listed.cancelled()) listed.rethrow();
    std::vector<std::string> names;
    if (listed) {
        names = names_in(std::move(listed).value());
    } else {
        auto work = [directory] { return walk(directory); };
        names = co_await offload(*runtime->workers, std::move(work));
    }
    sort_by_depth(names);
    co_return names;
}

}  // namespace cubepi::app
