#pragma once

#include <optional>

#include <cubepi/core/json.hpp>

namespace cubepi::detail {

/// `schema` in the part of JSON Schema that endpoints can hold an answer to: every object is closed and all of its
/// properties are required. What had a default must be given, what was optional otherwise may be null. Limits that
/// are not known there (lengths) are left out: the answer is validated against `schema` all the same. Empty when the
/// schema cannot be expressed so: free maps, values of any form, recursion, conditions.
std::optional<Json> strict_schema(const Json& schema);

/// Takes the nulls out of an answer that only strict_schema() allowed.
void drop_added_nulls(Json& value, const Json& schema);

}  // namespace cubepi::detail
