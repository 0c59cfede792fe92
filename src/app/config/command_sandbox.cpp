#include "command_sandbox.hpp"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <optional>
#include <string>
#include <system_error>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bub/builtin/builtin.hpp>
#include <bub/tape/file_tape_store.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/workspace/files/file_access.hpp>

#include "../project/git.hpp"
#include "paths.hpp"

namespace cubepi::app {

namespace {

namespace fs = std::filesystem;

/// Directories of this program: the configuration, sessions, the history of prompts, tapes and notes.
std::vector<fs::path> own_directories() {
    std::vector<fs::path> all{config_path().parent_path(), sessions_path().parent_path(),
                              bub::default_bub_home(), bub::default_tape_directory().parent_path()};
    if (const fs::path history = history_path(); !history.empty())
        all.push_back(history.parent_path());
    return all;
}

/// Files of other programs with keys and passwords.
std::vector<fs::path> key_files() {
    constexpr const char* names[] = {".ssh",       ".gnupg",
                                     ".aws",       ".azure",
                                     ".kube",      ".docker/config.json",
                                     ".netrc",     ".git-credentials",
                                     ".pgpass",    ".config/gcloud",
                                     ".config/gh", ".config/git/credentials"};
    std::vector<fs::path> all;
    for (const char* name : names) all.push_back(bub::home_directory() / name);
    return all;
}

bool is_below(const fs::path& path, const fs::path& directory);

/// The files that commands do not see.
std::vector<fs::path> hidden_files(const SandboxSettings& settings) {
    std::vector<fs::path> all = own_directories();
    for (fs::path& file : key_files()) {
        const bool shown = std::any_of(settings.readable.begin(), settings.readable.end(),
                                       [&](const fs::path& one) { return is_below(file, one); });
        if (!shown) all.push_back(std::move(file));
    }
    return all;
}

std::vector<fs::path> temporary_directories() {
    std::vector<fs::path> all{"/tmp", "/var/tmp", "/dev/shm"};
    if (const char* own = std::getenv("TMPDIR"); own && *own == '/') all.emplace_back(own);
    return all;
}

fs::path resolved(const fs::path& path) {
    std::error_code unknown;
    return fs::weakly_canonical(path, unknown);
}

/// Both are resolved.
bool is_in(const fs::path& path, const fs::path& directory) {
    return std::mismatch(directory.begin(), directory.end(), path.begin(), path.end()).first ==
           directory.end();
}

bool is_below(const fs::path& path, const fs::path& directory) {
    return is_in(resolved(path), resolved(directory));
}

std::vector<fs::path> resolved(const std::vector<fs::path>& paths) {
    std::vector<fs::path> all;
    for (const fs::path& one : paths) all.push_back(resolved(one));
    return all;
}

/// All are resolved.
bool is_in_any(const fs::path& path, const std::vector<fs::path>& directories) {
    return std::any_of(directories.begin(), directories.end(),
                       [&](const fs::path& one) { return is_in(path, one); });
}

/// A directory that does not exist cannot be protected, and a command could create it where it may write. `writable` is resolved.
void make_own_directories(const std::vector<fs::path>& own, const std::vector<fs::path>& writable) {
    for (const fs::path& directory : own) {
        std::error_code failed;
        if (!is_in_any(resolved(directory), writable) || !fs::create_directories(directory, failed))
            continue;
        fs::permissions(directory, fs::perms::owner_all, failed);
    }
}

/// Creates the hooks of a directory of git, if a command could create them: what is missing cannot be protected. A command in the
/// background may exchange directories for links meanwhile, none of which is followed. `writable` is resolved.
void make_hooks(const fs::path& git, const std::vector<fs::path>& writable) {
    const fs::path place = resolved(git);
    if (!is_in_any(place, writable)) return;
    const detail::UniqueFd root = detail::open_file("/", O_PATH | O_DIRECTORY);
    const detail::UniqueFd directory = detail::open_beneath(
        root.get(), place.relative_path().string(), O_PATH | O_DIRECTORY, detail::Links::refused);
    if (!directory) return;
    // A worktree has the hooks of its repository.
    struct stat info{};
    for (const char* const name : {"HEAD", "objects"})
        if (::fstatat(directory.get(), name, &info, AT_SYMLINK_NOFOLLOW) != 0) return;
    (void)::mkdirat(directory.get(), "hooks", S_IRWXU | S_IRWXG | S_IRWXO);
}

/// Files that name programs, of the places in which commands may write.
struct ProtectedFiles {
    const std::vector<fs::path>& writable;  ///< resolved
    std::vector<fs::path> all = {};
};

void add_git_directory(ProtectedFiles& files, const fs::path& git, int depth);

/// The directories of git of submodules and of worktrees, in a group such as `modules`. A name of a submodule may contain "/".
void add_git_directories(ProtectedFiles& files, const fs::path& group, int depth) {
    constexpr int deepest = 6;
    constexpr std::size_t most = 2000;
    if (depth > deepest) return;
    std::error_code failed;
    for (fs::directory_iterator entry(group, failed), end; !failed && entry != end;
         entry.increment(failed)) {
        std::error_code unknown;
        if (files.all.size() > most) return;
        if (entry->is_symlink(unknown) || !entry->is_directory(unknown)) continue;
        if (fs::exists(entry->path() / "HEAD", unknown)) {
            add_git_directory(files, entry->path(), depth + 1);
        } else {
            add_git_directories(files, entry->path(), depth + 1);
        }
    }
}

/// The files of a directory of git that name programs, with those of its submodules and worktrees: git in the directory above runs
/// what they name, too.
void add_git_directory(ProtectedFiles& files, const fs::path& git, int depth) {
    make_hooks(git, files.writable);
    for (const char* const name : {"hooks", "config", "config.worktree", "commondir"})
        files.all.push_back(git / name);
    add_git_directories(files, git / "modules", depth);
    add_git_directories(files, git / "worktrees", depth);
}

/// Adds the files of the workspace that name programs which git or this program runs.
void add_protected(ProtectedFiles& files, const fs::path& workspace) {
    const fs::path git = workspace / ".git";
    files.all.push_back(workspace / ".cubepi");
    files.all.push_back(workspace / ".mcp.json");
    std::error_code failed;
    if (!fs::is_regular_file(git, failed)) {
        add_git_directory(files, git, 0);
        return;
    }
    // The file of a worktree or a submodule names the directory.
    files.all.push_back(git);
    const std::string named = git_file_line(git, "gitdir: ");
    if (named.empty()) return;
    const fs::path directory = (workspace / named).lexically_normal();
    add_git_directory(files, directory, 0);
    const std::string common = git_file_line(directory / "commondir", "");
    if (!common.empty()) add_git_directory(files, (directory / common).lexically_normal(), 0);
}

/// Adds the repository of a linked work tree. One in a directory that is writable anyway is not added: a command could replace it by a
/// link to another directory, which the next command could then write.
void add_repository(std::vector<fs::path>& writable, const fs::path& workspace) {
    std::optional<fs::path> repository = repository_of_work_tree(bub::project_root(workspace));
    if (!repository) return;
    const auto contains = [&](const fs::path& one) { return is_in(*repository, resolved(one)); };
    if (std::none_of(writable.begin(), writable.end(), contains))
        writable.push_back(std::move(*repository));
}

/// Returns a writable directory and its subdirectories that have a repository. Those further below are not looked for: that could take
/// seconds before the first command.
std::vector<fs::path> repositories_in(const fs::path& directory) {
    constexpr std::size_t most_entries = 1000;
    std::vector<fs::path> found{directory};
    std::error_code failed;
    std::size_t count = 0;
    for (fs::directory_iterator entry(directory, failed), end; !failed && entry != end;
         entry.increment(failed)) {
        if (++count > most_entries) break;
        std::error_code unknown;
        if (entry->is_symlink(unknown) || !entry->is_directory(unknown)) continue;
        if (fs::exists(fs::symlink_status(entry->path() / ".git", unknown)))
            found.push_back(entry->path());
    }
    return found;
}

}  // namespace

void restrict_hidden(ToolRules& rules, const SandboxSettings& settings,
                     const std::vector<fs::path>& roots, const fs::path& visible) {
    const std::vector<fs::path> places = resolved(roots);
    for (const fs::path& file : hidden_files(settings)) {
        // The tools open no file outside of the workspace, and one in a directory of this program may be used.
        if (!is_in_any(resolved(file), places)) continue;
        for (const char* const tool : {"read", "write"}) {
            RestrictingRule rule;
            rule.rule = {tool, file.string()};
            rule.effect = RuleEffect::ask;
            rule.source = std::string(hidden_files_source);
            rule.except = visible.string();
            rules.restrict(std::move(rule));
        }
    }
}

JsonObject stored_sandbox(const SandboxSettings& settings) {
    return {{"mode", to_string(settings.mode)},
            {"network", settings.network},
            {"unix_sockets", settings.unix_sockets}};
}

bool restrict_sandbox(SandboxSettings& settings, const JsonObject& stored) {
    const std::optional<SandboxSettings::Mode> mode =
        sandbox_mode(detail::text_member(stored, "mode"));
    if (!mode || *mode == SandboxSettings::Mode::off) return false;
    const bool is_open = settings.mode == SandboxSettings::Mode::off;
    const bool network = detail::flag_member(stored, "network");
    const bool sockets = detail::flag_member(stored, "unix_sockets");
    // Without a sandbox there is no limit, whatever the settings say about its parts.
    const bool was_weaker = settings.mode < *mode || (!network && (is_open || settings.network)) ||
                            (!sockets && (is_open || settings.unix_sockets));
    settings.network = network && (is_open || settings.network);
    settings.unix_sockets = sockets && (is_open || settings.unix_sockets);
    settings.mode = std::max(settings.mode, *mode);
    return was_weaker;
}

CommandSandboxes::CommandSandboxes(SandboxSettings settings, const std::string& mode)
    : settings_(std::move(settings)) {
    if (!mode.empty()) settings_.mode = sandbox_mode(mode).value_or(settings_.mode);
    if (!settings_.required || settings_.mode == SandboxSettings::Mode::off) return;
    std::string missing = sandbox_support().problem();
    if (missing.empty()) {
        const std::shared_ptr<const SandboxProfile> made = profile(fs::current_path());
        for (const SandboxGuarantee& one : sandbox_guarantees(*made)) {
            if (one.applies && one.essential() && !one.held)
                missing +=
                    (missing.empty() ? "" : "; ") + to_string(one.property) + " (" + one.how + ")";
        }
    }
    if (missing.empty()) return;
    throw Error(ErrorCode::unsupported,
                "the configuration requires a sandbox (sandbox.required), and this system does not "
                "hold: " +
                    missing + "; 'cubepi doctor' lists what it holds");
}

bool CommandSandboxes::is_on() const {
    return settings_.mode != SandboxSettings::Mode::off && sandbox_support().available();
}

std::string CommandSandboxes::problem() const {
    if (settings_.mode == SandboxSettings::Mode::off) return {};
    const std::string problem = sandbox_support().problem();
    return problem.empty() ? problem
                           : "Commands run without a sandbox: " + problem + "; 'sandbox: off' in " +
                                 config_path().string() + " removes this note.";
}

std::shared_ptr<const SandboxProfile> CommandSandboxes::profile(
    const std::filesystem::path& workspace) const {
    if (!is_on()) return nullptr;
    SandboxProfile made;
    made.network = settings_.network;
    made.unix_sockets = settings_.unix_sockets;
    // Each turn of a gateway may come here: a path is resolved once.
    std::vector<fs::path> writable;
    if (settings_.mode == SandboxSettings::Mode::workspace) {
        made.writable = {workspace};
        for (fs::path& directory : temporary_directories())
            made.writable.push_back(std::move(directory));
        made.writable.insert(made.writable.end(), settings_.writable.begin(),
                             settings_.writable.end());
        add_repository(made.writable, workspace);
        writable = resolved(made.writable);
        std::vector<fs::path> places{workspace};
        places.insert(places.end(), settings_.writable.begin(), settings_.writable.end());
        for (const fs::path& place : places) {
            std::vector<fs::path> repositories = repositories_in(place);
            // The place may be a directory of a repository in a writable tree.
            repositories.push_back(bub::project_root(place));
            for (const fs::path& repository : repositories) {
                ProtectedFiles files{writable};
                add_protected(files, repository);
                std::ranges::move(files.all, std::back_inserter(made.read_only));
            }
        }
    }
    make_own_directories(own_directories(), writable);
    made.hidden = hidden_files(settings_);
    // The results that were too long for the model, and in a gateway the workspace itself.
    made.visible = {bub::spill_directory(bub::default_bub_home(), workspace), workspace};
    return std::make_shared<const SandboxProfile>(std::move(made));
}

CommandConfinement CommandSandboxes::confinement() const {
    CommandConfinement confinement;
    if (!is_on()) return confinement;
    const bool writes = settings_.mode == SandboxSettings::Mode::workspace;
    confinement.text = writes ? "It runs in a sandbox: it can change files only in the workspace "
                                "and in temporary directories"
                              : "It runs in a sandbox: it can change no files";
    confinement.text += settings_.network ? ", and use the network." : ", and has no network.";
    const SandboxProfile reading = profile(fs::current_path())->without_writes();
    // With the network, what a command has read could leave this machine without a question.
    confinement.reads_unasked = sandbox_holds(reading, SandboxProperty::writes) &&
                                sandbox_holds(reading, SandboxProperty::truncation) &&
                                sandbox_holds(reading, SandboxProperty::hidden) &&
                                sandbox_holds(reading, SandboxProperty::network) &&
                                sandbox_holds(reading, SandboxProperty::processes);
    return confinement;
}

}  // namespace cubepi::app
