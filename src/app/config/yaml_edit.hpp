#pragma once

#include <string>

#include <cubepi/core/json.hpp>

namespace cubepi::app {

/// Reads the keys and values of a YAML text. Throws YAML::Exception; Error(parse) if it is not a map.
JsonObject yaml_values(const std::string& text);

/// Changes `text` so that its values equal `wanted`. If the text has one key per line, this preserves comments, and
/// the order and style of unchanged members; comments of values that are replaced or removed become separate lines.
/// Any other text is rewritten, its comment lines first. Throws YAML::Exception; Error(parse) if YAML cannot
/// represent a value (a key of more than 1,000 characters).
std::string edit_yaml(const std::string& text, const JsonObject& wanted);

}  // namespace cubepi::app
