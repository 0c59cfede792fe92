#pragma once

#include <filesystem>
#include <string>

namespace cubepi::app {

/// Returns the text of the user unit that runs the gateway with this program. `environment`: a file with variables
/// (`KEY=value` lines), such as keys and tokens; it may be missing.
std::string gateway_unit(const std::filesystem::path& program,
                         const std::filesystem::path& environment);

/// Writes the unit and the directory of its environment file, and prints how to start it. Returns the exit status. Throws
/// Error(io).
int install_unit();
/// Removes the unit. Returns the exit status. Throws Error(io).
int uninstall_unit();

}  // namespace cubepi::app
