#pragma once

#include <cubepi/core/json.hpp>
#include <cubepi/core/message.hpp>

namespace cubepi {

/// Converts a message to its stored form: CubeLoop's keys in CubeLoop's order, followed by this library's (D41).
JsonObject to_json(const Message& message);
JsonObject to_json(const UserMessage& message);
JsonObject to_json(const AssistantMessage& message);
JsonObject to_json(const ToolResultMessage& message);
JsonObject to_json(const Content& block);
JsonObject to_json(const AssistantContent& block);
JsonObject to_json(const Usage& usage);

/// Reads the stored form of any version. Unknown keys are preserved and written back. Throws Error(validation) that
/// names the key and the expectation.
Message message_from_json(const Json& json);
AssistantMessage assistant_message_from_json(const Json& json);
Usage usage_from_json(const JsonObject& json);

}  // namespace cubepi
