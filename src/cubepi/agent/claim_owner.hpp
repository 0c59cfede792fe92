#pragma once

#include <cubepi/agent/checkpointer.hpp>

namespace cubepi {

/// This process as the owner of claims (D50). The same at every call, another one after fork(). Any thread.
ClaimOwner current_process_owner();

/// True when `owner` is a process of this host that does not run any more: it ended, became a zombie, or the host was
/// started again since. False for owners elsewhere (another host, another process namespace): only their lease tells.
/// Any thread; reads /proc.
bool is_dead_owner(const ClaimOwner& owner);

}  // namespace cubepi
