#pragma once

#include <memory>

#include <cubepi/core/process.hpp>
#include <cubepi/core/runtime.hpp>

namespace cubepi {

/// Returns the launcher of a runtime: its own, or else one for processes of this machine, with time limits on the runtime's clock.
///
/// Each of these processes leads a session and process group of its own, has no terminal, and inherits no descriptor but its
/// standard streams. A small process that supervises it (a subreaper) ends all its descendants, also those that have left its
/// session; it ends them when this process exits for any reason, even by SIGKILL. A write to a closed pipe raises no SIGPIPE.
std::shared_ptr<ProcessLauncher> launcher_of(const Runtime& runtime);

}  // namespace cubepi
