#pragma once

#include <string>

namespace cubepi::app {

/// What the model is told first by `cubepi run` and `cubepi chat`.
std::string system_prompt(const std::string& directory, bool with_tools);

}  // namespace cubepi::app
