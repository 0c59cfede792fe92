#include <cubepi/process/sandbox/enter_sandbox.hpp>

#include <cerrno>
#include <sched.h>

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/openat2.h>
#include <linux/seccomp.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cubepi/core/support/posix_file.hpp>
#include <cubepi/process/sandbox/kernel_rules.hpp>

namespace cubepi::detail {

namespace {

// Of linux/mount.h, which cannot be included together with sys/mount.h of every glibc.
constexpr unsigned tree_clone = 1;                 // OPEN_TREE_CLONE
constexpr unsigned tree_close_on_exec = 02000000;  // OPEN_TREE_CLOEXEC
constexpr unsigned whole_tree = 0x8000;            // AT_RECURSIVE
constexpr unsigned from_descriptor = 4;            // MOVE_MOUNT_F_EMPTY_PATH
constexpr std::uint64_t attribute_read_only = 1;   // MOUNT_ATTR_RDONLY
constexpr std::uint64_t attribute_no_devices = 4;  // MOUNT_ATTR_NODEV

struct MountAttributes {
    std::uint64_t set = 0;
    std::uint64_t clear = 0;
    std::uint64_t propagation = 0;
    std::uint64_t user_namespace = 0;
};

/// A command that is running may put links into the path.
int open_tree(const char* path) noexcept {
    open_how how{};
    how.flags = O_PATH | O_NOFOLLOW | O_CLOEXEC;
    how.resolve = RESOLVE_NO_SYMLINKS;
    const UniqueFd place(
        static_cast<int>(::syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how))));
    if (!place) return -1;
    return static_cast<int>(
        ::syscall(SYS_open_tree, place.get(), "",
                  tree_clone | tree_close_on_exec | whole_tree | AT_EMPTY_PATH));
}

bool attach_tree(int tree, const char* path) noexcept {
    return ::syscall(SYS_move_mount, tree, "", AT_FDCWD, path, from_descriptor) == 0;
}

bool seal_path(const char* path) noexcept {
    MountAttributes attributes;
    attributes.set = attribute_read_only | attribute_no_devices;
    return ::syscall(SYS_mount_setattr, AT_FDCWD, path, whole_tree | AT_SYMLINK_NOFOLLOW,
                     &attributes, sizeof(attributes)) == 0;
}

bool seal_tree(int tree) noexcept {
    MountAttributes attributes;
    attributes.set = attribute_read_only;
    return ::syscall(SYS_mount_setattr, tree, "", whole_tree | AT_EMPTY_PATH, &attributes,
                     sizeof(attributes)) == 0;
}

bool put_tree(int fd, const char* path, bool read_only) noexcept {
    const UniqueFd tree(fd);
    return tree && (!read_only || seal_tree(tree.get())) && attach_tree(tree.get(), path);
}

/// The files of this system's terminals take keys away from the user, and write on the user's screen.
bool replace_terminals(const char* path) noexcept {
    if (::mount("devpts", path, "devpts", MS_NOSUID | MS_NOEXEC,
                "newinstance,ptmxmode=0666,mode=0620") != 0)
        return false;
    // Opened without this, /dev/ptmx makes a terminal of the system.
    struct stat multiplexer{};
    const bool is_link = ::lstat("/dev/ptmx", &multiplexer) == 0 && S_ISLNK(multiplexer.st_mode);
    return is_link || put_tree(open_tree("/dev/pts/ptmx"), "/dev/ptmx", false);
}

bool take_step(const MountStep& step, int* trees) noexcept {
    using Kind = MountStep::Kind;
    switch (step.kind) {
        case Kind::open: trees[step.slot] = open_tree(step.path); return trees[step.slot] >= 0;
        case Kind::seal: return seal_path(step.path);
        case Kind::mask_directory:
            return ::mount("none", step.path, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC,
                           "size=64k,mode=0555") == 0;
        case Kind::make_directory: return ::mkdir(step.path, 0555) == 0 || errno == EEXIST;
        case Kind::mask_file: return put_tree(open_tree("/dev/null"), step.path, true);
        case Kind::attach: return put_tree(trees[step.slot], step.path, false);
        case Kind::attach_read_only: return put_tree(trees[step.slot], step.path, true);
        case Kind::pin: return put_tree(open_tree(step.path), step.path, false);
        case Kind::pin_read_only: return put_tree(open_tree(step.path), step.path, true);
        case Kind::terminals: return replace_terminals(step.path);
    }
    return false;
}

/// An error of 0 would be taken for a start.
SandboxFailure failure(SandboxStage stage, std::size_t step = 0) noexcept {
    return {stage, static_cast<std::int32_t>(step), errno == 0 ? EIO : errno};
}

/// Enters the shared namespaces and makes a tree of mounts. A hidden file cannot be reached by any descriptor: none but the
/// standard streams are open, and the working directory is replaced.
SandboxFailure make_mounts(const SandboxEntry& entry) noexcept {
    // Changes of the system's own mounts arrive here, and none leaves this process.
    if (::unshare(CLONE_NEWNS) != 0 ||
        ::mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr) != 0)
        return failure(SandboxStage::namespaces);
    int trees[most_mount_slots];
    for (int& tree : trees) tree = -1;
    for (std::size_t i = 0; i < entry.step_count; ++i) {
        if (!take_step(entry.steps[i], trees)) return failure(SandboxStage::mounts, i);
    }
    return {};
}

/// The path may lead to another directory by now, or to none.
SandboxFailure enter_directory(const SandboxEntry& entry) noexcept {
    struct stat found{};
    if (::chdir(entry.directory) != 0 || ::stat(".", &found) != 0)
        return failure(SandboxStage::directory);
    if (found.st_dev == entry.directory_device && found.st_ino == entry.directory_inode) return {};
    errno = ESTALE;
    return failure(SandboxStage::directory);
}

/// Root retains what it needs to use the files of others; everything else could undo the sandbox.
constexpr std::uint64_t capabilities_of_files =
    std::uint64_t{1} << CAP_CHOWN | std::uint64_t{1} << CAP_DAC_OVERRIDE |
    std::uint64_t{1} << CAP_FOWNER | std::uint64_t{1} << CAP_FSETID;

/// The exec of a program by root grants what the bounding set has; that of another user grants nothing.
bool drop_capabilities() noexcept {
    constexpr unsigned most = 64;
    for (unsigned one = 0; one < most; ++one) {
        if ((capabilities_of_files >> one & 1U) != 0) continue;
        if (::prctl(PR_CAPBSET_READ, one) != 1) continue;
        // EPERM: without CAP_SETPCAP this process has nothing to pass on.
        if (::prctl(PR_CAPBSET_DROP, one) != 0 && errno != EPERM) return false;
    }
    (void)::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct data[2] = {};
    if (::syscall(SYS_capget, &header, data) != 0) return false;
    for (__user_cap_data_struct& one : data) one.inheritable = 0;
    return ::syscall(SYS_capset, &header, data) == 0;
}

/// Landlock identifies files by their inodes, and those of the new terminals did not exist before.
bool allow_terminals(const SandboxEntry& entry) noexcept {
    for (const char* path : {"/dev/pts", "/dev/ptmx"}) {
        const UniqueFd place = open_file(path, O_PATH);
        if (!place || !allow_below(entry.ruleset, place.get(), entry.terminal_rights)) return false;
    }
    return true;
}

}  // namespace

int raise_loopback() noexcept {
    const UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (!socket) return errno;
    ifreq request = {};
    request.ifr_name[0] = 'l';
    request.ifr_name[1] = 'o';
    request.ifr_flags = IFF_UP | IFF_RUNNING;
    return ::ioctl(socket.get(), SIOCSIFFLAGS, &request) == 0 ? 0 : errno;
}

SandboxFailure enter_mounts(const SandboxEntry& entry) noexcept {
    const NamespaceFds& shared = entry.namespaces;
    if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return failure(SandboxStage::privileges);
    if (shared.user < 0) return {};
    if (::setns(shared.user, CLONE_NEWUSER) != 0 || ::setns(shared.ipc, CLONE_NEWIPC) != 0 ||
        (shared.network >= 0 && ::setns(shared.network, CLONE_NEWNET) != 0))
        return failure(SandboxStage::namespaces);
    if (!entry.has_mounts) return {};
    const SandboxFailure failed = make_mounts(entry);
    if (failed.stage != SandboxStage::none) return failed;
    return enter_directory(entry);
}

SandboxFailure enter_sandbox(const SandboxEntry& entry) noexcept {
    if (entry.wrapper_options >= 0) {
        // The flag is that of this process's own descriptors. A restriction would keep bubblewrap from its work.
        bool passed = ::fcntl(entry.wrapper_options, F_SETFD, 0) == 0 &&
                      ::fcntl(entry.wrapper_filter, F_SETFD, 0) == 0;
        for (std::size_t i = 0; i < entry.place_count; ++i)
            passed = passed && ::fcntl(entry.places[i], F_SETFD, 0) == 0;
        return passed ? SandboxFailure() : failure(SandboxStage::filter);
    }
    const SandboxFailure failed = enter_mounts(entry);
    if (failed.stage != SandboxStage::none) return failed;
    if (!drop_capabilities()) return failure(SandboxStage::capabilities);
    if (entry.max_processes != 0) {
        rlimit limit{};
        if (::getrlimit(RLIMIT_NPROC, &limit) != 0) return failure(SandboxStage::limit);
        if (limit.rlim_max > entry.max_processes) limit.rlim_max = entry.max_processes;
        if (limit.rlim_cur > limit.rlim_max) limit.rlim_cur = limit.rlim_max;
        if (::setrlimit(RLIMIT_NPROC, &limit) != 0) return failure(SandboxStage::limit);
    }
    if (entry.terminal_rights != 0 && !allow_terminals(entry))
        return failure(SandboxStage::landlock);
    if (entry.ruleset >= 0 && !restrict_self(entry.ruleset)) return failure(SandboxStage::landlock);
    // The library's headers have a pointer to non-const instructions; the kernel copies them.
    sock_fprog program = {entry.filter_size, const_cast<sock_filter*>(entry.filter)};
    if (::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) != 0)
        return failure(SandboxStage::filter);
    return {};
}

}  // namespace cubepi::detail
