#include <cubepi/checkpoint/format/message_row.hpp>

#include <utility>

#include <cubepi/checkpoint/format/msgpack.hpp>
#include <cubepi/checkpoint/format/server_json.hpp>
#include <cubepi/checkpoint/format/stored_json.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/message_json.hpp>
#include <cubepi/schema/python_json.hpp>

namespace cubepi::detail {

namespace {

constexpr std::string_view empty_object = "{}";

const char* role_name(Role role) {
    switch (role) {
        case Role::user: return "user";
        case Role::assistant: return "assistant";
        case Role::tool_result: return "tool";
    }
    return "user";
}

bool is_empty_object(const Json* value) {
    return !value || (value->is_object() && value->get_object().empty());
}

}  // namespace

MessageRow to_message_row(const std::string& thread_id, const Message& message) {
    const JsonObject json = to_json(message);
    refuse_too_deep(thread_id, "a message", json);
    MessageRow row;
    row.role = role_name(message.role());
    const Json* metadata = json.if_contains("metadata");
    row.metadata = metadata ? server_json_text(*metadata) : std::string(empty_object);
    append_msgpack(row.payload, json);
    row.run_id = server_text(message.run_id().str());
    row.message_id = server_text(message.id());
    return row;
}

Message read_message_row(std::string_view payload, std::string_view metadata) {
    Json json = parse_msgpack(payload);
    if (!json.is_object()) throw Error(ErrorCode::validation, "the payload is not a map");
    JsonObject& object = json.get_object();
    const Json* stored = object.if_contains("metadata");
    if (metadata != empty_object || !is_empty_object(stored)) {
        Json column = parse_lenient(metadata);
        if (!stored || !is_server_json_of(column, *stored)) object["metadata"] = std::move(column);
    }
    return message_from_json(json);
}

}  // namespace cubepi::detail
