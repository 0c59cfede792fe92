#include <cubepi/provider/prefix_guard.hpp>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <cubepi/core/json.hpp>
#include <cubepi/core/message_list.hpp>
#include <cubepi/provider/provider.hpp>
#include <cubepi/provider/wire/encoding.hpp>

namespace cubepi {

namespace {

using detail::Fingerprint;
using detail::with_sender;

/// The key of cache markers, which are not a part of the prompt.
constexpr std::string_view cache_marker = "cache_control";

/// A digest of a prompt as the model reads it, in this order: tools, system prompt, messages.
struct PromptDigest {
    std::uint64_t model = 0;              ///< its fingerprint
    std::vector<std::string> tools = {};  ///< one fingerprint per tool
    std::string system_prompt = {};
    std::size_t message_count = 0;
    std::string messages = {};
};

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

/// Returns a fingerprint of a model and its provider, the same in every process.
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

/// Returns the fingerprint of the first `count` messages.
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

/// Returns nothing if `json` is not a digest.
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

/// Where two requests part: a tool, the system prompt, a block of a message, or somewhere in the messages.
struct PromptBreak {
    enum class Part : std::uint8_t { tools, system_prompt, messages, all_messages };
    Part part = Part::messages;
    std::size_t index = 0;  ///< of the tool or the message
    std::size_t block = 0;
    bool removed = false;
};

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

/// Compares the prompt of an earlier request with `now`. Returns nothing if `now` begins with it.
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

// Estimates the tokens after a break. Called only if there is a break.

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
               const MessageList& messages, const PromptBreak& at) {
    Sizes sizes;
    const auto count = [&](std::size_t size, bool is_behind) {
        sizes.whole += size;
        if (is_behind) sizes.behind += size;
    };
    if (tools) {
        for (std::size_t i = 0; i < tools->size(); ++i)
            count(size_of((*tools)[i]), at.part == PromptBreak::Part::tools && i >= at.index);
    }
    const bool in_tools = at.part == PromptBreak::Part::tools;
    count(system_prompt.size(), in_tools || at.part == PromptBreak::Part::system_prompt);
    for (std::size_t i = 0; i < messages.size(); ++i) {
        const bool all = at.part != PromptBreak::Part::messages || i > at.index;
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

std::string block_name(const PromptBreak& at) {
    switch (at.part) {
        case PromptBreak::Part::tools: return "tools/" + std::to_string(at.index);
        case PromptBreak::Part::system_prompt: return "system_prompt";
        case PromptBreak::Part::all_messages: return "messages";
        case PromptBreak::Part::messages: break;
    }
    return "messages/" + std::to_string(at.index) + "/content/" + std::to_string(at.block);
}

/// Returns the notice of a break. The tools, the system prompt and the messages are those of the earlier request.
Notice notice_of(const PromptBreak& at, const ToolDefinitions* tools,
                 const SharedString& system_prompt, const MessageList& messages,
                 const ModelRequest& request) {
    const Sizes sizes = sizes_of(tools, system_prompt, messages, at);
    const std::int64_t counted =
        std::max(counted_prompt(request.messages), counted_prompt(messages));
    const std::int64_t tokens = tokens_behind(sizes, counted);
    const std::string block = block_name(at);
    Notice notice;
    notice.code = "cache_prefix_break";
    notice.text = "The request does not begin with the previous one: " + block +
                  (at.removed ? " was removed" : " changed") + ". About " + std::to_string(tokens) +
                  " tokens after it cannot be read from the prompt cache.";
    notice.details["block"] = block;
    notice.details["change"] = at.removed ? "removed" : "changed";
    notice.details["tokens"] = tokens;
    if (at.part == PromptBreak::Part::messages && at.index < messages.size()) {
        notice.details["message_id"] = messages[at.index].id();
        notice.details["role"] = to_string(messages[at.index].role());
    } else if (at.part == PromptBreak::Part::tools && tools && at.index < tools->size()) {
        notice.details["tool"] = (*tools)[at.index].name.str();
    }
    return notice;
}

}  // namespace

struct PrefixGuard::Sent {
    std::shared_ptr<const ToolDefinitions> tools;
    SharedString system_prompt;
    MessageList messages;
    /// Of the request of another process, in place of the members above.
    std::optional<PromptDigest> digest;
};

PrefixGuard::PrefixGuard() noexcept = default;
PrefixGuard::PrefixGuard(PrefixGuard&&) noexcept = default;
PrefixGuard& PrefixGuard::operator=(PrefixGuard&&) noexcept = default;
PrefixGuard::~PrefixGuard() = default;

void PrefixGuard::reset() noexcept { sent_.reset(); }

Json PrefixGuard::digest() const {
    if (!sent_) return nullptr;
    if (sent_->digest) return to_json(*sent_->digest);
    return to_json(
        digest_of(model_, sent_->tools.get(), sent_->system_prompt.str(), sent_->messages));
}

void PrefixGuard::restore(const Json& digest) {
    if (sent_) return;
    std::optional<PromptDigest> read = prompt_digest_from_json(digest);
    if (!read) return;
    model_ = read->model;
    sent_ = std::make_unique<Sent>();
    sent_->digest = std::move(read);
}

std::optional<Notice> PrefixGuard::check(const ModelRequest& request) {
    const std::uint64_t model = model_fingerprint(request.model);
    const bool same_model = sent_ && model == model_;
    model_ = model;
    if (!sent_) sent_ = std::make_unique<Sent>();
    const Sent was = std::exchange(*sent_, Sent());
    sent_->tools = request.tools;
    sent_->system_prompt = request.system_prompt;
    sent_->messages = request.messages;
    if (!same_model) return std::nullopt;
    if (was.digest) {
        const std::optional<PromptBreak> at = find_break(*was.digest, request);
        if (!at) return std::nullopt;
        // The sizes of the digested request are unknown. Those of this one are close.
        return notice_of(*at, request.tools.get(), request.system_prompt, request.messages,
                         request);
    }
    const std::optional<PromptBreak> at =
        find_break(was.tools, was.system_prompt, was.messages, request);
    if (!at) return std::nullopt;
    return notice_of(*at, was.tools.get(), was.system_prompt, was.messages, request);
}

}  // namespace cubepi
