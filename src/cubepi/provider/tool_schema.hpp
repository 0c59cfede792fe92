#pragma once

#include <cubepi/core/json.hpp>
#include <cubepi/provider/capability.hpp>

namespace cubepi {

/// Converts the JSON Schema of a tool to the dialect of an endpoint (D27). Only subschemas are converted: data in
/// `default`, `const`, `enum` and `examples` is unchanged. Never fails: constructs that cannot be expressed are left
/// unchanged.
Json lower_tool_schema(const Json& schema, SchemaDialect dialect);

}  // namespace cubepi
