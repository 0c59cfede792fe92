#pragma once

#include <optional>
#include <string>
#include <vector>

#include <cubepi/core/json.hpp>
#include <cubepi/provider/capability.hpp>

namespace cubepi {

/// Converts the JSON Schema of a tool to the dialect of an endpoint (D27). Only subschemas are converted: data in
/// `default`, `const`, `enum` and `examples` is unchanged. Never fails: constructs that cannot be expressed are left
/// unchanged.
Json lower_tool_schema(const Json& schema, SchemaDialect dialect);

namespace detail {

/// Returns whether OpenAI's strict mode accepts a schema: every object closed, every property required.
bool is_strict_schema(const Json& schema);

/// Converts `schema` to the part of JSON Schema that endpoints can enforce: every object is closed and all of its
/// properties are required. A property with a default must be present; other optional ones may be null. Unsupported
/// limits (lengths) are omitted: the answer is validated against `schema` anyway. Empty if the schema cannot be
/// expressed: free maps, values of any form, recursion, references that would make it huge, conditions.
std::optional<Json> strict_schema(const Json& schema);

/// Returns true for the values of "format" that OpenAI's strict mode accepts; it refuses a schema with another one.
bool is_strict_format(const Json& format);

/// Removes the nulls from an answer that only strict_schema() allowed. `schema` has no references, as that of
/// lower_tool_schema(..., SchemaDialect::inline_refs).
void drop_added_nulls(Json& value, const Json& schema);

/// A JSON Schema in the dialect of the Messages API, with a text about the parts that were expressed differently.
struct AnthropicSchema {
    Json schema = {};
    std::vector<std::string> changes = {};
};

/// The lowering step for tools (D27). Changes only what the endpoint rejects at the top level: it must be an object,
/// and `anyOf`, `oneOf`, `allOf` and `$ref` there become one object whose description states their constraints.
AnthropicSchema lower_anthropic_tool(const Json& schema, SchemaDialect dialect);

/// The schema of an answer (output_config.format): objects are closed, and limits that the endpoint does not know
/// become part of the description. The answer is validated against the original schema.
AnthropicSchema lower_anthropic_format(const Json& schema);

}  // namespace detail

}  // namespace cubepi
