#include "working_tree.hpp"

#include <algorithm>
#include <chrono>
#include <string_view>
#include <utility>

#include <cubepi/core/error.hpp>
#include <cubepi/core/process.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/support/trimmed.hpp>
#include <cubepi/process/local_process.hpp>
#include <cubepi/workspace/files/content.hpp>
#include <cubepi/workspace/files/line_diff.hpp>
#include <cubepi/workspace/local_workspace.hpp>

#include "terminal/terminal_text.hpp"

namespace cubepi::app {

namespace {

constexpr std::size_t max_output = std::size_t{2} << 20;
constexpr std::size_t max_file = std::size_t{1} << 20;
constexpr std::size_t max_untracked = 200;
constexpr std::chrono::seconds longest_git(20);
/// The tree of no files, as which a repository without a commit is compared.
constexpr const char* empty_tree = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";

struct GitOutput {
    std::string text = {};
    std::string errors = {};
    bool ok = false;
    bool cut = false;
};

/// Git in one directory. Settings of the repository that run programs do not apply: its author need not be the user.
class Git {
public:
    Git(std::string directory, EnvironmentPolicy environment)
        : directory_(std::move(directory)), environment_(std::move(environment)) {
        environment_.set["GIT_OPTIONAL_LOCKS"] = "0";
        environment_.set["GIT_NO_LAZY_FETCH"] = "1";
        environment_.set["GIT_ALLOW_PROTOCOL"] = "none";
        environment_.set["LC_ALL"] = "C.UTF-8";
        set("core.fsmonitor", "false");
        set("core.hooksPath", "/dev/null");
        set("core.quotePath", "false");
    }

    /// Overrides a setting for the following calls.
    void set(std::string key, std::string value) {
        const std::string number = std::to_string(settings_++);
        environment_.set["GIT_CONFIG_KEY_" + number] = std::move(key);
        environment_.set["GIT_CONFIG_VALUE_" + number] = std::move(value);
        environment_.set["GIT_CONFIG_COUNT"] = std::to_string(settings_);
    }

    void set_timeout(std::chrono::seconds timeout) { timeout_ = timeout; }

    Task<GitOutput> run(std::vector<std::string> arguments) {
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
            output.cut = output.text.size() > max_output;
        }
        if (output.cut) {
            output.text.resize(output.text.rfind('\n', max_output) + 1);
            process->kill();
        }
        // Few bytes: they fit into the pipe.
        while (!output.cut && output.errors.size() < max_output) {
            const bool has_more = co_await process->read_error(output.errors);
            if (!has_more) break;
        }
        const ExitStatus status = co_await process->wait();
        output.ok = status.ok() || output.cut;
        co_return output;
    }

private:
    std::string directory_;
    EnvironmentPolicy environment_;
    std::size_t settings_ = 0;
    std::chrono::seconds timeout_ = longest_git;
};

bool is_in_repository(std::filesystem::path directory) {
    for (;;) {
        std::error_code failed;
        if (std::filesystem::exists(directory / ".git", failed)) return true;
        if (directory == directory.parent_path()) return false;
        directory = directory.parent_path();
    }
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

/// Overrides the programs that the repository's own configuration runs on the contents of files.
Task<> disarm_filters(Git& git) {
    std::vector<std::string> listing = {"config", "--includes",   "--show-scope", "--name-only",
                                        "-z",     "--get-regexp", "^filter\\."};
    const GitOutput found = co_await git.run(std::move(listing));
    const std::vector<std::string_view> parts = parts_of(found.text, '\0');
    for (std::size_t i = 0; i + 1 < parts.size(); i += 2) {
        if (parts[i] == "global" || parts[i] == "system") continue;
        std::string key(parts[i + 1]);
        const bool is_required = key.ends_with(".required");
        git.set(std::move(key), is_required ? "false" : "");
    }
}

PagerItem item_of(TerminalText title, std::string text, std::string_view path = {}) {
    PagerItem item;
    item.path = path;
    item.title = std::move(title);
    item.is_diff = text.starts_with("@@");
    item.text = std::move(text);
    return item;
}

/// The name of a file after "+++ b/" or "--- a/"; a tab ends a name with a blank in it.
std::string_view name_in(std::string_view line) {
    return line.size() > 6 ? line.substr(6, line.find('\t') - 6) : std::string_view();
}

/// Makes an item of the part of a diff that begins with "diff --git ".
PagerItem item_of_part(std::string_view part) {
    const std::size_t hunks = part.find("\n@@");
    const std::string_view head = part.substr(0, hunks);
    std::string_view name;
    std::string_view state;
    std::string notes;
    for (const std::string_view line : parts_of(head, '\n')) {
        if (line.starts_with("diff --git ")) {
            const std::size_t second = line.rfind(" b/");
            if (second != line.npos) name = line.substr(second + 3);
        }
        if (line.starts_with("+++ b/") || (line.starts_with("--- a/"))) name = name_in(line);
        if (line.starts_with("new file")) state = " (new)";
        if (line.starts_with("deleted file")) state = " (deleted)";
        if (line.starts_with("old mode") || line.starts_with("new mode") ||
            line.starts_with("rename ") || line.starts_with("Binary files")) {
            notes += std::string(line) + "\n";
        }
    }
    std::string text = hunks == part.npos ? std::string() : std::string(part.substr(hunks + 1));
    if (text.empty()) text = notes.empty() ? "(empty)\n" : std::move(notes);
    return item_of(for_terminal(name) + for_terminal(state), std::move(text), name);
}

void add_tracked(std::vector<PagerItem>& items, std::string_view diff) {
    constexpr std::string_view begin = "diff --git ";
    while (diff.starts_with(begin)) {
        const std::size_t next = diff.find("\ndiff --git ");
        items.push_back(item_of_part(diff.substr(0, next)));
        if (next == diff.npos) return;
        diff.remove_prefix(next + 1);
    }
}

std::optional<std::string> content_of(Workspace& workspace, const std::string& path,
                                      std::string& problem) {
    try {
        return workspace.read(path, max_file);
    } catch (const Error& error) {
        if (error.code() != ErrorCode::not_found) problem = error.what();
        return std::nullopt;
    }
}

/// The difference of two versions, of which one may not exist.
PagerItem compared(const std::string& path, const std::optional<std::string>& before,
                   const std::optional<std::string>& after) {
    const std::string old_text = before.value_or(std::string());
    const std::string new_text = after.value_or(std::string());
    TerminalText title = for_terminal(path);
    if (!before) title += " (new)";
    if (!after) title += " (deleted)";
    const bool binary =
        cubepi::detail::looks_binary(old_text) || cubepi::detail::looks_binary(new_text);
    if (binary) return item_of(std::move(title), "(not a text)\n");
    std::string diff = cubepi::detail::diff_lines(old_text, new_text).text;
    if (diff.empty()) diff = "(empty)\n";
    return item_of(std::move(title), std::move(diff), path);
}

void add_untracked(std::vector<PagerItem>& items, std::string_view names,
                   const std::filesystem::path& directory) {
    LocalWorkspace workspace(directory, WorkspacePolicy().read_only());
    std::size_t count = 0;
    for (const std::string_view name : parts_of(names, '\0')) {
        if (++count > max_untracked) continue;
        std::string problem;
        const std::optional<std::string> content =
            content_of(workspace, std::string(name), problem);
        items.push_back(content ? compared(std::string(name), std::nullopt, content)
                                : item_of(for_terminal(name) + " (new)", problem + "\n"));
    }
    if (count > max_untracked) {
        items.push_back(item_of(TerminalText("more files that git does not track"),
                                std::to_string(count - max_untracked) + " of them\n"));
    }
}

}  // namespace

Task<std::optional<std::vector<PagerItem>>> git_changes(std::filesystem::path directory,
                                                        EnvironmentPolicy environment) {
    std::optional<std::vector<PagerItem>> items;
    if (!is_in_repository(directory)) co_return items;
    Git git(directory.string(), std::move(environment));
    GitOutput head;
    bool is_installed = true;
    std::vector<std::string> arguments = {"rev-parse", "--verify", "-q", "HEAD"};
    try {
        head = co_await git.run(std::move(arguments));
    } catch (const Error& error) {
        if (error.code() != ErrorCode::not_found) throw;
        is_installed = false;
    }
    if (!is_installed) co_return items;
    co_await disarm_filters(git);
    std::string base(cubepi::detail::trimmed(head.text));
    if (!head.ok || base.empty()) base = empty_tree;
    arguments = {"--no-pager",
                 "diff",
                 "--no-color",
                 "--no-ext-diff",
                 "--no-textconv",
                 "--no-renames",
                 "--ignore-submodules=dirty",
                 "--relative",
                 "--src-prefix=a/",
                 "--dst-prefix=b/",
                 base,
                 "--",
                 "."};
    const GitOutput tracked = co_await git.run(std::move(arguments));
    if (!tracked.ok)
        throw Error(ErrorCode::io, "git diff failed: " + tracked.errors.substr(0, 500));
    arguments = {"ls-files", "--others", "--exclude-standard", "-z", "--", "."};
    const GitOutput untracked = co_await git.run(std::move(arguments));
    items.emplace();
    add_tracked(*items, tracked.text);
    if (tracked.cut && !items->empty())
        items->back().text += "[the rest is not shown: the diff is too long]\n";
    add_untracked(*items, untracked.text, directory);
    co_return items;
}

namespace {

/// A name of a directory and of a branch, on one level.
void check_work_tree_name(const std::string& name) {
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
        throw Error(ErrorCode::invalid_argument,
                    "'" + name +
                        "' is not a name of a work tree: letters, digits, -, _ and . (at most 64)");
}

[[noreturn]] void git_failed(const GitOutput& output) {
    const std::string reason(cubepi::detail::trimmed(output.errors));
    throw Error(ErrorCode::io, reason.empty() ? "git worktree failed" : reason);
}

}  // namespace

Task<WorkTree> open_work_tree(std::filesystem::path directory, std::string name,
                              EnvironmentPolicy environment) {
    constexpr std::chrono::minutes longest_checkout(10);
    check_work_tree_name(name);
    Git git(directory.string(), std::move(environment));
    git.set_timeout(longest_checkout);
    co_await disarm_filters(git);
    std::vector<std::string> question = {"rev-parse", "--path-format=absolute", "--git-common-dir"};
    const GitOutput common = co_await git.run(std::move(question));
    if (!common.ok)
        throw Error(ErrorCode::invalid_argument,
                    directory.string() + " is not in a git repository, so it has no work trees");
    // Without its `.git`; a repository without files has none.
    std::filesystem::path root(cubepi::detail::trimmed(common.text));
    if (root.filename() == ".git") root = root.parent_path();
    WorkTree tree;
    tree.directory = root.parent_path() / (root.filename().string() + "-" + name);
    std::error_code failed;
    tree.is_new = !std::filesystem::exists(tree.directory, failed);
    std::vector<std::string> arguments = {"worktree", "list", "--porcelain"};
    if (!tree.is_new) {
        const GitOutput list = co_await git.run(std::move(arguments));
        const std::vector<std::string_view> lines = parts_of(list.text, '\n');
        const std::string wanted = "worktree " + tree.directory.string();
        if (std::find(lines.begin(), lines.end(), wanted) == lines.end())
            throw Error(ErrorCode::invalid_argument, tree.directory.string() +
                                                         " exists and is not a work tree of " +
                                                         root.string() + "; choose another name");
        co_return tree;
    }
    arguments = {"show-ref", "--verify", "--quiet", "refs/heads/" + name};
    const GitOutput branch = co_await git.run(std::move(arguments));
    arguments = {"worktree", "add", "--quiet"};
    if (!branch.ok) arguments.insert(arguments.end(), {"-b", name});
    arguments.push_back(tree.directory.string());
    if (branch.ok) arguments.push_back(name);
    const GitOutput added = co_await git.run(std::move(arguments));
    if (!added.ok) git_failed(added);
    co_return tree;
}

std::vector<PagerItem> changes_since(const std::vector<EarlierFile>& files, Workspace& workspace) {
    std::vector<PagerItem> items;
    for (const EarlierFile& file : files) {
        std::string problem;
        const std::optional<std::string> now = content_of(workspace, file.path, problem);
        if (problem.empty() && file.existed && !file.content)
            problem = "There is no copy of it from before.";
        if (!problem.empty()) {
            items.push_back(item_of(for_terminal(file.path), problem + "\n"));
        } else if (now != file.content) {
            items.push_back(compared(file.path, file.content, now));
        }
    }
    return items;
}

}  // namespace cubepi::app
