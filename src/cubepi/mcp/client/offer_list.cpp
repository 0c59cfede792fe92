#include <cubepi/mcp/client/offer_list.hpp>

#include <optional>
#include <utility>

#include <cubepi/core/error.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/net/utf8.hpp>

namespace cubepi::detail {

namespace {

constexpr std::size_t max_uri_bytes = 2048;
constexpr std::size_t max_name_bytes = 256;
constexpr std::size_t max_arguments = 64;
constexpr std::size_t max_shown_bytes = 500;
constexpr std::size_t max_problems = 20;

/// Returns true for a text that can be sent back to the server, and shown, as it is.
bool is_plain(std::string_view text, std::size_t max_bytes) {
    return !text.empty() && text.size() <= max_bytes && is_utf8(text) &&
           shown_mcp_text(text, max_bytes) == text;
}

std::string shown_member(const JsonObject& object, std::string_view key) {
    return shown_mcp_text(string_member(object, key), max_shown_bytes);
}

std::optional<McpPrompt> read_prompt(const JsonObject& json) {
    McpPrompt prompt;
    prompt.name = string_member(json, "name");
    if (!is_plain(prompt.name, max_name_bytes)) return std::nullopt;
    prompt.title = shown_member(json, "title");
    prompt.description = shown_member(json, "description");
    const JsonArray* arguments = array_member(json, "arguments");
    if (!arguments) return prompt;
    if (arguments->size() > max_arguments) return std::nullopt;
    for (const Json& entry : *arguments) {
        const JsonObject* object = entry.if_object();
        McpPromptArgument argument;
        if (object) argument.name = string_member(*object, "name");
        if (!is_plain(argument.name, max_name_bytes)) return std::nullopt;
        argument.description = shown_member(*object, "description");
        argument.is_required = flag_member(*object, "required");
        prompt.arguments.push_back(std::move(argument));
    }
    return prompt;
}

void read_labels(const JsonObject& json, McpResourceLabels& labels) {
    labels.name = shown_member(json, "name");
    labels.title = shown_member(json, "title");
    labels.description = shown_member(json, "description");
    labels.mime_type = shown_member(json, "mimeType");
}

std::optional<McpResource> read_resource(const JsonObject& json) {
    McpResource resource;
    resource.uri = string_member(json, "uri");
    if (!is_plain(resource.uri, max_uri_bytes)) return std::nullopt;
    read_labels(json, resource);
    resource.size = integer_member(json, "size");
    return resource;
}

std::optional<McpResourceTemplate> read_template(const JsonObject& json) {
    McpResourceTemplate read;
    read.uri_template = string_member(json, "uriTemplate");
    if (!is_plain(read.uri_template, max_uri_bytes)) return std::nullopt;
    read_labels(json, read);
    return read;
}

}  // namespace

template <class Entry, class Read>
std::string McpOfferReader::add(const JsonObject& page, std::string_view member,
                                std::vector<Entry>& entries, std::vector<std::string>& problems,
                                Read read) {
    const JsonArray* list = array_member(page, member);
    if (!list) throw Error(ErrorCode::protocol, "the list has no `" + std::string(member) + "`");
    const std::string what(member);
    for (const Json& json : *list) {
        if (entries.size() >= limits_.max_offers) {
            problems.push_back("only the first " + std::to_string(limits_.max_offers) + " " + what +
                               " are used (limit max_offers)");
            return {};
        }
        const JsonObject* object = json.if_object();
        std::optional<Entry> entry;
        if (object) entry = read(*object);
        if (entry) {
            entries.push_back(std::move(*entry));
        } else if (problems.size() < max_problems) {
            problems.push_back("one of the " + what + " is invalid");
        }
    }
    std::string cursor = text_member(page, "nextCursor");
    if (cursor.empty()) return {};
    if (!cursors_.insert(what + " " + cursor).second || cursors_.size() > limits_.max_offers) {
        problems.push_back("the server repeats pages of its " + what);
        return {};
    }
    return cursor;
}

std::string McpOfferReader::add_prompts(const JsonObject& page) {
    return add(page, "prompts", prompts.prompts, prompts.problems, read_prompt);
}

std::string McpOfferReader::add_resources(const JsonObject& page) {
    return add(page, "resources", resources.resources, resources.problems, read_resource);
}

std::string McpOfferReader::add_templates(const JsonObject& page) {
    return add(page, "resourceTemplates", resources.templates, resources.problems, read_template);
}

std::vector<McpResourceContent> mcp_contents_from_json(const JsonObject& result) {
    const JsonArray* list = array_member(result, "contents");
    if (!list) throw Error(ErrorCode::protocol, "the resource has no `contents`");
    std::vector<McpResourceContent> contents;
    for (const Json& entry : *list) {
        const JsonObject* object = entry.if_object();
        if (!object) throw Error(ErrorCode::protocol, "the content of the resource is invalid");
        McpResourceContent content;
        content.uri = shown_mcp_text(string_member(*object, "uri"), max_uri_bytes);
        content.mime_type = shown_member(*object, "mimeType");
        content.text = replace_broken_utf8(string_member(*object, "text"));
        content.blob = string_member(*object, "blob");
        contents.push_back(std::move(content));
    }
    return contents;
}

McpPromptText mcp_prompt_text_from_json(const JsonObject& result) {
    const JsonArray* list = array_member(result, "messages");
    if (!list) throw Error(ErrorCode::protocol, "the prompt has no `messages`");
    McpPromptText text;
    text.description = shown_member(result, "description");
    for (const Json& entry : *list) {
        const JsonObject* object = entry.if_object();
        const JsonObject* content = object ? object_member(*object, "content") : nullptr;
        if (!content) throw Error(ErrorCode::protocol, "a message of the prompt is invalid");
        McpPromptMessage message;
        message.role = string_member(*object, "role") == "assistant" ? "assistant" : "user";
        message.content = *content;
        text.messages.push_back(std::move(message));
    }
    return text;
}

}  // namespace cubepi::detail
