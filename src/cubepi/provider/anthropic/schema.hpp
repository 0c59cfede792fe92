#pragma once

#include <string>
#include <vector>

#include <cubepi/core/json.hpp>
#include <cubepi/provider/capability.hpp>

namespace cubepi::detail {

/// A JSON Schema in the dialect of this endpoint, with a text about the parts that were expressed differently.
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

}  // namespace cubepi::detail
