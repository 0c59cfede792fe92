#include <cubepi/provider/wire/answer_size.hpp>

#include <utility>
#include <variant>

#include <cubepi/net/utf8.hpp>

namespace cubepi::detail {

std::size_t json_memory(const JsonObject& object) {
    std::size_t size = 0;
    for (const auto& [key, value] : object)
        size += 2 * sizeof(void*) + key.size() + json_memory(value);
    return size;
}

std::size_t json_memory(const Json& value) {
    std::size_t size = sizeof(Json);
    if (const auto* text = value.if_string()) size += text->size();
    if (const auto* object = value.if_object()) size += json_memory(*object);
    if (const auto* array = value.if_array()) {
        for (const Json& item : *array) size += json_memory(item);
    }
    return size;
}

namespace {

struct BlockMemory {
    std::size_t operator()(const TextContent& block) const {
        return block.text.size() + json_memory(block.extra.get());
    }
    std::size_t operator()(const ThinkingContent& block) const {
        return block.thinking.size() + json_memory(block.extra.get());
    }
    std::size_t operator()(const ImageContent& block) const { return block.source.size(); }
    std::size_t operator()(const ToolCall& call) const {
        return call.id.size() + call.name.size() + json_memory(call.arguments) +
               json_memory(call.extra.get());
    }
};

}  // namespace

std::size_t block_memory(const AssistantContent& block) { return std::visit(BlockMemory(), block); }

void shorten(AssistantMessage& message, std::size_t size) {
    message.extra = LazyObject();
    ContentList<AssistantContent> retained;
    std::size_t used = 0;
    for (AssistantContent& block : message.content) {
        const std::size_t needed = block_overhead + block_memory(block);
        if (needed <= size - used) {
            used += needed;
            retained.push_back(std::move(block));
            continue;
        }
        auto* const text = std::get_if<TextContent>(&block);
        const bool plain = text && json_memory(text->extra.get()) == 0;
        if (plain && used + block_overhead < size) {
            const std::string_view first =
                std::string_view(text->text).substr(0, size - used - block_overhead);
            TextContent part;
            part.text = std::string(first.substr(0, complete_utf8_prefix(first)));
            if (!part.text.empty()) retained.emplace_back(std::move(part));
        }
        break;
    }
    message.content = std::move(retained);
}

}  // namespace cubepi::detail
