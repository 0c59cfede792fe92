#include <cubepi/provider/prefix/prompt_break.hpp>

#include <algorithm>
#include <utility>
#include <variant>

#include <cubepi/provider/wire/prompt_text.hpp>

namespace cubepi::detail {

namespace {

bool same_extra(const LazyObject& a, const LazyObject& b) {
    if (!a.find(cache_marker) && !b.find(cache_marker)) return a == b;
    LazyObject left = a;
    LazyObject right = b;
    left.erase(cache_marker);
    right.erase(cache_marker);
    return left == right;
}

bool same(const TextContent& a, const TextContent& b) {
    return a.text == b.text && same_extra(a.extra, b.extra);
}
bool same(const ImageContent& a, const ImageContent& b) {
    return a.source == b.source && a.media_type == b.media_type && same_extra(a.extra, b.extra);
}
bool same(const ThinkingContent& a, const ThinkingContent& b) {
    return a.thinking == b.thinking && same_extra(a.extra, b.extra);
}
bool same(const ToolCall& a, const ToolCall& b) {
    return a.id == b.id && a.name == b.name && a.arguments == b.arguments &&
           same_extra(a.extra, b.extra);
}

template <class Variant>
bool same_block(const Variant& a, const Variant& b) {
    if (a.index() != b.index()) return false;
    return std::visit(
        [&](const auto& one) { return same(one, std::get<std::remove_cvref_t<decltype(one)>>(b)); },
        a);
}

/// Where two lists of blocks part; empty when they are the same.
template <class Blocks>
std::optional<PromptBreak> part_of(const Blocks& was, const Blocks& now) {
    const std::size_t common = std::min(was.size(), now.size());
    for (std::size_t i = 0; i < common; ++i) {
        if (!same_block(was[i], now[i])) return PromptBreak{.block = i};
    }
    if (was.size() == now.size()) return std::nullopt;
    return PromptBreak{.block = common, .removed = now.size() < was.size()};
}

std::optional<PromptBreak> part_of(const Message& was, const Message& now) {
    if (was.is_same(now)) return std::nullopt;
    if (was.role() != now.role()) return PromptBreak{};
    if (const AssistantMessage* answer = was.assistant())
        return part_of(answer->content, now.assistant()->content);
    if (const UserMessage* user = was.user()) {
        if (user->metadata.empty() && now.user()->metadata.empty())
            return part_of(user->content, now.user()->content);
        return part_of(with_sender(*user), with_sender(*now.user()));
    }
    const ToolResultMessage& before = *was.tool_result();
    const ToolResultMessage& after = *now.tool_result();
    if (before.tool_call_id != after.tool_call_id || before.is_error != after.is_error)
        return PromptBreak{};
    return part_of(before.content, after.content);
}

std::optional<PromptBreak> part_of(const MessageList& was, const MessageList& now) {
    const std::size_t common = std::min(was.size(), now.size());
    // Lists that share their storage share what was in it: it is only ever added to.
    const bool shared = common > 0 && was.begin() == now.begin();
    for (std::size_t i = shared ? common : 0; i < common; ++i) {
        std::optional<PromptBreak> found = part_of(was[i], now[i]);
        if (!found) continue;
        found->index = i;
        return found;
    }
    if (was.size() <= now.size()) return std::nullopt;
    return PromptBreak{.index = common, .removed = true};
}

bool same_tool(const ToolDefinition& a, const ToolDefinition& b) {
    if (a.name != b.name || a.description != b.description) return false;
    if (a.parameters == b.parameters) return true;
    return a.parameters && b.parameters && *a.parameters == *b.parameters;
}

std::optional<PromptBreak> part_of(const std::shared_ptr<const ToolDefinitions>& was,
                                   const std::shared_ptr<const ToolDefinitions>& now) {
    if (was == now) return std::nullopt;
    static const ToolDefinitions none;
    const ToolDefinitions& before = was ? *was : none;
    const ToolDefinitions& after = now ? *now : none;
    const std::size_t common = std::min(before.size(), after.size());
    for (std::size_t i = 0; i < common; ++i) {
        if (!same_tool(before[i], after[i]))
            return PromptBreak{.part = PromptBreak::Part::tools, .index = i};
    }
    if (before.size() == after.size()) return std::nullopt;
    // The list of tools ends before the prompt begins: one more moves all that follows.
    return PromptBreak{
        .part = PromptBreak::Part::tools, .index = common, .removed = after.size() < before.size()};
}

}  // namespace

std::optional<PromptBreak> find_break(const std::shared_ptr<const ToolDefinitions>& tools,
                                      const SharedString& system_prompt,
                                      const MessageList& messages, const ModelRequest& now) {
    std::optional<PromptBreak> at = part_of(tools, now.tools);
    if (at) return at;
    if (system_prompt != now.system_prompt)
        return PromptBreak{.part = PromptBreak::Part::system_prompt,
                           .removed = now.system_prompt.empty()};
    return part_of(messages, now.messages);
}

std::optional<PromptBreak> find_break(const PromptDigest& was, const ModelRequest& now) {
    static const ToolDefinitions none;
    const ToolDefinitions& tools = now.tools ? *now.tools : none;
    const std::size_t common = std::min(was.tools.size(), tools.size());
    for (std::size_t i = 0; i < common; ++i) {
        if (was.tools[i] != fingerprint_of(tools[i]))
            return PromptBreak{.part = PromptBreak::Part::tools, .index = i};
    }
    const bool fewer = tools.size() < was.tools.size();
    if (tools.size() != was.tools.size())
        return PromptBreak{.part = PromptBreak::Part::tools, .index = common, .removed = fewer};
    if (was.system_prompt != fingerprint_of(std::string_view(now.system_prompt.str())))
        return PromptBreak{.part = PromptBreak::Part::system_prompt,
                           .removed = now.system_prompt.empty()};
    if (was.message_count > now.messages.size())
        return PromptBreak{.index = now.messages.size(), .removed = true};
    if (was.messages != fingerprint_of(now.messages, was.message_count))
        return PromptBreak{.part = PromptBreak::Part::all_messages};
    return std::nullopt;
}

}  // namespace cubepi::detail
