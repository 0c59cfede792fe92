#include <cubepi/mcp/server/server_tool.hpp>

#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include <cubepi/core/support/json_member.hpp>
#include <cubepi/schema/json_text.hpp>

namespace cubepi::detail {

namespace {

JsonObject content_block(const Content& content) {
    JsonObject block;
    if (const auto* text = std::get_if<TextContent>(&content)) {
        block["type"] = "text";
        block["text"] = text->text;
        return block;
    }
    const ImageContent& image = std::get<ImageContent>(content);
    if (image.source.starts_with("http://") || image.source.starts_with("https://")) {
        block["type"] = "resource_link";
        block["uri"] = image.source;
        block["name"] = "image";
        return block;
    }
    block["type"] = "image";
    block["data"] = image.source;
    block["mimeType"] = image.media_type.str();
    return block;
}

JsonObject result_of(const ToolResultMessage& message) {
    JsonArray content;
    for (const Content& block : message.content) content.emplace_back(content_block(block));
    JsonObject result;
    result["content"] = std::move(content);
    if (message.is_error) result["isError"] = true;
    return result;
}

/// Returns the block as an agent sees it.
Content agent_content(const JsonObject& block) {
    const std::string_view type = string_member(block, "type");
    if (type == "image") {
        ImageContent image;
        image.source = string_member(block, "data");
        image.media_type = SharedString(text_member(block, "mimeType"));
        return image;
    }
    if (type == "text") return TextContent{text_member(block, "text")};
    if (type == "resource") {
        const JsonObject* resource = object_member(block, "resource");
        if (resource && resource->contains("text"))
            return TextContent{text_member(*resource, "text")};
    }
    return TextContent{"[" + std::string(type) + "]"};
}

}  // namespace

AgentTool ServerToolRun::bind(const McpServerTool& tool, McpRequest& request) {
    AgentTool bound = tool.definition;
    bound.execute = [this, &tool, &request](JsonObject arguments, ToolContext& context) {
        return MaybeTask<AgentToolResult>(run(&tool, std::move(arguments), &context, &request));
    };
    return bound;
}

Task<AgentToolResult> ServerToolRun::run(const McpServerTool* tool, JsonObject arguments,
                                         ToolContext* context, McpRequest* request) {
    McpToolResult own;
    try {
        own = co_await tool->run(std::move(arguments), *context, *request);
    } catch (const McpRequestError& error) {
        failure_ = error;
        throw;
    }
    // Clients that do not read the structured form need it as text.
    if (own.structured && own.content.empty())
        own.content.push_back(mcp_content::text(json_text(Json(*own.structured))));
    AgentToolResult result;
    for (const JsonObject& block : own.content) result.content.push_back(agent_content(block));
    if (own.is_error) result.is_error = true;
    converted_ = result.content;
    own_ = std::move(own);
    co_return result;
}

JsonObject ServerToolRun::result(const ToolResultMessage& message) const {
    if (failure_) throw McpRequestError(*failure_);
    if (!own_ || message.content != converted_ || message.is_error != own_->is_error)
        return result_of(message);
    JsonArray content;
    for (const JsonObject& block : own_->content) content.emplace_back(block);
    JsonObject result;
    result["content"] = std::move(content);
    if (own_->structured) result["structuredContent"] = *own_->structured;
    if (own_->is_error) result["isError"] = true;
    return result;
}

}  // namespace cubepi::detail
