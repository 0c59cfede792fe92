#include <cubepi/provider/wire/answer_size.hpp>

#include <utility>
#include <variant>

#include <cubepi/core/support/json_memory.hpp>
#include <cubepi/net/utf8.hpp>

namespace cubepi::detail {

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
