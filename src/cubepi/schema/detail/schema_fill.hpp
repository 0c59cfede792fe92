#pragma once

#include <cubepi/core/json.hpp>

namespace cubepi::detail {

/// Fills in defaults and applies the allowed conversions (see JsonSchema::validate) in `value`. What fits
/// nothing is left as it is. `root` is a schema that passed check_schema.
void fill_value(const Json& root, Json& value);

}  // namespace cubepi::detail
