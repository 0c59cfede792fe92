#pragma once

#include <optional>

#include <cubepi/core/json.hpp>

namespace cubepi::detail {

/// Converts `schema` to the part of JSON Schema that endpoints can enforce: every object is closed and all of its
/// properties are required. A property with a default must be present; other optional ones may be null. Unsupported
/// limits (lengths) are omitted: the answer is validated against `schema` anyway. Empty if the schema cannot be
/// expressed: free maps, values of any form, recursion, conditions.
std::optional<Json> strict_schema(const Json& schema);

/// Removes the nulls from an answer that only strict_schema() allowed.
void drop_added_nulls(Json& value, const Json& schema);

}  // namespace cubepi::detail
