#include <cubepi/core/tool_result.hpp>

#include <cubepi/core/message_json.hpp>

namespace cubepi {

AgentToolResult AgentToolResult::error(std::string text) {
    AgentToolResult result(std::move(text));
    result.is_error = true;
    return result;
}

std::string AgentToolResult::text() const {
    std::string joined;
    for (const Content& block : content) {
        if (const auto* part = std::get_if<TextContent>(&block)) joined += part->text;
    }
    return joined;
}

JsonObject to_json(const AgentToolResult& result) {
    JsonArray content;
    content.reserve(result.content.size());
    for (const Content& block : result.content) content.emplace_back(to_json(block));
    JsonObject json;
    json["content"] = std::move(content);
    json["details"] = result.details;
    json["is_error"] = result.is_error ? Json(*result.is_error) : Json(nullptr);
    json["terminate"] = result.terminate ? Json(*result.terminate) : Json(nullptr);
    return json;
}

}  // namespace cubepi
