#include <cubepi/process/sandbox/kernel_rules.hpp>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x00000080
#endif

namespace cubepi::detail {

namespace {

// Landlock. Numbers that all processors share.
constexpr long create_ruleset = 444;
constexpr long add_rule = 445;
constexpr long restrict_thread = 446;
constexpr unsigned version_only = 1;
constexpr int path_beneath = 1;

struct RulesetAttributes {
    std::uint64_t files = 0;
    std::uint64_t network = 0;  // since version 4
    std::uint64_t scopes = 0;   // since version 6
};

struct [[gnu::packed]] PathAttributes {
    std::uint64_t rights = 0;
    std::int32_t parent = -1;
};

constexpr std::uint64_t right(unsigned bit) { return std::uint64_t{1} << bit; }
constexpr std::uint64_t write_file = right(1);
constexpr std::uint64_t remove_entries = right(4) | right(5);
constexpr std::uint64_t make_devices = right(6) | right(11);
constexpr std::uint64_t make_files = right(7) | right(8) | right(9) | right(10) | right(12);
constexpr std::uint64_t move_between = right(13);
constexpr std::uint64_t truncate_file = right(14);
constexpr std::uint64_t control_device = right(15);
constexpr std::uint64_t all_scopes = 3;  // abstract sockets, signals

}  // namespace

int landlock_version() noexcept {
    const long version = ::syscall(create_ruleset, nullptr, 0, version_only);
    return static_cast<int>(std::max(version, 0L));
}

LandlockRights::LandlockRights(int version) noexcept
    : handled(write_file | remove_entries | make_devices | make_files),
      below_directory(0),
      of_file(0) {
    if (version >= landlock_moves) handled |= move_between;
    if (version >= landlock_truncation) handled |= truncate_file;
    if (version >= landlock_devices) handled |= control_device;
    below_directory = handled & ~make_devices;
    of_file = handled & (write_file | truncate_file | control_device);
}

UniqueFd make_ruleset(int version, std::uint64_t handled) noexcept {
    RulesetAttributes attributes;
    attributes.files = handled;
    std::size_t size = sizeof(attributes.files);
    if (version >= landlock_scopes) {
        attributes.scopes = all_scopes;
        size = sizeof(attributes);
    }
    return UniqueFd(static_cast<int>(::syscall(create_ruleset, &attributes, size, 0)));
}

bool allow_below(int ruleset, int path, std::uint64_t rights) noexcept {
    PathAttributes attributes;
    attributes.rights = rights;
    attributes.parent = path;
    return ::syscall(add_rule, ruleset, path_beneath, &attributes, 0) == 0;
}

bool restrict_self(int ruleset) noexcept { return ::syscall(restrict_thread, ruleset, 0) == 0; }

namespace {

#if defined(__x86_64__)
constexpr std::uint32_t processor = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr std::uint32_t processor = AUDIT_ARCH_AARCH64;
#elif defined(__riscv) && __riscv_xlen == 64
constexpr std::uint32_t processor = AUDIT_ARCH_RISCV64;
#else
constexpr std::uint32_t processor = 0;
#endif

// Numbers that every processor shares, because they are newer than 5.0; older headers lack some of them.
constexpr std::uint32_t call_io_uring_setup = 425;
constexpr std::uint32_t call_io_uring_enter = 426;
constexpr std::uint32_t call_io_uring_register = 427;
constexpr std::uint32_t call_open_tree = 428;
constexpr std::uint32_t call_move_mount = 429;
constexpr std::uint32_t call_fsopen = 430;
constexpr std::uint32_t call_fsconfig = 431;
constexpr std::uint32_t call_fsmount = 432;
constexpr std::uint32_t call_fspick = 433;
constexpr std::uint32_t call_clone3 = 435;
constexpr std::uint32_t call_openat2 = 437;
constexpr std::uint32_t call_pidfd_getfd = 438;
constexpr std::uint32_t call_mount_setattr = 442;
constexpr std::uint32_t call_quotactl_fd = 443;
constexpr std::uint32_t call_open_tree_attr = 467;

/// Calls that no command needs and that reach around the sandbox: mounts, files by their handles, namespaces, the keys of the
/// user's session, and rings through which sockets are made without a system call.
constexpr std::uint32_t refused_calls[] = {
    SYS_mount,
    SYS_umount2,
    SYS_pivot_root,
    SYS_chroot,
    SYS_setns,
    SYS_unshare,
    SYS_open_by_handle_at,
    SYS_add_key,
    SYS_request_key,
    SYS_keyctl,
    SYS_bpf,
    SYS_perf_event_open,
    SYS_userfaultfd,
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_kexec_load,
    SYS_reboot,
    SYS_swapon,
    SYS_swapoff,
    SYS_acct,
    SYS_quotactl,
    SYS_sethostname,
    SYS_setdomainname,
    SYS_settimeofday,
    SYS_clock_settime,
    SYS_adjtimex,
    SYS_vhangup,
    SYS_syslog,
#if defined(__x86_64__)
    SYS_iopl,
    SYS_ioperm,
    SYS_modify_ldt,
#endif
    call_io_uring_setup,
    call_io_uring_enter,
    call_io_uring_register,
    call_open_tree,
    call_move_mount,
    call_fsopen,
    call_fsconfig,
    call_fsmount,
    call_fspick,
    call_mount_setattr,
    call_quotactl_fd,
    call_open_tree_attr,
};

constexpr std::uint32_t tracing_calls[] = {SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev,
                                           SYS_kcmp, call_pidfd_getfd};

constexpr std::uint32_t new_namespaces = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS |
                                         CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;

constexpr std::uint32_t allowed = SECCOMP_RET_ALLOW;
constexpr std::uint32_t refused = SECCOMP_RET_ERRNO | EPERM;
constexpr std::uint32_t unknown_call = SECCOMP_RET_ERRNO | ENOSYS;

constexpr std::uint32_t argument(unsigned index) {
    // The lower half: flags and families are 32 bits wide, and all supported processors are little-endian.
    return static_cast<std::uint32_t>(offsetof(seccomp_data, args) + index * sizeof(std::uint64_t));
}

/// Writes instructions. Each check of a call is a block that falls through if the call is another one.
class FilterWriter {
public:
    std::vector<sock_filter> program;

    void load(std::uint32_t offset) { add(BPF_LD | BPF_W | BPF_ABS, 0, 0, offset); }
    void mask(std::uint32_t bits) { add(BPF_ALU | BPF_AND | BPF_K, 0, 0, bits); }
    void answer(std::uint32_t action) { add(BPF_RET | BPF_K, 0, 0, action); }
    /// Answers if the loaded value equals `value`.
    void answer_if(std::uint32_t value, std::uint32_t action) {
        add(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, value);
        answer(action);
    }
    void answer_unless(std::uint32_t value, std::uint32_t action) {
        add(BPF_JMP | BPF_JEQ | BPF_K, 1, 0, value);
        answer(action);
    }
    /// The number of the call is loaded before and after the block, which `write` writes.
    template <class Write>
    void if_call(std::uint32_t call, Write write) {
        FilterWriter block;
        write(block);
        block.load(offsetof(seccomp_data, nr));
        add(BPF_JMP | BPF_JEQ | BPF_K, 0, static_cast<std::uint8_t>(block.program.size()), call);
        program.insert(program.end(), block.program.begin(), block.program.end());
    }

private:
    void add(unsigned code, std::uint8_t if_true, std::uint8_t if_false, std::uint32_t value) {
        program.push_back({static_cast<std::uint16_t>(code), if_true, if_false, value});
    }
};

/// A new family is unknown to the namespaces and to Landlock: VSOCK reaches the host of a virtual machine.
void check_sockets(FilterWriter& filter, const FilterNeeds& needs) {
    filter.if_call(SYS_socket, [&](FilterWriter& block) {
        block.load(argument(0));
        if (needs.unix_sockets) block.answer_if(AF_UNIX, allowed);
        if (needs.internet_sockets) {
            for (const unsigned family :
                 {unsigned{AF_INET}, unsigned{AF_INET6}, unsigned{AF_NETLINK}})
                block.answer_if(family, allowed);
        }
        block.answer(refused);
    });
    // A datagram socket of a pair can send to any other one by its path.
    if (needs.unix_sockets) return;
    filter.if_call(SYS_socketpair, [](FilterWriter& block) {
        constexpr std::uint32_t type_bits = 0xf;
        block.load(argument(1));
        block.mask(type_bits);
        block.answer_if(SOCK_STREAM, allowed);
        block.answer_if(SOCK_SEQPACKET, allowed);
        block.answer(refused);
    });
}

/// Truncation without a descriptor for writing.
void check_truncation(FilterWriter& filter) {
    const auto check_flags = [](unsigned index) {
        return [index](FilterWriter& block) {
            block.load(argument(index));
            block.mask(O_TRUNC | O_ACCMODE);
            block.answer_if(O_TRUNC | O_RDONLY, refused);
        };
    };
    filter.answer_if(SYS_truncate, refused);
    filter.answer_if(call_openat2, unknown_call);  // its flags are in memory
    filter.if_call(SYS_openat, check_flags(2));
#if defined(__x86_64__)
    filter.if_call(SYS_open, check_flags(1));
#endif
}

}  // namespace

bool has_system_call_filters() noexcept {
    const std::uint32_t action = SECCOMP_RET_ERRNO;
    return processor != 0 && ::syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0;
}

std::vector<sock_filter> system_call_filter(const FilterNeeds& needs) {
    FilterWriter filter;
    // Programs for another processor (32 bits) have calls with other numbers.
    filter.load(offsetof(seccomp_data, arch));
    filter.answer_unless(processor, unknown_call);
    filter.load(offsetof(seccomp_data, nr));
#if defined(__x86_64__)
    constexpr std::uint32_t x32_bit = 0x40000000;
    filter.program.push_back({BPF_JMP | BPF_JGE | BPF_K, 0, 1, x32_bit});
    filter.answer(unknown_call);
#endif
    for (const std::uint32_t call : refused_calls) filter.answer_if(call, refused);
    if (needs.close_tracing) {
        for (const std::uint32_t call : tracing_calls) filter.answer_if(call, refused);
    }
    // Its flags are in memory. The C library uses clone(2) then.
    filter.answer_if(call_clone3, unknown_call);
    filter.if_call(SYS_clone, [](FilterWriter& block) {
        block.load(argument(0));
        block.mask(new_namespaces);
        block.answer_unless(0, refused);
    });
    filter.if_call(SYS_ioctl, [](FilterWriter& block) {
        constexpr std::uint32_t console_request = 0x541C;  // TIOCLINUX
        block.load(argument(1));
        // Keys typed into a terminal on behalf of its user.
        block.answer_if(TIOCSTI, refused);
        block.answer_if(console_request, refused);
    });
    // A limit of processor time ends another process of the user as a signal would.
    filter.if_call(SYS_prlimit64, [](FilterWriter& block) {
        block.load(argument(0));
        block.answer_unless(0, refused);
    });
    check_sockets(filter, needs);
    if (needs.close_truncation) check_truncation(filter);
    filter.answer(allowed);
    return filter.program;
}

}  // namespace cubepi::detail
