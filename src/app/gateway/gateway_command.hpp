#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "../command_line.hpp"

namespace cubepi::app {

/// The time after `gateway.drain_timeout` for the gateway to cancel its turns, before the service manager kills it.
inline constexpr std::chrono::seconds time_after_drain{30};

/// The parts of the unit that depend on the installation.
struct UnitOptions {
    std::filesystem::path program = {};
    std::vector<std::string> channels = {};  ///< of --enable-channel
    /// A file with variables (`KEY=value` lines), such as keys and tokens; it may be missing.
    std::filesystem::path environment = {};
    std::chrono::seconds drain_timeout{30};
};

/// Returns the path of the file with the variables of the service.
std::filesystem::path gateway_environment_path();

/// Returns the text of the user unit that runs the gateway.
std::string gateway_unit(const UnitOptions& options);

/// Writes the unit and its environment file, and prints how to start it. Returns the exit status. Throws Error(io), and
/// Error(parse) for an invalid configuration file.
int install_unit(std::vector<std::string> channels);
/// Removes the unit. Returns the exit status. Throws Error(io).
int uninstall_unit();

/// Raises the limit of open files. Each connection needs a file descriptor; the default soft limit of 1024 is for programs that use
/// select(). The limit also holds for commands, some of which close every descriptor up to it.
void allow_many_files();

/// Prints a link that logs in to the web console of the gateway that listens on the socket. Returns the exit status. Throws Error.
int print_console_link(const std::filesystem::path& socket, const GatewayArguments& arguments);

/// `cubepi gateway import`: copies the sessions (tapes, with their questions), the unfinished messages, the unsettled answers, the ids of finished
/// messages and the schedules in $BUB_HOME to the configured database, and marks the files as moved (D256). One that is interrupted is to be
/// repeated: once it has begun to copy messages, no gateway uses the files. Returns the exit status. Throws Error: storage_locked while a gateway uses the files.
int import_command();

}  // namespace cubepi::app
