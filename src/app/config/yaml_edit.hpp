#pragma once

#include <string>

#include <cubepi/core/json.hpp>

namespace cubepi::app {

/// What a YAML text says, keys and values. Throws YAML::Exception; Error(parse) when it is no map.
JsonObject yaml_values(const std::string& text);

/// `text` changed so that it says `wanted`. Comments, and order and style of what does not change, stay where the text is
/// written a key a line; comments of values that are replaced or removed become lines of their own. Any other text is written
/// from scratch, its comment lines first. Throws YAML::Exception; Error(parse) when
/// YAML cannot hold what is wanted (a key of more than 1,000 characters).
std::string edit_yaml(const std::string& text, const JsonObject& wanted);

}  // namespace cubepi::app
