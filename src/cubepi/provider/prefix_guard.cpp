#include <cubepi/provider/prefix_guard.hpp>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include <cubepi/provider/wire/prompt_text.hpp>

namespace cubepi {

struct PrefixGuard::Sent {
    std::shared_ptr<const ToolDefinitions> tools;
    SharedString system_prompt;
    MessageList messages;
};

namespace {

constexpr std::string_view marker = "cache_control";

/// Where two requests part: a tool, the system prompt, or a block of a message.
struct Break {
    enum class Part : std::uint8_t { tools, system_prompt, messages };
    Part part = Part::messages;
    std::size_t index = 0;  ///< of the tool or the message
    std::size_t block = 0;
    bool removed = false;
};

std::size_t model_of(const ModelRequest& request) {
    const std::hash<std::string> hash;
    return hash(request.model.id) * 31 + hash(request.model.provider_id);
}

bool same_extra(const LazyObject& a, const LazyObject& b) {
    if (!a.find(marker) && !b.find(marker)) return a == b;
    LazyObject left = a;
    LazyObject right = b;
    left.erase(marker);
    right.erase(marker);
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
std::optional<Break> part_of(const Blocks& was, const Blocks& now) {
    const std::size_t common = std::min(was.size(), now.size());
    for (std::size_t i = 0; i < common; ++i) {
        if (!same_block(was[i], now[i])) return Break{.block = i};
    }
    if (was.size() == now.size()) return std::nullopt;
    return Break{.block = common, .removed = now.size() < was.size()};
}

std::optional<Break> part_of(const Message& was, const Message& now) {
    if (was.is_same(now)) return std::nullopt;
    if (was.role() != now.role()) return Break{};
    if (const AssistantMessage* answer = was.assistant())
        return part_of(answer->content, now.assistant()->content);
    if (const UserMessage* user = was.user()) {
        if (user->metadata.empty() && now.user()->metadata.empty())
            return part_of(user->content, now.user()->content);
        return part_of(detail::with_sender(*user), detail::with_sender(*now.user()));
    }
    const ToolResultMessage& before = *was.tool_result();
    const ToolResultMessage& after = *now.tool_result();
    if (before.tool_call_id != after.tool_call_id || before.is_error != after.is_error)
        return Break{};
    return part_of(before.content, after.content);
}

std::optional<Break> part_of(const MessageList& was, const MessageList& now) {
    const std::size_t common = std::min(was.size(), now.size());
    // Lists that share their storage share what was in it: it is only ever added to.
    const bool shared = common > 0 && was.begin() == now.begin();
    for (std::size_t i = shared ? common : 0; i < common; ++i) {
        std::optional<Break> found = part_of(was[i], now[i]);
        if (!found) continue;
        found->index = i;
        return found;
    }
    if (was.size() <= now.size()) return std::nullopt;
    return Break{.index = common, .removed = true};
}

bool same_tool(const ToolDefinition& a, const ToolDefinition& b) {
    if (a.name != b.name || a.description != b.description) return false;
    if (a.parameters == b.parameters) return true;
    return a.parameters && b.parameters && *a.parameters == *b.parameters;
}

std::optional<Break> part_of(const std::shared_ptr<const ToolDefinitions>& was,
                             const std::shared_ptr<const ToolDefinitions>& now) {
    if (was == now) return std::nullopt;
    static const ToolDefinitions none;
    const ToolDefinitions& before = was ? *was : none;
    const ToolDefinitions& after = now ? *now : none;
    const std::size_t common = std::min(before.size(), after.size());
    for (std::size_t i = 0; i < common; ++i) {
        if (!same_tool(before[i], after[i])) return Break{.part = Break::Part::tools, .index = i};
    }
    if (before.size() == after.size()) return std::nullopt;
    // The list of tools ends before the prompt begins: one more moves all that follows.
    return Break{
        .part = Break::Part::tools, .index = common, .removed = after.size() < before.size()};
}

// How many tokens are behind a break. Only asked when there is one.

std::size_t size_of(const ToolDefinition& tool) {
    return tool.name.size() + tool.description.size() +
           (tool.parameters ? boost::json::serialize(*tool.parameters).size() : 0);
}
std::size_t size_of(const TextContent& text) { return text.text.size(); }
// An image counts by its pixels, not its bytes: about 1,500 tokens for a usual one.
std::size_t size_of(const ImageContent&) { return 6'000; }
std::size_t size_of(const ThinkingContent& part) { return part.thinking.size(); }
std::size_t size_of(const ToolCall& call) {
    return call.name.size() + boost::json::serialize(call.arguments).size();
}

template <class Blocks>
std::size_t size_of_blocks(const Blocks& blocks, std::size_t from) {
    std::size_t size = 0;
    for (std::size_t i = from; i < blocks.size(); ++i)
        size += std::visit([](const auto& block) { return size_of(block); }, blocks[i]);
    return size;
}

std::size_t size_of(const Message& message, std::size_t from_block) {
    if (const AssistantMessage* answer = message.assistant())
        return size_of_blocks(answer->content, from_block);
    if (const UserMessage* user = message.user()) return size_of_blocks(user->content, from_block);
    return size_of_blocks(message.tool_result()->content, from_block);
}

struct Sizes {
    std::size_t whole = 0;
    std::size_t behind = 0;
};

Sizes sizes_of(const ToolDefinitions* tools, const SharedString& system_prompt,
               const MessageList& messages, const Break& at) {
    Sizes sizes;
    const auto count = [&](std::size_t size, bool is_behind) {
        sizes.whole += size;
        if (is_behind) sizes.behind += size;
    };
    if (tools) {
        for (std::size_t i = 0; i < tools->size(); ++i)
            count(size_of((*tools)[i]), at.part == Break::Part::tools && i >= at.index);
    }
    count(system_prompt.size(), at.part != Break::Part::messages);
    for (std::size_t i = 0; i < messages.size(); ++i) {
        const bool all = at.part != Break::Part::messages || i > at.index;
        const bool half = !all && i == at.index;
        count(size_of(messages[i], 0), all);
        if (half) sizes.behind += size_of(messages[i], at.block);
    }
    return sizes;
}

/// Tokens of the prompt that the endpoint counted last; 0: not known.
std::int64_t counted_prompt(const MessageList& messages) {
    for (std::size_t i = messages.size(); i > 0; --i) {
        const AssistantMessage* answer = messages[i - 1].assistant();
        if (!answer || !answer->usage || !answer->usage->input_tokens) continue;
        const Usage& usage = *answer->usage;
        return *usage.input_tokens + usage.cache_read_tokens.value_or(0) +
               usage.cache_write_tokens.value_or(0);
    }
    return 0;
}

std::int64_t tokens_behind(const Sizes& sizes, std::int64_t counted) {
    if (sizes.whole == 0) return 0;
    if (counted == 0) return static_cast<std::int64_t>(sizes.behind / 4);
    const double share = static_cast<double>(sizes.behind) / static_cast<double>(sizes.whole);
    return static_cast<std::int64_t>(share * static_cast<double>(counted));
}

std::string block_name(const Break& at) {
    switch (at.part) {
        case Break::Part::tools: return "tools/" + std::to_string(at.index);
        case Break::Part::system_prompt: return "system_prompt";
        case Break::Part::messages: break;
    }
    return "messages/" + std::to_string(at.index) + "/content/" + std::to_string(at.block);
}

}  // namespace

PrefixGuard::PrefixGuard() noexcept = default;
PrefixGuard::PrefixGuard(PrefixGuard&&) noexcept = default;
PrefixGuard& PrefixGuard::operator=(PrefixGuard&&) noexcept = default;
PrefixGuard::~PrefixGuard() = default;

void PrefixGuard::reset() noexcept { sent_.reset(); }

std::optional<Notice> PrefixGuard::check(const ModelRequest& request) {
    const std::size_t model = model_of(request);
    const bool same_model = sent_ && model == model_;
    model_ = model;
    if (!sent_) sent_ = std::make_unique<Sent>();
    const Sent was = std::move(*sent_);
    sent_->tools = request.tools;
    sent_->system_prompt = request.system_prompt;
    sent_->messages = request.messages;
    if (!same_model) return std::nullopt;

    std::optional<Break> at = part_of(was.tools, request.tools);
    if (!at && was.system_prompt != request.system_prompt)
        at = Break{.part = Break::Part::system_prompt, .removed = request.system_prompt.empty()};
    if (!at) at = part_of(was.messages, request.messages);
    if (!at) return std::nullopt;

    const Sizes sizes = sizes_of(was.tools.get(), was.system_prompt, was.messages, *at);
    const std::int64_t counted =
        std::max(counted_prompt(request.messages), counted_prompt(was.messages));
    const std::int64_t tokens = tokens_behind(sizes, counted);
    const std::string block = block_name(*at);
    Notice notice;
    notice.code = "cache_prefix_break";
    notice.text = "The request does not begin with the previous one: " + block +
                  (at->removed ? " was removed" : " changed") + ". About " +
                  std::to_string(tokens) + " tokens after it cannot be read from the prompt cache.";
    notice.details["block"] = block;
    notice.details["change"] = at->removed ? "removed" : "changed";
    notice.details["tokens"] = tokens;
    if (at->part == Break::Part::messages && at->index < was.messages.size()) {
        notice.details["message_id"] = was.messages[at->index].id();
        notice.details["role"] = to_string(was.messages[at->index].role());
    } else if (at->part == Break::Part::tools && was.tools && at->index < was.tools->size()) {
        notice.details["tool"] = (*was.tools)[at->index].name.str();
    }
    return notice;
}

}  // namespace cubepi
