#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <cubepi/core/support/posix_file.hpp>
#include <cubepi/process/sandbox/enter_sandbox.hpp>

// The program bubblewrap (bwrap), which makes the namespaces of a sandbox where only a setuid program may (D149).

namespace cubepi::detail {

struct Bubblewrap {
    std::string path;
    std::string problem;  ///< why it cannot be used; empty: it can
};

/// Looks for bubblewrap at the first call, in directories of the system alone, and tests in a process of its own whether it can make a
/// sandbox. Blocks then for some milliseconds. Thread-safe.
const Bubblewrap& bubblewrap();

/// True if bubblewrap mounts the file at the path of the step from an open descriptor.
bool binds_place(const MountStep& step);
/// Opens such a file. The descriptor is closed on exec and not one of the standard streams. Empty with the reason in errno, also if the
/// path leads through a symbolic link.
UniqueFd open_place(const std::string& path);

/// A sandbox as options of bubblewrap, each with a zero byte at its end.
std::string bubblewrap_options(const std::vector<MountStep>& steps, bool network,
                               std::string_view directory);
/// The options that set the variables in the sandbox.
std::string bubblewrap_environment(const std::vector<std::string>& environment);

/// Returns a file in memory that is at its beginning, closed on exec and not one of the standard streams. Throws Error(io).
UniqueFd memory_file(std::string_view content);

}  // namespace cubepi::detail
