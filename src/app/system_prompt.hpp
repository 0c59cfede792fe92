#pragma once

#include <string>

namespace cubepi::app {

/// The system prompt of `cubepi run` and `cubepi chat`.
std::string system_prompt(const std::string& directory, bool with_tools);

}  // namespace cubepi::app
