#pragma once

#include <cubepi/core/json.hpp>

namespace cubepi::detail {

/// Inserts defaults and applies the allowed conversions (see JsonSchema::validate) in `value`. Values that match
/// nothing are unchanged. `root` is a schema that passed check_schema.
void fill_value(const Json& root, Json& value);

}  // namespace cubepi::detail
