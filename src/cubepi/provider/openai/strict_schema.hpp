#pragma once

#include <optional>

#include <cubepi/core/json.hpp>

namespace cubepi::detail {

/// Converts `schema` to the part of JSON Schema that endpoints can enforce: every object is closed and all of its
/// properties are required. A property with a default must be present; other optional ones may be null. Unsupported
/// limits (lengths) are omitted: the answer is validated against `schema` anyway. Empty if the schema cannot be
/// expressed: free maps, values of any form, recursion, conditions.
std::optional<Json> strict_schema(const Json& schema);

/// Returns true for the values of "format" that OpenAI's strict mode accepts; it refuses a schema with another one.
bool is_strict_format(const Json& format);

/// Removes the nulls from an answer that only strict_schema() allowed. `schema` has no references, as that of
/// lower_tool_schema(..., SchemaDialect::inline_refs).
void drop_added_nulls(Json& value, const Json& schema);

}  // namespace cubepi::detail
