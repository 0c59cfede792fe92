#include <cubepi/process/sandbox/sandbox_plan.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string_view>

#include <dirent.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cubepi/core/error.hpp>
#include <cubepi/core/support/blocked_signals.hpp>
#include <cubepi/process/sandbox/bubblewrap.hpp>
#include <cubepi/process/sandbox/kernel_rules.hpp>

namespace cubepi::detail {

namespace {

struct Pipe {
    UniqueFd read;
    UniqueFd write;
    Pipe() {
        int ends[2] = {-1, -1};
        if (::pipe2(ends, O_CLOEXEC) != 0) return;
        const UniqueFd low_read(ends[0]);
        const UniqueFd low_write(ends[1]);
        // Above the standard streams, which the program may have closed.
        read = UniqueFd(::fcntl(ends[0], F_DUPFD_CLOEXEC, 3));
        write = UniqueFd(::fcntl(ends[1], F_DUPFD_CLOEXEC, 3));
    }
    explicit operator bool() const noexcept { return read && write; }
};

/// Runs in the child of a fork. The maps of the user namespace can be written only while other processes may inspect this one.
/// It has a copy of the program's memory with its keys, so it becomes a shell first, which waits for the end of its input.
[[noreturn]] void hold_namespaces(int input, int output) noexcept {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::unshare(CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWIPC) != 0 ||
        ::dup2(input, STDIN_FILENO) < 0 || ::dup2(output, STDOUT_FILENO) < 0 ||
        ::dup2(output, STDERR_FILENO) < 0) {
        const int code = errno;
        (void)!::write(output, &code, sizeof(code));
        ::_exit(1);
    }
    char shell[] = "/bin/sh";
    char option[] = "-c";
    char script[] = "echo; read -r line";
    char* arguments[] = {shell, option, script, nullptr};
    char* variables[] = {nullptr};
    ::execve(shell, arguments, variables);
    const int code = errno;
    (void)!::write(output, &code, sizeof(code));
    ::_exit(1);
}

bool write_text(const std::string& path, std::string_view text) {
    const UniqueFd file = open_file(path.c_str(), O_WRONLY);
    return file && write_all(file.get(), text);
}

/// Returns the map of a user namespace in which each id stands for itself. Root uses files of others, so it has all the ids that this
/// process has; another user may map only its own.
std::string identity_map(const char* current, unsigned own) {
    std::string text;
    std::ifstream lines(current);
    unsigned long first = 0;
    unsigned long parent = 0;
    unsigned long count = 0;
    while (::geteuid() == 0 && lines >> first >> parent >> count) {
        const std::string id = std::to_string(first);
        text += id + " " + id + " " + std::to_string(count) + "\n";
    }
    const std::string id = std::to_string(own);
    return text.empty() ? id + " " + id + " 1\n" : text;
}

/// The result of the probe: 0, or where it failed and why.
struct ProbeResult {
    std::int32_t step = 0;
    std::int32_t error = 0;
    bool terminals = false;
};

/// Runs in the child of a fork: does what a sandbox does.
[[noreturn]] void probe(const NamespaceFds& shared, int output) noexcept {
    const auto end = [output](int step, int error, bool terminals) {
        ProbeResult result;
        result.step = step;
        result.error = error;
        result.terminals = terminals;
        (void)!::write(output, &result, sizeof(result));
        ::_exit(0);
    };
    const MountStep steps[] = {{MountStep::Kind::open, "/tmp", 0},
                               {MountStep::Kind::seal, "/", 0},
                               {MountStep::Kind::mask_directory, "/tmp", 0},
                               {MountStep::Kind::attach, "/tmp", 0}};
    SandboxEntry entry;
    entry.namespaces = shared;
    entry.has_mounts = true;
    entry.steps = steps;
    entry.step_count = std::size(steps);
    entry.directory = "/";
    const UniqueFd root = open_file("/", O_PATH | O_DIRECTORY);
    struct stat info{};
    if (::fstat(root.get(), &info) != 0) end(1, errno, false);
    entry.directory_device = info.st_dev;
    entry.directory_inode = info.st_ino;
    const SandboxFailure failed = enter_mounts(entry);
    if (failed.stage != SandboxStage::none)
        end(2 + static_cast<int>(failed.stage), failed.error, false);
    if (const int error = raise_loopback(); error != 0) end(1, error, false);
    const bool terminals = ::mount("devpts", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC,
                                   "newinstance,ptmxmode=0666,mode=0620") == 0;
    end(0, 0, terminals);
    ::_exit(0);
}

void create(SharedNamespaces& made) {
    const auto fail = [&made](std::string_view what, int error) {
        made = SharedNamespaces();
        made.problem = std::string(what) + ": " + errno_text(error);
    };
    Pipe input;
    Pipe output;
    if (!input || !output) return fail("pipe", errno);
    pid_t holder = -1;
    {
        const BlockedSignals blocked;
        holder = ::fork();
        if (holder == 0) hold_namespaces(input.read.get(), output.write.get());
    }
    if (holder < 0) return fail("fork", errno);
    input.read = UniqueFd();
    output.write = UniqueFd();
    std::array<char, sizeof(int)> answer{};
    ssize_t size = -1;
    do {
        size = ::read(output.read.get(), answer.data(), answer.size());
    } while (size < 0 && errno == EINTR);
    const std::string process = "/proc/" + std::to_string(holder);
    const auto release = [&] {
        input.write = UniqueFd();
        while (::waitpid(holder, nullptr, 0) < 0 && errno == EINTR) continue;
    };
    if (size != 1) {
        int code = EIO;
        if (size == sizeof(int)) std::memcpy(&code, answer.data(), sizeof(code));
        release();
        return fail("user namespaces are not permitted", code);
    }
    const bool mapped =
        write_text(process + "/setgroups", "deny") &&
        write_text(process + "/uid_map", identity_map("/proc/self/uid_map", ::geteuid())) &&
        write_text(process + "/gid_map", identity_map("/proc/self/gid_map", ::getegid()));
    int error = errno;
    const auto open = [&](const char* name) {
        const UniqueFd low = open_file((process + "/ns/" + name).c_str(), O_RDONLY);
        return UniqueFd(::fcntl(low.get(), F_DUPFD_CLOEXEC, 3));
    };
    if (mapped) {
        made.user = open("user");
        made.network = open("net");
        made.ipc = open("ipc");
        error = errno;
    }
    release();
    if (!made.user || !made.network || !made.ipc)
        return fail("user namespaces are not permitted", error);

    Pipe results;
    if (!results) return fail("pipe", errno);
    pid_t child = -1;
    {
        const BlockedSignals blocked;
        child = ::fork();
        if (child == 0) probe(made.descriptors(), results.write.get());
    }
    if (child < 0) return fail("fork", errno);
    results.write = UniqueFd();
    ProbeResult result;
    do {
        size = ::read(results.read.get(), &result, sizeof(result));
    } while (size < 0 && errno == EINTR);
    while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) continue;
    if (size != sizeof(result)) return fail("the test of namespaces ended", EIO);
    if (result.step != 0) return fail("mounts in namespaces are not permitted", result.error);
    made.terminals = result.terminals;
}

}  // namespace

const SharedNamespaces& shared_namespaces() {
    static const SharedNamespaces shared = [] {
        SharedNamespaces made;
        create(made);
        return made;
    }();
    return shared;
}

namespace {

using Paths = std::vector<std::string>;

[[noreturn]] void fail(const std::string& what, int code) {
    throw Error(ErrorCode::io,
                "The sandbox could not be prepared: " + what + ": " + errno_text(code) + ".");
}

/// A path without symbolic links.
struct Place {
    std::string path;
    Paths links_in;  ///< the directories of the links that led there
};

std::string parent_of(const std::string& path) {
    const std::size_t slash = path.rfind('/');
    return slash == 0 || slash == std::string::npos ? "/" : path.substr(0, slash);
}

/// Returns nothing for a path that does not exist.
std::optional<Place> place_of(const std::filesystem::path& path) {
    constexpr std::size_t most_links = 40;  // of the kernel
    std::error_code failed;
    const std::filesystem::path whole = std::filesystem::absolute(path, failed);
    // Without a working directory nothing is left of a relative path, which would stand for the root.
    if (failed || !whole.is_absolute()) return std::nullopt;
    std::deque<std::string> rest(whole.begin(), whole.end());
    Place place{"/", {}};
    while (!rest.empty()) {
        const std::string name = std::move(rest.front());
        rest.pop_front();
        if (name.empty() || name == "." || name == "/") continue;
        if (name == "..") {
            place.path = parent_of(place.path);
            continue;
        }
        const std::string next = place.path == "/" ? "/" + name : place.path + "/" + name;
        struct stat info{};
        if (::lstat(next.c_str(), &info) != 0) return std::nullopt;
        if (!S_ISLNK(info.st_mode)) {
            place.path = next;
            continue;
        }
        const std::filesystem::path target = std::filesystem::read_symlink(next, failed);
        if (failed || place.links_in.size() == most_links) return std::nullopt;
        place.links_in.push_back(place.path);
        if (target.is_absolute()) place.path = "/";
        rest.insert(rest.begin(), target.begin(), target.end());
    }
    return place;
}

std::vector<Place> places_of(const std::vector<std::filesystem::path>& paths) {
    std::vector<Place> places;
    for (const std::filesystem::path& path : paths) {
        if (std::optional<Place> place = place_of(path)) places.push_back(std::move(*place));
    }
    return places;
}

Paths sorted_paths(const std::vector<Place>& places) {
    Paths result;
    for (const Place& place : places) result.push_back(place.path);
    std::sort(result.begin(), result.end());
    result.erase(std::unique(result.begin(), result.end()), result.end());
    return result;
}

bool is_directory(const std::string& path) {
    struct stat info{};
    return ::lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
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
    namespaces = shared_namespaces().problem.empty() && profile.use_namespaces;
    landlock = std::min(support.landlock_abi, profile.max_landlock_abi);
    // Version 1 refuses moves between directories, and mounts do everything else that it does.
    if (namespaces && landlock < landlock_moves) landlock = 0;
    bubblewrap = !namespaces && landlock == 0 && detail::bubblewrap().problem.empty();
    // Before Linux 5.14, of which Landlock 2 is newer, the limit counts all processes of the user. The kernel exempts root.
    process_limit = namespaces && support.landlock_abi >= 2 && ::geteuid() != 0;
}

SandboxPaths::SandboxPaths(const SandboxProfile& profile)
    : read_only(sorted_paths(places_of(profile.read_only))),
      hidden(sorted_paths(places_of(profile.hidden))) {
    std::vector<Place> changed = places_of(profile.writable);
    std::vector<Place> shown = places_of(profile.visible);
    std::vector<Place> plain = places_of({std::begin(plain_devices), std::end(plain_devices)});
    // An earlier command may have made a link in a writable directory, to a directory that is none of these (D281).
    std::vector<Place> changed_ever = places_of(profile.changed_by_others);
    changed_ever.insert(changed_ever.end(), changed.begin(), changed.end());
    const Paths everywhere = sorted_paths(changed_ever);
    for (std::vector<Place>* places : {&changed, &shown, &plain}) {
        std::erase_if(*places, [&everywhere](const Place& place) {
            return std::any_of(
                place.links_in.begin(), place.links_in.end(),
                [&](const std::string& one) { return is_within_any(one, everywhere); });
        });
    }
    writable = sorted_paths(changed);
    visible = sorted_paths(shown);
    devices = sorted_paths(plain);
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
    const SandboxMeans means(profile);
    if (!support.seccomp || !means.usable()) {
        throw Error(ErrorCode::unsupported,
                    "The process was not started: " + support.problem() + ".");
    }
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
    if (means.bubblewrap) {
        plan_mounts(paths, true);
        open_places();
        wrapper_ = bubblewrap_options(steps_, profile.network, entry_.directory);
    }
    if (means.landlock > 0) make_rules(paths, means);
    FilterNeeds needs;
    needs.internet_sockets = profile.network || means.mounts();
    needs.unix_sockets = profile.unix_sockets;
    needs.close_truncation = !means.mounts() && means.landlock < landlock_truncation;
    needs.close_tracing = means.landlock == 0;
    filter_ = system_call_filter(needs);
    entry_.filter = filter_.data();
    entry_.filter_size = static_cast<unsigned short>(filter_.size());
    if (means.process_limit) entry_.max_processes = profile.max_processes;
}

void SandboxPlan::wrap(std::string& program, std::vector<std::string>& words,
                       std::vector<std::string>& environment) {
    wrapper_options_ = memory_file(wrapper_ + bubblewrap_environment(environment));
    // The loader obeys some of them, such as LD_PRELOAD, and bubblewrap itself runs outside of the sandbox.
    environment.clear();
    wrapper_filter_ = memory_file(
        {reinterpret_cast<const char*>(filter_.data()), filter_.size() * sizeof(sock_filter)});
    entry_.wrapper_options = wrapper_options_.get();
    entry_.wrapper_filter = wrapper_filter_.get();
    words.front() = program;
    const std::string options = std::to_string(entry_.wrapper_options);
    const std::string filter = std::to_string(entry_.wrapper_filter);
    words.insert(words.begin(), {"bwrap", "--args", options, "--seccomp", filter, "--"});
    program = bubblewrap().path;
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

/// A command that is running may put links into a path until bubblewrap mounts it.
void SandboxPlan::open_places() {
    for (MountStep& step : steps_) {
        if (!binds_place(step)) continue;
        places_.push_back(open_place(step.path));
        if (!places_.back()) fail(step.path, errno);
        step.place = places_.back().get();
        place_numbers_.push_back(step.place);
    }
    std::sort(place_numbers_.begin(), place_numbers_.end());
    entry_.places = place_numbers_.data();
    entry_.place_count = place_numbers_.size();
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
    const Paths devices = everything ? Paths() : paths.devices;
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
    for (const std::string& device : paths.devices) allow(device, means, reads);
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
    // A command that is running may remove the path, and put links into it.
    const UniqueFd place = open_place(path);
    if (!place && errno == ENOENT) return;
    struct stat info{};
    if (!place || ::fstat(place.get(), &info) != 0) fail(path, errno);
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
