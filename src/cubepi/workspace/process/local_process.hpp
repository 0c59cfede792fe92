#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/core/task.hpp>
#include <cubepi/workspace/workspace.hpp>

namespace cubepi::detail {

/// Starts `shell -c command` as the leader of a session and process group of its own, in the open directory
/// `working_directory`, with standard input at /dev/null, and a process that supervises it (command_supervisor.hpp).
/// Throws Error(io).
std::shared_ptr<Process> start_local_process(Executor executor, const std::string& shell,
                                             const std::string& command, int working_directory,
                                             const std::vector<std::string>& environment);

/// Sets one variable, "NAME=value", in a list of variables.
void set_variable(std::vector<std::string>& environment, std::string_view assignment);

}  // namespace cubepi::detail
