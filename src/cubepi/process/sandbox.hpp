#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <cubepi/core/process.hpp>
#include <cubepi/core/runtime.hpp>

// Confines child processes by means of the kernel: Landlock, seccomp, and namespaces of users, mounts, the network and System V
// IPC (D149). A sandboxed process cannot leave the sandbox, and neither can its descendants.

namespace cubepi {

/// The permissions of a sandboxed process. Everything that is not listed can be read and executed, but not changed. A path that
/// does not exist when the process starts has no effect; symbolic links in paths are resolved at that time. `writable` and `visible`
/// follow no link that a sandboxed process may have made (D281).
struct SandboxProfile {
    /// Directories with all files below them, and single files, that may be changed. /dev/null and the like always may be;
    /// another device is used only if it is listed.
    std::vector<std::filesystem::path> writable = {};
    /// Files and directories below `writable` that can be neither changed nor replaced.
    std::vector<std::filesystem::path> read_only = {};
    /// Files and directories that cannot be read. Where they are below `writable`, they cannot be changed or replaced either.
    std::vector<std::filesystem::path> hidden = {};
    /// Directories below `hidden` that can be read nevertheless. `writable` has precedence over `hidden` in the same way.
    std::vector<std::filesystem::path> visible = {};
    /// Directories that processes in other sandboxes may change.
    std::vector<std::filesystem::path> changed_by_others = {};
    /// False: no network. All sandboxed processes of this program share a loopback interface of their own, if the kernel has
    /// network namespaces; otherwise they have no sockets.
    bool network = false;
    /// True: sockets with a path can be used, also those of other programs (docker.sock, ssh-agent).
    bool unix_sockets = false;
    /// The limit of processes and threads of all sandboxes of this program together; 0: none.
    std::size_t max_processes = 4096;

    /// Uses only what this version of Landlock has. For tests.
    int max_landlock_abi = 1 << 16;
    /// False: does without namespaces, as in a container that forbids them. For tests.
    bool use_namespaces = true;

    /// Returns the same permissions without those to change files.
    SandboxProfile without_writes() const;
};

/// The means that the kernel offers to this process.
struct SandboxSupport {
    int landlock_abi = 0;  ///< 0: no Landlock
    bool seccomp = false;
    bool namespaces = false;
    std::string namespaces_problem = {};  ///< why there are no namespaces

    /// True if processes can be sandboxed at all.
    bool available() const noexcept { return seccomp && (landlock_abi > 0 || namespaces); }
    /// Returns why processes cannot be sandboxed; empty if they can.
    std::string problem() const;
};

/// Determines what the kernel offers, at the first call, with processes that exit at once: blocks for some milliseconds.
/// Thread-safe.
const SandboxSupport& sandbox_support();

/// Promises of a sandbox.
enum class SandboxProperty : std::uint8_t {
    writes,         ///< files outside of `writable` are not created, changed, renamed or deleted
    truncation,     ///< files outside of `writable` are not cut off
    metadata,       ///< modes, times and attributes of files outside of `writable` are not changed
    read_only,      ///< `read_only` is neither changed nor replaced
    hidden,         ///< `hidden` is not read
    network,        ///< no network, and no name resolution
    abstract_unix,  ///< no abstract Unix sockets of other processes
    path_unix,      ///< no Unix sockets with a path
    processes,      ///< other processes are not read, traced or changed
    signals,        ///< other processes get no signals
    terminals,      ///< terminals of the user are neither read nor written
    devices,        ///< no devices but /dev/null and the like
    privileges,     ///< setuid programs and new namespaces grant no privileges
    process_limit,  ///< the number of processes is limited
};

struct SandboxGuarantee {
    SandboxProperty property = SandboxProperty::writes;
    bool held = false;
    std::string how = {};  ///< the means, or why the promise is not held
    /// False: the promise does not follow from the profile, which for example allows the network.
    bool applies = true;
    /// The sandbox is of little use without this promise.
    bool essential() const noexcept;
};

/// Returns "writes outside of the workspace" and the like.
std::string to_string(SandboxProperty property);

/// Returns all promises, and whether this kernel can hold them for the profile.
std::vector<SandboxGuarantee> sandbox_guarantees(const SandboxProfile& profile);
bool sandbox_holds(const SandboxProfile& profile, SandboxProperty property);

/// Like launcher_of(), with sandboxed processes; null: not sandboxed. A process whose sandbox cannot be set up is not started:
/// start() throws Error(unsupported) if the kernel has no means, else Error(io). The runtime's own launcher, if it has one, is
/// returned unchanged: it alone knows where its processes run.
std::shared_ptr<ProcessLauncher> launcher_of(const Runtime& runtime,
                                             std::shared_ptr<const SandboxProfile> sandbox);

}  // namespace cubepi
