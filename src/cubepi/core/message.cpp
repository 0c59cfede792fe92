#include <cubepi/core/message.hpp>

#include <array>
#include <cassert>
#include <new>
#include <type_traits>
#include <utility>

#include <cubepi/core/message_json.hpp>

namespace cubepi {

SharedString stop_reason::shared(std::string_view reason) {
    static const std::array<SharedString, 5> known{SharedString(stop), SharedString(tool_use),
                                                   SharedString(length), SharedString(error),
                                                   SharedString(aborted)};
    for (const SharedString& one : known) {
        if (one == reason) return one;
    }
    return SharedString(reason);
}

std::string_view to_string(Role role) noexcept {
    switch (role) {
        case Role::user: return "user";
        case Role::assistant: return "assistant";
        case Role::tool_result: return "tool_result";
    }
    return "user";
}

Usage& Usage::operator+=(const Usage& other) noexcept {
    const auto add = [](TokenCount& to, TokenCount from) {
        if (from) to = TokenCount(to.value_or(0) + *from);
    };
    add(input_tokens, other.input_tokens);
    add(output_tokens, other.output_tokens);
    add(cache_read_tokens, other.cache_read_tokens);
    add(cache_write_tokens, other.cache_write_tokens);
    add(reasoning_tokens, other.reasoning_tokens);
    add(cache_write_1h_tokens, other.cache_write_1h_tokens);
    return *this;
}

namespace {

template <class Blocks>
std::string joined_text(const Blocks& blocks) {
    std::string text;
    for (const auto& block : blocks) {
        if (const auto* part = std::get_if<TextContent>(&block)) text += part->text;
    }
    return text;
}

}  // namespace

std::string AssistantMessage::text() const { return joined_text(content); }

bool AssistantMessage::has_tool_calls() const noexcept {
    for (const AssistantContent& block : content) {
        if (std::holds_alternative<ToolCall>(block)) return true;
    }
    return false;
}

std::vector<const ToolCall*> AssistantMessage::tool_calls() const {
    std::vector<const ToolCall*> calls;
    for (const AssistantContent& block : content) {
        if (const auto* call = std::get_if<ToolCall>(&block)) calls.push_back(call);
    }
    return calls;
}

bool AssistantMessage::is_refusal() const {
    if (stop_reason == "refusal" || stop_reason == "content_filter") return true;
    for (const AssistantContent& block : content) {
        const auto* text = std::get_if<TextContent>(&block);
        const Json* refusal = text ? text->extra.find("refusal") : nullptr;
        if (refusal && *refusal == Json(true)) return true;
    }
    return false;
}

struct Message::Rep {
    explicit Rep(Role r) : role(r) {}
    mutable detail::RefCount refs;
    Role role;
};

namespace {

template <class T, Role R>
struct Holder : Message::Rep {
    explicit Holder(T&& v) : Rep(R), value(std::move(v)) {}
    T value;
};

using UserRep = Holder<UserMessage, Role::user>;
using AssistantRep = Holder<AssistantMessage, Role::assistant>;
using ToolResultRep = Holder<ToolResultMessage, Role::tool_result>;

template <class Holder>
void destroy(const Message::Rep* rep) noexcept {
    const auto* const holder = static_cast<const Holder*>(rep);
    holder->~Holder();
    ::operator delete(const_cast<Holder*>(holder));
}

}  // namespace

template <class F>
auto Message::visit(F&& f) const {
    assert(rep_ && "an empty Message has no content");
    switch (rep_->role) {
        case Role::user: return f(static_cast<const UserRep*>(rep_)->value);
        case Role::assistant: return f(static_cast<const AssistantRep*>(rep_)->value);
        case Role::tool_result: break;
    }
    return f(static_cast<const ToolResultRep*>(rep_)->value);
}

/// Allocates one block of memory for the message and its blocks.
template <class Holder, class M>
const Message::Rep* Message::make(M&& message) {
    auto blocks = std::move(message.content);
    using Block = typename decltype(blocks)::value_type;
    static_assert(alignof(Block) <= alignof(Holder));
    void* const memory = ::operator new(sizeof(Holder) + blocks.size() * sizeof(Block));
    auto* const made = ::new (memory) Holder(std::forward<M>(message));
    made->value.content.take_into(blocks, made + 1);
    // The caller's list keeps its capacity, for its next message. NOLINTNEXTLINE(bugprone-use-after-move)
    message.content = std::move(blocks);
    return made;
}

Message::Message(UserMessage&& message) : rep_(make<UserRep>(std::move(message))) {}
Message::Message(AssistantMessage&& message) : rep_(make<AssistantRep>(std::move(message))) {}
Message::Message(ToolResultMessage&& message) : rep_(make<ToolResultRep>(std::move(message))) {}

/// Lets `f` change the content if no other Message shares it.
template <class F>
bool Message::edit_unshared(F&& f) {
    if (!rep_->refs.is_one()) return false;
    visit([&](const auto& m) { f(const_cast<std::remove_cvref_t<decltype(m)>&>(m)); });
    return true;
}

void Message::retain() const noexcept { rep_->refs.retain(); }

void Message::release() noexcept {
    if (!rep_->refs.release()) return;
    switch (rep_->role) {
        case Role::user: destroy<UserRep>(rep_); break;
        case Role::assistant: destroy<AssistantRep>(rep_); break;
        case Role::tool_result: destroy<ToolResultRep>(rep_); break;
    }
}

Role Message::role() const noexcept {
    assert(rep_);
    return rep_->role;
}

const UserMessage* Message::user() const noexcept {
    return rep_ && rep_->role == Role::user ? &static_cast<const UserRep*>(rep_)->value : nullptr;
}

const AssistantMessage* Message::assistant() const noexcept {
    return rep_ && rep_->role == Role::assistant ? &static_cast<const AssistantRep*>(rep_)->value
                                                 : nullptr;
}

const ToolResultMessage* Message::tool_result() const noexcept {
    return rep_ && rep_->role == Role::tool_result ? &static_cast<const ToolResultRep*>(rep_)->value
                                                   : nullptr;
}

const std::string& Message::id() const noexcept {
    return *visit([](const auto& m) { return &m.id; });
}

const SharedString& Message::run_id() const noexcept {
    return *visit([](const auto& m) { return &m.run_id; });
}

UnixTime Message::timestamp() const noexcept {
    return visit([](const auto& m) { return m.timestamp; });
}

const LazyObject& Message::metadata() const noexcept {
    return *visit([](const auto& m) { return &m.metadata; });
}

std::string Message::text() const {
    return visit([](const auto& m) { return joined_text(m.content); });
}

Message Message::with_id(std::string id) && {
    if (edit_unshared([&](auto& m) { m.id = std::move(id); })) return std::move(*this);
    return std::as_const(*this).with_id(std::move(id));
}

Message Message::with_run_id(SharedString run_id) && {
    if (edit_unshared([&](auto& m) { m.run_id = std::move(run_id); })) return std::move(*this);
    return std::as_const(*this).with_run_id(std::move(run_id));
}

Message Message::with_timestamp(double timestamp) && {
    if (edit_unshared([&](auto& m) { m.timestamp = timestamp; })) return std::move(*this);
    return std::as_const(*this).with_timestamp(timestamp);
}

Message Message::with_timestamp(double timestamp) const& {
    return visit([&](auto m) {
        m.timestamp = timestamp;
        return Message(std::move(m));
    });
}

Message Message::with_id(std::string id) const& {
    return visit([&](auto m) {
        m.id = std::move(id);
        return Message(std::move(m));
    });
}

Message Message::with_run_id(SharedString run_id) const& {
    return visit([&](auto m) {
        m.run_id = std::move(run_id);
        return Message(std::move(m));
    });
}

bool operator==(const Message& a, const Message& b) {
    if (a.rep_ == b.rep_) return true;
    if (!a.rep_ || !b.rep_ || a.role() != b.role()) return false;
    switch (a.role()) {
        case Role::user: return *a.user() == *b.user();
        case Role::assistant: return *a.assistant() == *b.assistant();
        case Role::tool_result: return *a.tool_result() == *b.tool_result();
    }
    return false;
}

Message user_message(std::string text, std::string id) {
    UserMessage message;
    message.content.emplace_back(TextContent{std::move(text)});
    message.id = std::move(id);
    return message;
}

Message user_message(std::string text, ContentList<Content> blocks) {
    UserMessage message;
    message.content.reserve(blocks.size() + 1);
    message.content.emplace_back(TextContent{std::move(text)});
    for (Content& block : blocks) message.content.push_back(std::move(block));
    return message;
}

ImageContent image_url(std::string url) {
    if (!url.starts_with("http://") && !url.starts_with("https://")) {
        throw Error(ErrorCode::invalid_argument,
                    "image_url(): '" + url.substr(0, 40) +
                        "' is not an http(s) URL; pass the bytes of a file to image_bytes()");
    }
    ImageContent image;
    image.source = std::move(url);
    return image;
}

ImageContent image_bytes(std::string_view bytes, std::string media_type) {
    constexpr std::string_view digits =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    ImageContent image;
    image.media_type = std::move(media_type);
    image.source.reserve((bytes.size() + 2) / 3 * 4);
    for (std::size_t i = 0; i < bytes.size(); i += 3) {
        std::uint32_t group = 0;
        for (std::size_t k = 0; k < 3; ++k) {
            const auto byte = i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0u;
            group = group << 8u | byte;
        }
        for (std::size_t k = 0; k < 4; ++k) {
            const bool is_padding = i + k > bytes.size();
            image.source += is_padding ? '=' : digits[group >> (18u - 6u * k) & 63u];
        }
    }
    return image;
}

Message synthetic_user_message(std::string text, std::string_view source) {
    UserMessage message;
    message.content.emplace_back(TextContent{std::move(text)});
    message.metadata["synthetic"] = true;
    message.metadata["synthetic_source"] = source;
    return message;
}

bool is_synthetic_message(const Message& message) noexcept {
    const Json* mark = message.metadata().find("synthetic");
    return mark && mark->is_bool() && mark->get_bool();
}

AgentToolResult AgentToolResult::error(std::string text) {
    AgentToolResult result(std::move(text));
    result.is_error = true;
    return result;
}

std::string AgentToolResult::text() const {
    std::string joined;
    for (const Content& block : content) {
        if (const auto* part = std::get_if<TextContent>(&block)) joined += part->text;
    }
    return joined;
}

JsonObject to_json(const AgentToolResult& result) {
    JsonArray content;
    content.reserve(result.content.size());
    for (const Content& block : result.content) content.emplace_back(to_json(block));
    JsonObject json;
    json["content"] = std::move(content);
    json["details"] = result.details;
    json["is_error"] = result.is_error ? Json(*result.is_error) : Json(nullptr);
    json["terminate"] = result.terminate ? Json(*result.terminate) : Json(nullptr);
    return json;
}

}  // namespace cubepi
