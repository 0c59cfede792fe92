#include <cubepi/provider/prefix/prompt_digest.hpp>

#include <charconv>
#include <utility>
#include <variant>

#include <cubepi/provider/wire/fingerprint.hpp>
#include <cubepi/provider/wire/prompt_text.hpp>

namespace cubepi::detail {

namespace {

void add(Fingerprint& hash, const LazyObject& extra) {
    if (extra.empty()) return;
    JsonObject unmarked = extra.get();
    unmarked.erase(cache_marker);
    if (!unmarked.empty()) hash.add(boost::json::serialize(unmarked));
}

void add(Fingerprint& hash, const TextContent& block) {
    hash.add("text");
    hash.add(block.text);
    add(hash, block.extra);
}
void add(Fingerprint& hash, const ImageContent& block) {
    hash.add("image");
    hash.add(block.source);
    hash.add(block.media_type);
    add(hash, block.extra);
}
void add(Fingerprint& hash, const ThinkingContent& block) {
    hash.add("thinking");
    hash.add(block.thinking);
    add(hash, block.extra);
}
void add(Fingerprint& hash, const ToolCall& block) {
    hash.add("toolCall");
    hash.add(block.id.str());
    hash.add(block.name.str());
    hash.add(boost::json::serialize(block.arguments));
    add(hash, block.extra);
}

template <class Blocks>
void add_blocks(Fingerprint& hash, const Blocks& blocks) {
    for (const auto& block : blocks)
        std::visit([&hash](const auto& one) { add(hash, one); }, block);
}

void add(Fingerprint& hash, const Message& message) {
    hash.add(to_string(message.role()));
    if (const AssistantMessage* answer = message.assistant())
        return add_blocks(hash, answer->content);
    if (const UserMessage* user = message.user()) return add_blocks(hash, with_sender(*user));
    const ToolResultMessage& result = *message.tool_result();
    hash.add(result.tool_call_id.str());
    hash.add(result.is_error ? "error" : "ok");
    add_blocks(hash, result.content);
}

}  // namespace

std::uint64_t model_fingerprint(const Model& model) {
    Fingerprint hash;
    hash.add(model.provider_id);
    hash.add(model.id);
    return hash.value();
}

std::string fingerprint_of(const ToolDefinition& tool) {
    Fingerprint hash;
    hash.add(std::string_view(tool.name));
    hash.add(std::string_view(tool.description));
    if (tool.parameters) hash.add(boost::json::serialize(*tool.parameters));
    return hash.text();
}

std::string fingerprint_of(std::string_view text) {
    Fingerprint hash;
    hash.add(text);
    return hash.text();
}

std::string fingerprint_of(const MessageList& messages, std::size_t count) {
    Fingerprint hash;
    for (std::size_t i = 0; i < count; ++i) add(hash, messages[i]);
    return hash.text();
}

PromptDigest digest_of(std::uint64_t model, const ToolDefinitions* tools,
                       std::string_view system_prompt, const MessageList& messages) {
    PromptDigest digest;
    digest.model = model;
    if (tools) {
        for (const ToolDefinition& tool : *tools) digest.tools.push_back(fingerprint_of(tool));
    }
    digest.system_prompt = fingerprint_of(system_prompt);
    digest.message_count = messages.size();
    digest.messages = fingerprint_of(messages, messages.size());
    return digest;
}

JsonObject to_json(const PromptDigest& digest) {
    JsonArray tools;
    for (const std::string& tool : digest.tools) tools.emplace_back(tool);
    // As text: a number of JSON may have only 53 bits.
    return {{"model", std::to_string(digest.model)},
            {"tools", std::move(tools)},
            {"system_prompt", digest.system_prompt},
            {"message_count", static_cast<std::int64_t>(digest.message_count)},
            {"messages", digest.messages}};
}

std::optional<PromptDigest> prompt_digest_from_json(const Json& json) {
    const JsonObject* object = json.if_object();
    if (!object) return std::nullopt;
    const auto text_at = [object](std::string_view key) {
        const Json* value = object->if_contains(key);
        return value && value->is_string() ? std::string(value->get_string()) : std::string();
    };
    const Json* tools = object->if_contains("tools");
    const Json* value = object->if_contains("message_count");
    const std::int64_t* count = value ? value->if_int64() : nullptr;
    if (!tools || !tools->is_array() || !count || *count < 0) return std::nullopt;
    PromptDigest digest;
    const std::string model = text_at("model");
    std::from_chars(model.data(), model.data() + model.size(), digest.model);
    for (const Json& tool : tools->get_array()) {
        if (!tool.is_string()) return std::nullopt;
        digest.tools.emplace_back(tool.get_string());
    }
    digest.system_prompt = text_at("system_prompt");
    digest.message_count = static_cast<std::size_t>(*count);
    digest.messages = text_at("messages");
    return digest;
}

}  // namespace cubepi::detail
