#pragma once

#include <string>

#include <cubepi/core/json.hpp>

namespace cubepi::app {

/// Returns the changes of the configuration file for the user, a line each, without secrets.
std::string settings_changes(const JsonObject& before, const JsonObject& wanted,
                             const std::string& path = {});

}  // namespace cubepi::app
