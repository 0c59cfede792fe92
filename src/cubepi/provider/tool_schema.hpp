#pragma once

#include <cubepi/core/json.hpp>
#include <cubepi/provider/capability.hpp>

namespace cubepi {

/// The one step in which a tool's JSON Schema is fitted to an endpoint's dialect (D27). Only places that hold schemas
/// are looked at: data in `default`, `const`, `enum` and `examples` stays as it is. Never fails: what cannot
/// be expressed is left as given.
Json lower_tool_schema(const Json& schema, SchemaDialect dialect);

}  // namespace cubepi
