#pragma once

#include <cubepi/agent/checkpointer.hpp>

#include <string>

namespace cubepi {

/// Returns this process as an owner of claims (D50). The result is the same at every call, but differs after fork().
/// Thread-safe.
ClaimOwner current_process_owner();

/// Returns true if `owner` holds no claim any more: its process on this host ended, became a zombie, or the host was
/// rebooted (known if it has a machine id and the process is in no container); or it is an owner of this process that note_ended_owner() was called for. Returns false for owners elsewhere
/// (another host or process namespace), which only their lease can fence. Thread-safe; reads /proc.
bool is_dead_owner(const ClaimOwner& owner);

/// Records that an owner of this process has ended without having been able to release its claim, because the store
/// failed: the next claim supersedes it at once instead of waiting for the end of its lease. The last 4,096 are
/// remembered. Thread-safe.
void note_ended_owner(std::string owner_id);

}  // namespace cubepi
