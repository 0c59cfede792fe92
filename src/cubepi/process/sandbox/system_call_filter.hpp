#pragma once

#include <vector>

#include <linux/filter.h>

namespace cubepi::detail {

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
