#pragma once

#include <cstdint>
#include <vector>

#include <linux/filter.h>

#include <cubepi/core/support/posix_file.hpp>

// The rules by which the kernel confines a process: those of Landlock, and a filter of system calls (seccomp). The headers of the
// system may be older than its kernel, so the constants of Landlock are here.

namespace cubepi::detail {

/// Returns the version of Landlock's interface; 0: this kernel has none, or it is disabled.
int landlock_version() noexcept;

/// The versions with which Landlock has learned to restrict something.
inline constexpr int landlock_moves =
    2;  ///< moves between directories; version 1 refuses all of them
inline constexpr int landlock_truncation = 3;  ///< truncate(2)
inline constexpr int landlock_devices = 5;     ///< ioctl(2) of devices
inline constexpr int landlock_scopes = 6;      ///< signals and abstract sockets

/// The rights to change files that `version` knows.
struct LandlockRights {
    explicit LandlockRights(int version) noexcept;
    std::uint64_t handled;          ///< refused where no rule allows them
    std::uint64_t below_directory;  ///< of a writable directory; without making devices
    std::uint64_t of_file;          ///< of a writable file or device
};
inline constexpr std::uint64_t landlock_read_file = std::uint64_t{1} << 2U;

/// Creates rules that allow nothing of `handled`. Empty if that fails, with the reason in errno.
UniqueFd make_ruleset(int version, std::uint64_t handled) noexcept;

/// Allows the rights at an open path and below it. Async-signal-safe. False with the reason in errno.
bool allow_below(int ruleset, int path, std::uint64_t rights) noexcept;

/// Restricts the calling thread and what it starts. It must not be able to gain privileges. Async-signal-safe.
bool restrict_self(int ruleset) noexcept;

/// The calls that a filter has to refuse because nothing else does.
struct FilterNeeds {
    bool internet_sockets = false;  ///< sockets of the families INET, INET6 and NETLINK are allowed
    bool unix_sockets = false;      ///< sockets of the family UNIX are allowed; pairs always are
    bool close_truncation = false;  ///< Landlock before version 3, without mounts
    bool close_tracing = false;     ///< no Landlock: it confines traces to the sandbox
};

/// True if this kernel has filters with error numbers, and this project has the table of system calls of this processor.
bool has_system_call_filters() noexcept;

/// Returns the program for seccomp(2): refused calls fail with EPERM. It does not depend on pointers, so that nothing can change
/// between the check and the call.
std::vector<sock_filter> system_call_filter(const FilterNeeds& needs);

}  // namespace cubepi::detail
