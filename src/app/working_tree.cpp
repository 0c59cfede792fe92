#include "working_tree.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include <cubepi/core/error.hpp>
#include <cubepi/core/support/trimmed.hpp>
#include <cubepi/workspace/files/content.hpp>
#include <cubepi/workspace/files/line_diff.hpp>
#include <cubepi/workspace/local_workspace.hpp>

#include "project/git_process.hpp"
#include "terminal/terminal_text.hpp"

namespace cubepi::app {

namespace {

constexpr std::size_t max_file = std::size_t{1} << 20;
constexpr std::size_t max_untracked = 200;
/// The tree of no files, as which a repository without a commit is compared.
constexpr const char* empty_tree = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";

bool is_in_repository(std::filesystem::path directory) {
    for (;;) {
        std::error_code failed;
        if (std::filesystem::exists(directory / ".git", failed)) return true;
        if (directory == directory.parent_path()) return false;
        directory = directory.parent_path();
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
    GitProcess git(directory.string(), std::move(environment));
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
