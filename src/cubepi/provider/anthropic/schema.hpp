#pragma once

#include <string>
#include <vector>

#include <cubepi/core/json.hpp>
#include <cubepi/provider/capability.hpp>

namespace cubepi::detail {

/// A JSON Schema as this endpoint takes it, and what of it had to be said in another way, in words.
struct AnthropicSchema {
    Json schema = {};
    std::vector<std::string> changes = {};
};

/// The one lowering step for tools (D27). As given, but for what the endpoint refuses at the top level: it must be an
/// object, and `anyOf`, `oneOf`, `allOf` and `$ref` there become one object whose description says what they said.
AnthropicSchema lower_anthropic_tool(const Json& schema, SchemaDialect dialect);

/// The schema of an answer (output_config.format): objects are closed, and limits that the endpoint does not know
/// become part of the description. What comes back is validated against the schema as it was given.
AnthropicSchema lower_anthropic_format(const Json& schema);

}  // namespace cubepi::detail
