#include <cubepi/process/sandbox/sandbox_plan.hpp>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <iterator>
#include <map>
#include <memory>
#include <set>

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cubepi/core/error.hpp>
#include <cubepi/process/sandbox/landlock.hpp>
#include <cubepi/process/sandbox/shared_namespaces.hpp>
#include <cubepi/process/sandbox/system_call_filter.hpp>

namespace cubepi::detail {

namespace {

using Paths = std::vector<std::string>;

[[noreturn]] void fail(const std::string& what, int code) {
    throw Error(ErrorCode::io,
                "The sandbox could not be prepared: " + what + ": " + errno_text(code) + ".");
}

Paths resolved(const std::vector<std::filesystem::path>& paths) {
    Paths result;
    for (const std::filesystem::path& path : paths) {
        const std::unique_ptr<char, void (*)(void*)> text(::realpath(path.c_str(), nullptr),
                                                          &std::free);
        if (text) result.emplace_back(text.get());
    }
    std::sort(result.begin(), result.end());
    result.erase(std::unique(result.begin(), result.end()), result.end());
    return result;
}

bool is_directory(const std::string& path) {
    struct stat info{};
    return ::lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

std::string parent_of(const std::string& path) {
    const std::size_t slash = path.rfind('/');
    return slash == 0 || slash == std::string::npos ? "/" : path.substr(0, slash);
}

bool is_within_any(std::string_view path, const Paths& directories) {
    return std::any_of(directories.begin(), directories.end(),
                       [&](const std::string& one) { return is_within(path, one); });
}

bool contains_any(std::string_view directory, const Paths& paths) {
    return std::any_of(paths.begin(), paths.end(),
                       [&](const std::string& one) { return is_within(one, directory); });
}

bool contains(const Paths& paths, const std::string& path) {
    return std::find(paths.begin(), paths.end(), path) != paths.end();
}

/// Returns true if the nearest of these directories above the path is a hidden one.
bool is_masked(const std::string& path, const Paths& roots, const Paths& hidden) {
    for (std::string at = path; at != "/";) {
        at = parent_of(at);
        if (contains(roots, at)) return false;
        if (contains(hidden, at)) return true;
    }
    return false;
}

/// Devices without contents of their own.
constexpr const char* plain_devices[] = {"/dev/null",   "/dev/zero",    "/dev/full",
                                         "/dev/random", "/dev/urandom", "/dev/tty"};
constexpr const char* terminals = "/dev/pts";

}  // namespace

bool is_within(std::string_view path, std::string_view directory) {
    if (directory == "/") return true;
    return path.starts_with(directory) &&
           (path.size() == directory.size() || path[directory.size()] == '/');
}

SandboxMeans::SandboxMeans(const SandboxProfile& profile) {
    const SandboxSupport& support = sandbox_support();
    namespaces = support.namespaces && profile.use_namespaces;
    landlock = std::min(support.landlock_abi, profile.max_landlock_abi);
    // Version 1 refuses moves between directories, and mounts do everything else that it does.
    if (namespaces && landlock < landlock_moves) landlock = 0;
    // Before Linux 5.14, of which Landlock 2 is newer, the limit counts all processes of the user. The kernel exempts root.
    process_limit = namespaces && support.landlock_abi >= 2 && ::geteuid() != 0;
}

SandboxPaths::SandboxPaths(const SandboxProfile& profile)
    : writable(resolved(profile.writable)),
      read_only(resolved(profile.read_only)),
      hidden(resolved(profile.hidden)),
      visible(resolved(profile.visible)) {
    std::erase_if(read_only, [this](const std::string& path) {
        return contains(writable, path) || !is_in_writable(path);
    });
    std::erase_if(hidden, [this](const std::string& path) {
        return path == "/" || contains(writable, path) || contains(visible, path);
    });
    std::erase_if(visible, [this](const std::string& path) {
        return is_in_writable(path) || !is_within_any(path, hidden) || !is_directory(path);
    });
}

bool SandboxPaths::is_in_writable(std::string_view path) const {
    return is_within_any(path, writable);
}

SandboxPlan::SandboxPlan(const SandboxProfile& profile, int directory) {
    const SandboxSupport& support = sandbox_support();
    if (!support.available()) {
        throw Error(ErrorCode::unsupported,
                    "The process was not started: " + support.problem() + ".");
    }
    const SandboxMeans means(profile);
    const SandboxPaths paths(profile);
    char place[PATH_MAX];
    const ssize_t size =
        ::readlink(("/proc/self/fd/" + std::to_string(directory)).c_str(), place, sizeof(place));
    struct stat info{};
    if (size <= 0 || ::fstat(directory, &info) != 0) fail("working directory", errno);
    entry_.directory = texts_.emplace_back(place, static_cast<std::size_t>(size)).c_str();
    entry_.directory_device = info.st_dev;
    entry_.directory_inode = info.st_ino;
    if (means.namespaces) {
        const SharedNamespaces& shared = shared_namespaces();
        entry_.namespaces = shared.descriptors();
        if (profile.network) entry_.namespaces.network = -1;
        entry_.has_mounts = true;
        plan_mounts(paths, shared.terminals);
        entry_.steps = steps_.data();
        entry_.step_count = steps_.size();
        if (means.landlock > 0 && shared.terminals)
            entry_.terminal_rights = LandlockRights(means.landlock).of_file;
    }
    if (means.landlock > 0) make_rules(paths, means);
    FilterNeeds needs;
    needs.internet_sockets = profile.network || means.namespaces;
    needs.unix_sockets = profile.unix_sockets;
    needs.close_truncation = !means.namespaces && means.landlock < landlock_truncation;
    needs.close_tracing = means.landlock == 0;
    filter_ = system_call_filter(needs);
    entry_.filter = filter_.data();
    entry_.filter_size = static_cast<unsigned short>(filter_.size());
    if (means.process_limit) entry_.max_processes = profile.max_processes;
}

std::string SandboxPlan::describe(const SandboxFailure& failure) const {
    std::string text;
    switch (failure.stage) {
        case SandboxStage::none: return {};
        case SandboxStage::privileges: text = "privileges"; break;
        case SandboxStage::namespaces: text = "namespaces"; break;
        case SandboxStage::mounts: {
            const auto step = static_cast<std::size_t>(failure.step);
            text = "mount";
            if (step < steps_.size()) text += std::string(" ") + steps_[step].path;
            break;
        }
        case SandboxStage::directory: text = std::string("directory ") + entry_.directory; break;
        case SandboxStage::capabilities: text = "capabilities"; break;
        case SandboxStage::limit: text = "limit of processes"; break;
        case SandboxStage::landlock: text = "Landlock"; break;
        case SandboxStage::filter: text = "seccomp"; break;
    }
    return text + ": " + errno_text(failure.error);
}

void SandboxPlan::add(MountStep::Kind kind, const std::string& path, std::size_t slot) {
    MountStep step;
    step.kind = kind;
    step.path = texts_.emplace_back(path).c_str();
    step.slot = slot;
    steps_.push_back(step);
}

/// All mounts become read-only, and the writable trees, which were remembered before, are put over them.
void SandboxPlan::plan_mounts(const SandboxPaths& paths, bool has_terminals) {
    using Kind = MountStep::Kind;
    const bool everything = contains(paths.writable, "/");
    Paths roots;
    for (const Paths* list : {&paths.writable, &paths.visible}) {
        for (const std::string& path : *list) {
            if (path != "/") roots.push_back(path);
        }
    }
    std::sort(roots.begin(), roots.end());
    constexpr std::size_t most_roots = most_mount_slots - std::size(plain_devices);
    if (roots.size() > most_roots) {
        throw Error(
            ErrorCode::invalid_argument,
            "A sandbox can have at most " + std::to_string(most_roots) + " writable directories.");
    }
    // The disks, whose contents are all files, are devices too.
    std::vector<const char*> devices;
    for (const char* device : plain_devices) {
        if (!everything && ::access(device, F_OK) == 0) devices.push_back(device);
    }
    for (std::size_t i = 0; i < roots.size(); ++i) add(Kind::open, roots[i], i);
    for (std::size_t i = 0; i < devices.size(); ++i) add(Kind::open, devices[i], roots.size() + i);
    if (!everything) add(Kind::seal, "/");
    for (std::size_t i = 0; i < devices.size(); ++i)
        add(Kind::attach, devices[i], roots.size() + i);
    std::map<std::string, MountStep> changes;
    const auto change = [&changes](const std::string& path, Kind kind, std::size_t slot = 0) {
        MountStep step;
        step.kind = kind;
        step.slot = slot;
        changes.emplace(path, step);
    };
    for (std::size_t i = 0; i < roots.size(); ++i) {
        const bool writes = contains(paths.writable, roots[i]);
        change(roots[i], writes ? Kind::attach : Kind::attach_read_only, i);
    }
    Paths items = paths.read_only;
    for (const std::string& path : paths.read_only) {
        if (!is_masked(path, roots, paths.hidden)) change(path, Kind::pin_read_only);
    }
    for (const std::string& path : paths.hidden) {
        if (is_masked(path, roots, paths.hidden)) continue;
        change(path, Kind::mask_directory);
        items.push_back(path);
    }
    // A directory above a protected path could be renamed, and another one put in its place, if it were not a mount.
    for (const std::string& item : items) {
        for (std::string at = parent_of(item); at != "/" && paths.is_in_writable(at);
             at = parent_of(at)) {
            if (!is_masked(at, roots, paths.hidden)) change(at, Kind::pin);
        }
    }
    // Directories come before what is in them.
    for (const auto& [path, step] : changes) {
        if (step.kind == Kind::mask_directory) {
            mask(path, paths);
        } else {
            add(step.kind, path, step.slot);
        }
    }
    if (has_terminals) {
        add(Kind::terminals, terminals);
    } else if (is_directory(terminals)) {
        add(Kind::mask_directory, terminals);
    }
}

/// Hides a path, except for the writable and visible trees below it, whose place is made.
void SandboxPlan::mask(const std::string& path, const SandboxPaths& paths) {
    if (!is_directory(path)) return add(MountStep::Kind::mask_file, path);
    add(MountStep::Kind::mask_directory, path);
    std::set<std::string> places;
    for (const Paths* list : {&paths.writable, &paths.visible}) {
        for (const std::string& root : *list) {
            if (!is_within(root, path)) continue;
            for (std::string at = root; at != path; at = parent_of(at)) places.insert(at);
        }
    }
    for (const std::string& place : places) add(MountStep::Kind::make_directory, place);
    add(MountStep::Kind::seal, path);
}

void SandboxPlan::make_rules(const SandboxPaths& paths, const SandboxMeans& means) {
    const LandlockRights rights(means.landlock);
    // Without mounts, what is hidden is what no rule lets the process read.
    const bool reads = !means.namespaces;
    UniqueFd made = make_ruleset(means.landlock, rights.handled | (reads ? landlock_read_file : 0));
    ruleset_ = UniqueFd(::fcntl(made.get(), F_DUPFD_CLOEXEC, 3));
    if (!ruleset_) fail("Landlock", errno);
    entry_.ruleset = ruleset_.get();
    for (const char* device : plain_devices) allow(device, means, reads);
    for (const std::string& path : paths.writable) allow(path, means, reads);
    if (!reads) return;
    Paths hidden = paths.hidden;
    std::erase_if(hidden, [&](const std::string& path) { return paths.is_in_writable(path); });
    hidden.emplace_back("/dev");
    allow_reading("/", hidden);
    for (const std::string& path : paths.visible) allow_reading(path, hidden);
}

/// Allows changes of a path.
void SandboxPlan::allow(const std::string& path, const SandboxMeans& means, bool reads) {
    const LandlockRights rights(means.landlock);
    const UniqueFd place = open_file(path.c_str(), O_PATH);
    struct stat info{};
    if (!place || ::fstat(place.get(), &info) != 0) return;  // it does not exist
    const std::uint64_t wanted = S_ISDIR(info.st_mode) ? rights.below_directory : rights.of_file;
    if (!allow_below(ruleset_.get(), place.get(), wanted | (reads ? landlock_read_file : 0)))
        fail("Landlock " + path, errno);
}

/// Allows reading of everything but `hidden`. Rules can only allow, so each sibling of a hidden path, and of the directories
/// above it, gets one.
void SandboxPlan::allow_reading(const std::string& directory, const Paths& hidden) {
    if (contains(hidden, directory)) return;
    const bool is_above = contains_any(directory, hidden);
    UniqueFd place =
        open_file(directory.c_str(), (is_above ? O_RDONLY | O_DIRECTORY : O_PATH) | O_NOFOLLOW);
    if (!place) return;
    if (!is_above) {
        // Refused for links and pipes, which need no rule.
        (void)allow_below(ruleset_.get(), place.get(), landlock_read_file);
        return;
    }
    const std::unique_ptr<DIR, int (*)(DIR*)> entries(::fdopendir(place.get()), &::closedir);
    if (!entries) return;
    (void)place.release();
    while (const dirent* entry = ::readdir(entries.get())) {
        const std::string_view name(entry->d_name);
        if (name == "." || name == ".." || entry->d_type == DT_LNK) continue;
        allow_reading(
            directory == "/" ? "/" + std::string(name) : directory + "/" + std::string(name),
            hidden);
    }
}

}  // namespace cubepi::detail
