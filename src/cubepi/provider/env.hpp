#pragma once

#include <string>

namespace cubepi {

/// The environment variable `name`, empty when it is not set.
std::string env(const char* name);

}  // namespace cubepi
