#pragma once

#include <cstddef>
#include <cstdint>

#include <linux/filter.h>
#include <sys/types.h>

// The part of a sandbox that runs in the process itself, between the fork and the exec. Everything here is async-signal-safe,
// and reads only what was prepared before the fork.

namespace cubepi::detail {

/// The namespaces that all sandboxes of this process share. -1: none.
struct NamespaceFds {
    int user = -1;
    int network = -1;
    int ipc = -1;
};

/// A change of the process's own tree of mounts. The steps run in their order.
struct MountStep {
    enum class Kind : std::uint8_t {
        open,            ///< remembers the tree at `path` under the number `slot`
        seal,            ///< makes the mounts at `path` and below read-only, without devices
        mask_directory,  ///< puts an empty directory over `path`, in which directories can be made
        make_directory,  ///< in a mask
        mask_file,       ///< puts an empty file over `path`
        attach,          ///< puts the remembered tree at `path`
        attach_read_only,  ///< the same, unchangeable
        pin,               ///< makes `path` a mount of its own, which cannot be renamed or removed
        pin_read_only,     ///< the same, unchangeable
        terminals,         ///< replaces the terminals of the system by an empty set at `path`
    };
    Kind kind = Kind::open;
    const char* path = nullptr;
    std::size_t slot = 0;
    int place = -1;  ///< for bubblewrap: the file at `path`, opened before; -1: none
};

inline constexpr std::size_t most_mount_slots = 128;

/// Where the setup of a sandbox failed.
enum class SandboxStage : std::int32_t {
    none,
    privileges,
    namespaces,
    mounts,  ///< a step; its number tells which
    directory,
    capabilities,
    limit,
    landlock,
    filter,
};

struct SandboxFailure {
    SandboxStage stage = SandboxStage::none;
    std::int32_t step = 0;   ///< the index of a mount step
    std::int32_t error = 0;  ///< an errno value
};

/// A sandbox, prepared before the fork.
struct SandboxEntry {
    NamespaceFds namespaces = {};
    bool has_mounts = false;  ///< the process gets a tree of mounts of its own
    /// The rights of Landlock to the terminals that `steps` have made; 0: none.
    std::uint64_t terminal_rights = 0;
    const MountStep* steps = nullptr;
    std::size_t step_count = 0;
    /// The files that bubblewrap reads: it carries the plan out, and has to be the program that is executed. -1: it is not used.
    int wrapper_options = -1;
    int wrapper_filter = -1;
    const int* places = nullptr;  ///< those of the steps, sorted
    std::size_t place_count = 0;
    const char* directory = nullptr;  ///< the working directory, an absolute path
    dev_t directory_device = 0;
    ino_t directory_inode = 0;
    int ruleset = -1;  ///< of Landlock; -1: none
    const sock_filter* filter = nullptr;
    unsigned short filter_size = 0;
    std::uint64_t max_processes = 0;  ///< 0: no limit
};

/// The loopback interface of a new network namespace is down. Returns an errno value.
int raise_loopback() noexcept;

/// Confines the calling process. Its working directory is entered again within its own mounts.
SandboxFailure enter_sandbox(const SandboxEntry& entry) noexcept;

/// The same without Landlock, filter and limit: for the test whether the kernel permits it.
SandboxFailure enter_mounts(const SandboxEntry& entry) noexcept;

}  // namespace cubepi::detail
