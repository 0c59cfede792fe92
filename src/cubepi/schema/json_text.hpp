#pragma once

#include <string>

#include <cubepi/core/json.hpp>

namespace cubepi {

/// Formats JSON for users, models, files and servers: compact, numbers in decimal notation (21.5, where boost::json::serialize
/// writes 2.15E1). Infinities and NaN, which JSON does not support, become null. Keys keep their order.
std::string json_text(const Json& value);
std::string json_text(const JsonObject& value);

}  // namespace cubepi
