#include <cubepi/mcp/content.hpp>

#include <cubepi/core/support/base64.hpp>

namespace cubepi {

namespace {

void set_if_any(JsonObject& object, std::string_view key, const std::string& value) {
    if (!value.empty()) object[key] = value;
}

JsonObject labelled(std::string_view key, const std::string& uri, const McpResourceLabels& labels) {
    JsonObject json;
    json[key] = uri;
    json["name"] = labels.name;
    set_if_any(json, "title", labels.title);
    set_if_any(json, "description", labels.description);
    set_if_any(json, "mimeType", labels.mime_type);
    return json;
}

}  // namespace

McpResourceContent McpResourceContent::of_text(std::string uri, std::string mime_type,
                                               std::string text) {
    McpResourceContent content;
    content.uri = std::move(uri);
    content.mime_type = std::move(mime_type);
    content.text = std::move(text);
    return content;
}

McpResourceContent McpResourceContent::of_bytes(std::string uri, std::string mime_type,
                                                std::string_view bytes) {
    McpResourceContent content;
    content.uri = std::move(uri);
    content.mime_type = std::move(mime_type);
    content.blob = detail::base64(bytes);
    return content;
}

JsonObject to_json(const McpResource& resource) {
    JsonObject json = labelled("uri", resource.uri, resource);
    if (resource.size) json["size"] = *resource.size;
    return json;
}

JsonObject to_json(const McpResourceTemplate& resource_template) {
    return labelled("uriTemplate", resource_template.uri_template, resource_template);
}

JsonObject to_json(const McpResourceContent& content) {
    JsonObject json;
    json["uri"] = content.uri;
    set_if_any(json, "mimeType", content.mime_type);
    if (content.blob.empty()) {
        json["text"] = content.text;
    } else {
        json["blob"] = content.blob;
    }
    return json;
}

JsonObject to_json(const McpPrompt& prompt) {
    JsonObject json;
    json["name"] = prompt.name;
    set_if_any(json, "title", prompt.title);
    set_if_any(json, "description", prompt.description);
    if (prompt.arguments.empty()) return json;
    JsonArray arguments;
    for (const McpPromptArgument& argument : prompt.arguments) {
        JsonObject described;
        described["name"] = argument.name;
        set_if_any(described, "description", argument.description);
        described["required"] = argument.is_required;
        arguments.emplace_back(std::move(described));
    }
    json["arguments"] = std::move(arguments);
    return json;
}

JsonObject to_json(const McpPromptText& text) {
    JsonArray messages;
    for (const McpPromptMessage& message : text.messages) {
        JsonObject json;
        json["role"] = message.role;
        json["content"] = message.content;
        messages.emplace_back(std::move(json));
    }
    JsonObject json;
    set_if_any(json, "description", text.description);
    json["messages"] = std::move(messages);
    return json;
}

namespace mcp_content {

JsonObject text(std::string_view text) {
    JsonObject block;
    block["type"] = "text";
    block["text"] = text;
    return block;
}

JsonObject image(std::string_view data, std::string_view mime_type) {
    JsonObject block;
    block["type"] = "image";
    block["data"] = data;
    block["mimeType"] = mime_type;
    return block;
}

JsonObject audio(std::string_view data, std::string_view mime_type) {
    JsonObject block = image(data, mime_type);
    block["type"] = "audio";
    return block;
}

JsonObject embedded(const McpResourceContent& resource) {
    JsonObject block;
    block["type"] = "resource";
    block["resource"] = to_json(resource);
    return block;
}

JsonObject link(const McpResource& resource) {
    JsonObject block;
    block["type"] = "resource_link";
    for (const auto& member : to_json(resource)) block[member.key()] = member.value();
    return block;
}

}  // namespace mcp_content

}  // namespace cubepi
