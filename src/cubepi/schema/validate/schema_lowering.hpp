#pragma once

#include <string>
#include <vector>

#include <cubepi/core/json.hpp>

namespace cubepi::detail {

/// The keyword that passes the regular expressions of "pattern" to valijson, so that this library's implementation is
/// used.
inline constexpr char pattern_keyword[] = "x-cubepi-pattern";

struct LoweredSchema {
    Json schema;
    std::vector<std::string>
        pattern_properties;  ///< the expressions, which valijson passes to std::regex
};

/// Checks that `root` is a schema and converts it to a form that valijson 1.0 evaluates correctly (draft 7 without
/// annotations). Throws Error (invalid_argument) that names the location.
LoweredSchema lower_schema(const Json& root);

}  // namespace cubepi::detail
