#pragma once

#include <cubepi/core/task.hpp>

#include "../command_line.hpp"

namespace cubepi::app {

/// `cubepi chat` at a terminal: the prompt stays usable while an answer arrives. Returns the exit status.
Task<int> live_chat(CommandLine line);

}  // namespace cubepi::app
