#pragma once

#include <string>

namespace cubepi::app {

/// Returns the name of the user who runs this process, or the user id as text if the system has no name for it.
std::string local_user();

}  // namespace cubepi::app
