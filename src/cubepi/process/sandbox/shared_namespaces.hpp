#pragma once

#include <string>

#include <cubepi/core/support/posix_file.hpp>
#include <cubepi/process/sandbox/enter_sandbox.hpp>

namespace cubepi::detail {

/// Namespaces that all sandboxes of this process share: commands reach each other over their loopback interface, and the limit of
/// processes counts all of them. Mounts are of each command alone.
struct SharedNamespaces {
    UniqueFd user;
    UniqueFd network;
    UniqueFd ipc;
    bool terminals = false;  ///< a set of terminals can be mounted
    std::string problem;     ///< why there are none; empty: they can be used

    NamespaceFds descriptors() const noexcept { return {user.get(), network.get(), ipc.get()}; }
};

/// Creates the namespaces at the first call, and tests in a process of its own whether mounts can be made in them. Thread-safe.
const SharedNamespaces& shared_namespaces();

}  // namespace cubepi::detail
