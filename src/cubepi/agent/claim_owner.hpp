#pragma once

#include <cubepi/agent/checkpointer.hpp>

namespace cubepi {

/// Returns this process as an owner of claims (D50). The result is the same at every call, but differs after fork().
/// Thread-safe.
ClaimOwner current_process_owner();

/// Returns true if `owner` is a process of this host that no longer runs: it ended, became a zombie, or the host was
/// rebooted. Returns false for owners elsewhere (another host or process namespace), which only their lease can fence.
/// Thread-safe; reads /proc.
bool is_dead_owner(const ClaimOwner& owner);

}  // namespace cubepi
