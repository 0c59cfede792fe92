#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include <cubepi/core/runtime.hpp>
#include <cubepi/mcp/protocol.hpp>
#include <cubepi/mcp/transport.hpp>
#include <cubepi/process/environment.hpp>

namespace cubepi {

/// A server that is a child process.
struct McpStdioOptions {
    std::string server = {};   ///< its name in errors and in the log
    std::string program = {};  ///< a path, or a name that is searched in PATH
    std::vector<std::string> arguments = {};
    std::string directory = {};  ///< empty: that of this process
    /// By default PATH, HOME and the like, as other clients do. `set` has the variables of the server's configuration, and `hidden`
    /// those that no server gets, such as the keys of models (D58).
    EnvironmentPolicy environment = {.inherit = InheritEnvironment::core};
    /// The time that the server has to exit after the end of its standard input, and once more after SIGTERM.
    std::chrono::nanoseconds exit_grace = std::chrono::seconds(2);
    /// The delay before a start that follows a failed one; doubles up to `max_restart_delay`.
    std::chrono::nanoseconds restart_delay = std::chrono::milliseconds(500);
    std::chrono::nanoseconds max_restart_delay = std::chrono::seconds(60);
    McpLimits limits = {};
};

/// Returns a connection to a child process that reads and writes lines. The process is started by open() and ends with the
/// connection, with all processes that it has started.
std::unique_ptr<McpTransport> mcp_stdio_transport(McpStdioOptions options,
                                                  std::shared_ptr<const Runtime> runtime);

}  // namespace cubepi
