#include <cubepi/provider/prefix_guard.hpp>

#include <algorithm>
#include <string>
#include <utility>

#include <cubepi/provider/prefix/prompt_break.hpp>
#include <cubepi/provider/prefix/prompt_digest.hpp>
#include <cubepi/provider/wire/prompt_text.hpp>

namespace cubepi {

struct PrefixGuard::Sent {
    std::shared_ptr<const ToolDefinitions> tools;
    SharedString system_prompt;
    MessageList messages;
    /// Of the request of another process, in place of the members above.
    std::optional<detail::PromptDigest> digest;
};

namespace {

using detail::PromptBreak;
using detail::PromptDigest;

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

PrefixGuard::PrefixGuard() noexcept = default;
PrefixGuard::PrefixGuard(PrefixGuard&&) noexcept = default;
PrefixGuard& PrefixGuard::operator=(PrefixGuard&&) noexcept = default;
PrefixGuard::~PrefixGuard() = default;

void PrefixGuard::reset() noexcept { sent_.reset(); }

Json PrefixGuard::digest() const {
    if (!sent_) return nullptr;
    if (sent_->digest) return detail::to_json(*sent_->digest);
    return detail::to_json(
        detail::digest_of(model_, sent_->tools.get(), sent_->system_prompt.str(), sent_->messages));
}

void PrefixGuard::restore(const Json& digest) {
    if (sent_) return;
    std::optional<PromptDigest> read = detail::prompt_digest_from_json(digest);
    if (!read) return;
    model_ = read->model;
    sent_ = std::make_unique<Sent>();
    sent_->digest = std::move(read);
}

std::optional<Notice> PrefixGuard::check(const ModelRequest& request) {
    const std::uint64_t model = detail::model_fingerprint(request.model);
    const bool same_model = sent_ && model == model_;
    model_ = model;
    if (!sent_) sent_ = std::make_unique<Sent>();
    const Sent was = std::exchange(*sent_, Sent());
    sent_->tools = request.tools;
    sent_->system_prompt = request.system_prompt;
    sent_->messages = request.messages;
    if (!same_model) return std::nullopt;
    if (was.digest) {
        const std::optional<PromptBreak> at = detail::find_break(*was.digest, request);
        if (!at) return std::nullopt;
        // The sizes of the digested request are unknown. Those of this one are close.
        return notice_of(*at, request.tools.get(), request.system_prompt, request.messages,
                         request);
    }
    const std::optional<PromptBreak> at =
        detail::find_break(was.tools, was.system_prompt, was.messages, request);
    if (!at) return std::nullopt;
    return notice_of(*at, was.tools.get(), was.system_prompt, was.messages, request);
}

}  // namespace cubepi
