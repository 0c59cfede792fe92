#pragma once

#include <string>
#include <vector>

#include <cubepi/core/json.hpp>

namespace cubepi::detail {

/// The keyword under which the regular expressions of "pattern" are given to valijson, so that ours are used.
inline constexpr char pattern_keyword[] = "x-cubepi-pattern";

struct LoweredSchema {
    Json schema;
    std::vector<std::string>
        pattern_properties;  ///< the expressions, which valijson gives to std::regex
};

/// Checks that `root` is a schema and rewrites it into what valijson 1.0 judges rightly (draft 7 without
/// remarks). Throws Error (invalid_argument) that names the place.
LoweredSchema lower_schema(const Json& root);

}  // namespace cubepi::detail
