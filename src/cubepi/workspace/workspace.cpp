#include <cubepi/workspace/local_workspace.hpp>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <mutex>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cubepi/agent/tool_context.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/process/local_process.hpp>
#include <cubepi/workspace/files/file_access.hpp>
#include <cubepi/workspace/workspace.hpp>

namespace cubepi {

namespace {

struct Root {
    detail::UniqueFd fd;
    std::vector<std::string>
        spellings;  ///< absolute: as configured, and with symbolic links resolved
    bool is_writable = false;
};

/// Returns the kernel's path of an open directory.
std::string path_of(int directory) {
    std::error_code failed;
    return std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(directory), failed)
        .string();
}

Root open_root(const std::filesystem::path& path) {
    Root root;
    const auto absolute = std::filesystem::absolute(path).lexically_normal();
    const std::string given = "/" + detail::tidy_path(absolute.string());
    root.fd = detail::open_file(given.c_str(), O_PATH | O_DIRECTORY);
    if (!root.fd) {
        const int code = errno;
        const bool is_missing = code == ENOENT || code == ENOTDIR;
        const bool is_denied = code == EACCES || code == EPERM || code == ELOOP;
        throw Error(is_missing  ? ErrorCode::not_found
                    : is_denied ? ErrorCode::permission_denied
                                : ErrorCode::io,
                    "The workspace directory " + given + " cannot be opened: " +
                        detail::errno_text(code) + ". Name an existing directory.");
    }
    root.spellings.push_back(given);
    std::string real = path_of(root.fd.get());
    if (!real.empty() && real != given) root.spellings.push_back(std::move(real));
    return root;
}

/// Stores the part of `path` after `prefix`; returns false if `path` is not below `prefix`.
bool strip_prefix(const std::string& path, const std::string& prefix, std::string& rest) {
    if (!path.starts_with(prefix)) return false;
    if (path.size() > prefix.size() && prefix != "/" && path[prefix.size()] != '/') return false;
    rest = path.substr(prefix.size());
    while (rest.starts_with('/')) rest.erase(0, 1);
    return true;
}

FileInfo to_info(const struct stat& from) {
    FileInfo info;
    if (S_ISREG(from.st_mode))
        info.kind = FileKind::file;
    else if (S_ISDIR(from.st_mode))
        info.kind = FileKind::directory;
    else if (S_ISLNK(from.st_mode))
        info.kind = FileKind::symlink;
    else
        info.kind = FileKind::other;
    info.size = static_cast<std::uint64_t>(from.st_size);
    info.modified = std::chrono::system_clock::from_time_t(from.st_mtim.tv_sec);
    info.mode = from.st_mode & 07777;
    return info;
}

class LocalFile final : public FileReader {
public:
    LocalFile(detail::UniqueFd fd, FileInfo info, std::string path)
        : fd_(std::move(fd)), info_(info), path_(std::move(path)) {}

    const FileInfo& info() const noexcept override { return info_; }

    std::size_t read(char* buffer, std::size_t size) override {
        for (;;) {
            const auto got = ::read(fd_.get(), buffer, size);
            if (got >= 0) return static_cast<std::size_t>(got);
            if (errno != EINTR) detail::throw_file_error("read", path_, errno);
        }
    }

private:
    const detail::UniqueFd fd_;
    const FileInfo info_;
    const std::string path_;
};

struct Location {
    const Root* root;
    std::string relative;
};

}  // namespace

namespace {

std::string read_all(FileReader& file, const std::string& path, std::size_t max_bytes) {
    std::string content;
    constexpr std::size_t step = 64 * 1024;
    for (;;) {
        const std::size_t old_size = content.size();
        content.resize(old_size + step);
        const std::size_t got = file.read(content.data() + old_size, step);
        content.resize(old_size + got);
        if (content.size() > max_bytes) {
            throw Error(ErrorCode::too_large, path + " has more than " + std::to_string(max_bytes) +
                                                  " bytes, which is too large.");
        }
        if (got == 0) return content;
    }
}

}  // namespace

std::string Workspace::read(const std::string& path, std::size_t max_bytes) {
    const auto file = open(path);
    return read_all(*file, path, max_bytes);
}

std::string Workspace::write_target(const std::string& path) {
    const std::filesystem::path resolved = std::filesystem::path(path).lexically_normal();
    return resolved.is_absolute() ? resolved.lexically_relative(root()).string()
                                  : resolved.string();
}

namespace {

/// Reads the file for the default implementations of rewrite() and replace().
FileBefore read_before(Workspace& workspace, const std::string& path, std::size_t max_bytes) {
    FileBefore before;
    try {
        before.info = workspace.stat(path);
        before.exists = true;
    } catch (const Error& error) {
        if (error.code() != ErrorCode::not_found) throw;
    }
    if (before.exists && before.info.kind != FileKind::file) {
        throw Error(ErrorCode::invalid_argument,
                    path + " is not a regular file and cannot be replaced.");
    }
    if (before.exists && before.info.size <= max_bytes)
        before.content = workspace.read(path, max_bytes);
    return before;
}

}  // namespace

void Workspace::rewrite(const std::string& path, std::size_t max_bytes, const Rewrite& change) {
    const FileBefore before = read_before(*this, path, max_bytes);
    if (const std::optional<std::string> content = change(before)) write(path, *content);
}

void Workspace::replace(const std::string& path, std::size_t max_bytes, const Replace& change) {
    const FileBefore before = read_before(*this, path, max_bytes);
    const std::optional<FileAfter> after = change(before);
    if (!after) return;
    if (after->content) {
        write(path, *after->content);
    } else if (before.exists) {
        remove(path);
    }
}

CallFile file_of_call(std::shared_ptr<Workspace> workspace, std::string path,
                      const std::optional<JudgedFile>& judged) {
    if (judged && judged->path == path) {
        if (std::shared_ptr<Workspace> bound = workspace->without_links())
            return {std::move(bound), judged->target};
    }
    return {std::move(workspace), std::move(path)};
}

/// The part of a workspace that its views without links share.
struct LocalWorkspace::Shared {
    Root main;
    std::vector<Root> others;
    WorkspacePolicy policy;
    std::mutex writing;
    std::mutex making;
    std::shared_ptr<const SandboxProfile> profile;  ///< null: not made yet

    std::shared_ptr<const SandboxProfile> sandbox() {
        if (!policy.sandbox) return nullptr;
        const std::lock_guard lock(making);
        if (!profile) profile = policy.sandbox();
        if (!profile) {
            throw Error(ErrorCode::invalid_argument,
                        "WorkspacePolicy::sandbox has returned no profile; leave the function "
                        "empty if commands are not sandboxed");
        }
        return profile;
    }
};

struct LocalWorkspace::State {
    State(std::shared_ptr<Shared> of, detail::Links mode) : shared(std::move(of)), links(mode) {}

    const std::shared_ptr<Shared> shared;
    const detail::Links links;
    const Root& main = shared->main;
    const WorkspacePolicy& policy = shared->policy;
    std::mutex& writing = shared->writing;

    /// The same files, in paths without links.
    State without_links() const { return {shared, detail::Links::refused}; }

    /// Finds the root of a path. Opening the path checks that it stays below that root.
    Location locate(const std::string& path) const {
        if (path.find('\0') != std::string::npos) {
            throw Error(ErrorCode::invalid_argument, "A path must not contain a zero byte.");
        }
        Location location{&main, path};
        if (!path.starts_with('/')) return location;
        const std::string absolute = "/" + detail::tidy_path(path);
        const auto below = [&](const Root& root) {
            return std::any_of(root.spellings.begin(), root.spellings.end(),
                               [&](const std::string& prefix) {
                                   return strip_prefix(absolute, prefix, location.relative);
                               });
        };
        if (below(main)) return location;
        for (const Root& root : shared->others) {
            location.root = &root;
            if (below(root)) return location;
        }
        throw Error(ErrorCode::permission_denied, path + " is outside of the workspace " +
                                                      main.spellings.front() +
                                                      ". Use a path relative to its root.");
    }

    detail::UniqueFd open(const std::string& path, int flags, const char* action) const {
        const Location location = locate(path);
        detail::UniqueFd fd =
            detail::open_beneath(location.root->fd.get(), location.relative, flags, links);
        if (!fd) fail(action, path, errno);
        return fd;
    }

    detail::UniqueFd open_parent(const Root& root, const std::string& path, bool create,
                                 std::string& name) const {
        return detail::open_parent_beneath(root.fd.get(), path, create, name, links);
    }

    [[noreturn]] void fail(const char* action, const std::string& path, int code) const {
        if (code == EXDEV) {
            throw Error(ErrorCode::permission_denied,
                        path + " leads out of the workspace " + main.spellings.front() +
                            " (through \"..\" or a symbolic link), which is not allowed. Use a "
                            "path that stays inside.");
        }
        if (code == ELOOP && policy.follow_links && links == detail::Links::refused) {
            throw Error(ErrorCode::permission_denied,
                        path + " is or contains a symbolic link that was not there before.");
        }
        if (code == ELOOP && !policy.follow_links) {
            throw Error(ErrorCode::permission_denied,
                        path +
                            " is or contains a symbolic link, which this workspace does not "
                            "follow. Replace the link by the file itself.");
        }
        detail::throw_file_error(action, path, code);
    }

    Location locate_for_writing(const std::string& path) const {
        Location location = locate(path);
        if (!location.root->is_writable || !policy.writable) {
            throw Error(ErrorCode::permission_denied, path + " is read-only in this workspace.");
        }
        return location;
    }

    /// Returns the target of a write to `path`: the path itself, or the target of a symbolic link.
    std::string write_target(const std::string& path, const Location& location) const {
        std::string target = detail::tidy_path(location.relative);
        for (int followed = 0; followed < 40; ++followed) {
            std::string name;
            const auto directory = open_parent(*location.root, target, false, name);
            if (!directory) return target;
            std::string link(4096, '\0');
            const auto size = ::readlinkat(directory.get(), name.c_str(), link.data(), link.size());
            if (size < 0) return target;
            if (links == detail::Links::refused) fail("write", path, ELOOP);
            link.resize(static_cast<std::size_t>(size));
            if (link.starts_with('/')) fail("write", path, EXDEV);
            const auto slash = target.rfind('/');
            target = slash == std::string::npos ? link : target.substr(0, slash + 1) + link;
        }
        fail("write", path, ELOOP);
    }

    /// Performs the checks of write_locked() without creating directories. Returns whether the file exists.
    bool check_write(const std::string& path) const {
        const Location location = locate_for_writing(path);
        std::string target = write_target(path, location);
        std::string name;
        auto directory = open_parent(*location.root, target, false, name);
        if (directory) return detail::check_replaceable(directory.get(), name, path);
        // The existing directory in which the missing ones would be created.
        while (!directory && errno == ENOENT && !target.empty()) {
            const auto slash = target.rfind('/');
            target.resize(slash == std::string::npos ? 0 : slash);
            directory =
                detail::open_beneath(location.root->fd.get(), target, O_PATH | O_DIRECTORY, links);
        }
        if (!directory || ::faccessat(directory.get(), ".", W_OK | X_OK, AT_EACCESS) != 0)
            fail("write", path, errno);
        return false;
    }

    /// Resolves the symbolic links of `target` below the root. Names of directories that do not exist remain unchanged.
    std::string resolved(const std::string& path, const Root& in, const std::string& target) const {
        std::string directory = target;
        std::string rest;
        for (;;) {
            const auto slash = directory.rfind('/');
            const std::string name = directory.substr(slash == std::string::npos ? 0 : slash + 1);
            if (name == "..") fail("write", path, EISDIR);
            rest = rest.empty() ? name : name + "/" + rest;
            directory.resize(slash == std::string::npos ? 0 : slash);
            const auto fd =
                detail::open_beneath(in.fd.get(), directory, O_PATH | O_DIRECTORY, links);
            if (!fd && errno == ENOENT && !directory.empty()) continue;
            if (!fd) fail("write", path, errno);
            const std::string root = path_of(in.fd.get());
            std::string below;
            if (root.empty() || !strip_prefix(path_of(fd.get()), root, below))
                fail("write", path, EXDEV);
            return below.empty() ? rest : below + "/" + rest;
        }
    }

    bool write_locked(const std::string& path, std::string_view content) const {
        const Location location = locate_for_writing(path);
        const std::string target = write_target(path, location);
        std::string name;
        const auto directory = open_parent(*location.root, target, true, name);
        if (!directory) fail("write", path, errno);
        return detail::atomic_write(directory.get(), name, content, path);
    }
};

namespace {

/// Returns the variables of a command.
std::vector<std::string> environment_of(const WorkspacePolicy& policy) {
    EnvironmentPolicy environment = policy.environment;
    environment.hidden.insert(environment.hidden.end(), policy.hidden_variables.begin(),
                              policy.hidden_variables.end());
    const auto set = [&environment](const std::string& entry) {
        const std::size_t name_end = entry.find('=');
        if (name_end != std::string::npos)
            environment.set[entry.substr(0, name_end)] = entry.substr(name_end + 1);
    };
    // Commands are not interactive: pagers and password prompts would hang.
    for (const char* entry : {"PAGER=cat", "GIT_PAGER=cat", "GIT_TERMINAL_PROMPT=0", "TERM=dumb"})
        set(entry);
    for (const std::string& entry : policy.extra_environment) set(entry);
    return child_environment(environment);
}

std::string shell_of(const WorkspacePolicy& policy) {
    if (!policy.shell.empty()) return policy.shell;
    return ::access("/bin/bash", X_OK) == 0 ? "/bin/bash" : "/bin/sh";
}

}  // namespace

LocalWorkspace::LocalWorkspace(const std::filesystem::path& root, WorkspacePolicy policy)
    : LocalWorkspace([&] {
          auto shared = std::make_shared<Shared>();
          shared->main = open_root(root);
          shared->main.is_writable = true;
          for (const auto& directory : policy.more_roots) {
              shared->others.push_back(open_root(directory));
              shared->others.back().is_writable = true;
          }
          for (const auto& directory : policy.read_only_roots)
              shared->others.push_back(open_root(directory));
          shared->policy = std::move(policy);
          const auto links =
              shared->policy.follow_links ? detail::Links::followed : detail::Links::refused;
          return std::make_shared<State>(std::move(shared), links);
      }()) {}

LocalWorkspace::LocalWorkspace(std::shared_ptr<State> state) : state_(std::move(state)) {}

LocalWorkspace::~LocalWorkspace() = default;

std::string LocalWorkspace::root() const { return state_->main.spellings.front(); }

FileInfo LocalWorkspace::stat(const std::string& path) {
    const auto fd = state_->open(path, O_PATH, "access");
    struct stat info{};
    if (::fstat(fd.get(), &info) != 0) state_->fail("access", path, errno);
    return to_info(info);
}

std::unique_ptr<FileReader> LocalWorkspace::open(const std::string& path) {
    // O_NONBLOCK: opening a pipe must not wait for its other end.
    auto fd = state_->open(path, O_RDONLY | O_NONBLOCK, "read");
    struct stat info{};
    if (::fstat(fd.get(), &info) != 0) state_->fail("read", path, errno);
    if (S_ISDIR(info.st_mode)) state_->fail("read", path, EISDIR);
    if (!S_ISREG(info.st_mode)) {
        throw Error(ErrorCode::invalid_argument,
                    path + " is not a regular file (a device, pipe or socket).");
    }
    return std::make_unique<LocalFile>(std::move(fd), to_info(info), path);
}

std::vector<DirectoryEntry> LocalWorkspace::list(const std::string& path) {
    auto fd = state_->open(path, O_RDONLY | O_DIRECTORY, "list");
    DIR* raw = ::fdopendir(fd.get());
    if (raw == nullptr) state_->fail("list", path, errno);
    fd.release();
    const std::unique_ptr<DIR, int (*)(DIR*)> directory(raw, &::closedir);
    std::vector<DirectoryEntry> entries;
    for (;;) {
        errno = 0;
        const dirent* found = ::readdir(directory.get());
        if (found == nullptr) {
            if (errno != 0) state_->fail("list", path, errno);
            break;
        }
        const std::string_view name(found->d_name);
        if (name == "." || name == "..") continue;
        struct stat info{};
        // Skip an entry that was removed in the meantime.
        if (::fstatat(::dirfd(directory.get()), found->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        DirectoryEntry& entry = entries.emplace_back();
        entry.name = name;
        entry.info = to_info(info);
    }
    std::sort(entries.begin(), entries.end(),
              [](const DirectoryEntry& a, const DirectoryEntry& b) { return a.name < b.name; });
    return entries;
}

bool LocalWorkspace::write(const std::string& path, std::string_view content) {
    const std::lock_guard lock(state_->writing);
    return state_->write_locked(path, content);
}

void LocalWorkspace::update(const std::string& path, std::size_t max_bytes,
                            const std::function<std::string(std::string)>& change) {
    const std::lock_guard lock(state_->writing);
    state_->locate_for_writing(path);
    state_->write_locked(path, change(read(path, max_bytes)));
}

void LocalWorkspace::rewrite(const std::string& path, std::size_t max_bytes,
                             const Rewrite& change) {
    const std::lock_guard lock(state_->writing);
    FileBefore before;
    before.exists = state_->check_write(path);
    if (before.exists) {
        before.info = stat(path);
        if (before.info.size <= max_bytes) before.content = read(path, max_bytes);
    }
    if (const std::optional<std::string> content = change(before))
        state_->write_locked(path, *content);
}

void LocalWorkspace::replace(const std::string& path, std::size_t max_bytes,
                             const Replace& change) {
    const std::lock_guard lock(state_->writing);
    const State bound = state_->without_links();
    const Location location = bound.locate_for_writing(path);
    const std::string target = detail::tidy_path(location.relative);
    std::string name;
    auto directory = bound.open_parent(*location.root, target, false, name);
    if (!directory && errno != ENOENT) bound.fail("write", path, errno);
    FileBefore before;
    if (directory) before.exists = detail::check_replaceable(directory.get(), name, path);
    if (before.exists) {
        auto fd = detail::open_beneath(directory.get(), name, O_RDONLY | O_NONBLOCK, bound.links);
        struct stat info{};
        if (!fd || ::fstat(fd.get(), &info) != 0) bound.fail("write", path, errno);
        before.info = to_info(info);
        LocalFile file(std::move(fd), before.info, path);
        if (before.info.size <= max_bytes) before.content = read_all(file, path, max_bytes);
    }
    const std::optional<FileAfter> after = change(before);
    if (!after) return;
    if (!after->content) {
        if (before.exists && ::unlinkat(directory.get(), name.c_str(), 0) != 0)
            bound.fail("write", path, errno);
        return;
    }
    if (!directory) directory = bound.open_parent(*location.root, target, true, name);
    if (!directory) bound.fail("write", path, errno);
    detail::atomic_write(directory.get(), name, *after->content, path, after->mode);
}

void LocalWorkspace::remove(const std::string& path) {
    const std::lock_guard lock(state_->writing);
    const Location location = state_->locate_for_writing(path);
    std::string name;
    const auto directory = state_->open_parent(*location.root, location.relative, false, name);
    if (!directory) state_->fail("remove", path, errno);
    if (::unlinkat(directory.get(), name.c_str(), 0) == 0) return;
    if (errno == EISDIR && ::unlinkat(directory.get(), name.c_str(), AT_REMOVEDIR) == 0) return;
    state_->fail("remove", path, errno);
}

std::string LocalWorkspace::write_target(const std::string& path) {
    const Location location = state_->locate_for_writing(path);
    const std::string target = state_->write_target(path, location);
    std::string below = state_->resolved(path, *location.root, target);
    if (location.root == &state_->main) return below;
    // A file of another root must not be taken for one of the main root.
    return location.root->spellings.back() + "/" + below;
}

std::shared_ptr<Workspace> LocalWorkspace::without_links() {
    return std::shared_ptr<Workspace>(
        new LocalWorkspace(std::make_shared<State>(state_->shared, detail::Links::refused)));
}

Task<std::shared_ptr<Process>> LocalWorkspace::start(ProcessRequest request) {
    const auto state = state_;
    if (!state->policy.writable) {
        throw Error(ErrorCode::permission_denied,
                    "Commands are not allowed in a read-only workspace.");
    }
    const auto directory =
        state->open(request.working_directory, O_RDONLY | O_DIRECTORY, "start a command in");
    ProcessOptions options(shell_of(state->policy));
    options.arguments = {"-c", std::move(request.command)};
    // The directory that was opened, whatever its path names by then.
    options.directory = "/proc/self/fd/" + std::to_string(directory.get());
    options.environment = environment_of(state->policy);
    options.input = false;
    options.merge_errors = true;
    std::shared_ptr<const SandboxProfile> sandbox;
    if (request.sandbox != CommandSandbox::none) sandbox = state->shared->sandbox();
    if (request.sandbox == CommandSandbox::read_only) {
        if (!sandbox) {
            throw Error(ErrorCode::unsupported,
                        "The command was not started: this workspace has no sandbox.");
        }
        sandbox = std::make_shared<const SandboxProfile>(sandbox->without_writes());
    }
    const std::shared_ptr<ProcessLauncher> launcher =
        launcher_of(*request.runtime, std::move(sandbox));
    co_return co_await launcher->start(std::move(options));
}

bool LocalWorkspace::has_sandbox() const { return static_cast<bool>(state_->policy.sandbox); }

std::shared_ptr<const SandboxProfile> LocalWorkspace::sandbox() const {
    return state_->shared->sandbox();
}

}  // namespace cubepi
