#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <cubepi/core/compact_values.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/json.hpp>
#include <cubepi/core/shared_string.hpp>
#include <cubepi/core/usage.hpp>

namespace cubepi {

// Content blocks. `extra` holds data that the block's type does not name: provider bytes that must round-trip
// (signatures, encrypted reasoning, item ids; D13) and keys of a newer writer. It is stored with the block.

/// A piece of text.
struct TextContent {
    std::string text = {};
    LazyObject extra = {};
    friend bool operator==(const TextContent&, const TextContent&) = default;
};

/// An image: its bytes or its URL.
struct ImageContent {
    std::string source = {};       ///< base64 without a data-URI prefix, or an http(s) URL
    SharedString media_type = {};  ///< "image/png"
    LazyObject extra = {};
    friend bool operator==(const ImageContent&, const ImageContent&) = default;
};

/// A model's reasoning before its answer, as far as the endpoint exposes it. `extra` has the signature that the
/// endpoint requires to accept it back.
struct ThinkingContent {
    std::string thinking = {};
    LazyObject extra = {};
    friend bool operator==(const ThinkingContent&, const ThinkingContent&) = default;
};

/// A tool call requested by the model. Arguments that did not parse are stored in `extra["raw_arguments"]`, with
/// `arguments` empty (D4).
struct ToolCall {
    SharedString id = {};
    SharedString name = {};
    JsonObject arguments = {};
    LazyObject extra = {};
    friend bool operator==(const ToolCall&, const ToolCall&) = default;
};

/// A content block of a user message or a tool result.
using Content = std::variant<TextContent, ImageContent>;
/// A content block of an assistant message.
using AssistantContent = std::variant<TextContent, ThinkingContent, ToolCall, ImageContent>;

/// The stop reasons that the loop handles. Others are passed through unchanged.
namespace stop_reason {
inline constexpr std::string_view stop = "stop";
inline constexpr std::string_view tool_use = "tool_use";
inline constexpr std::string_view length = "length";
inline constexpr std::string_view error = "error";
inline constexpr std::string_view aborted = "aborted";
/// Returns the shared form of `reason`: of one of the above without an allocation, of another text with one.
SharedString shared(std::string_view reason);
}  // namespace stop_reason

/// The author of a message; determined by the message's type.
enum class Role : std::uint8_t { user, assistant, tool_result };
std::string_view to_string(Role role) noexcept;

// Messages. Fields and their order are those of the stored JSON (docs/decisions.md, D41). An empty id, run id or
// response id means that there is none. `timestamp` is Unix time in seconds.

/// A message of the user, or of the framework on the user's behalf.
struct UserMessage {
    ContentList<Content> content = {};
    std::string id = {};
    UnixTime timestamp = {};
    LazyObject metadata = {};
    SharedString run_id = {};
    LazyObject extra = {};
    friend bool operator==(const UserMessage&, const UserMessage&) = default;
};

/// A model's answer. If the answer was interrupted, it has the partial content and the reason.
struct AssistantMessage {
    ContentList<AssistantContent> content = {};
    std::string id = {};
    SharedString stop_reason = stop_reason::shared(stop_reason::stop);
    SharedString error_message = {};    ///< empty: no error
    SharedValue<ErrorInfo> error = {};  ///< the typed form of error_message (D9)
    std::optional<Usage> usage = {};
    UnixTime timestamp = {};
    SharedString provider_id = {};
    SharedString model_id = {};
    SharedString response_id = {};
    LazyObject metadata = {};
    SharedString run_id = {};
    LazyObject extra = {};

    /// Returns the text blocks, joined.
    std::string text() const;
    bool has_tool_calls() const noexcept;
    /// Returns the calls in the order of the message; valid as long as this message.
    std::vector<const ToolCall*> tool_calls() const;
    /// Returns true if the endpoint or the model refused to answer: the stop reason is "refusal" or "content_filter",
    /// or a text block is marked as a refusal.
    bool is_refusal() const;
    friend bool operator==(const AssistantMessage&, const AssistantMessage&) = default;
};

/// The result or the error of a tool call. `details` is for the program; the model sees only `content`.
struct ToolResultMessage {
    SharedString tool_call_id = {};
    SharedString tool_name = {};
    ContentList<Content> content = {};
    Json details = {};
    bool is_error = false;
    std::string id = {};
    UnixTime timestamp = {};
    LazyObject metadata = {};
    SharedString run_id = {};
    LazyObject extra = {};
    friend bool operator==(const ToolResultMessage&, const ToolResultMessage&) = default;
};

/// One message of a conversation: an immutable value of one word. Copies share the content, so lists of messages,
/// events and stores never copy texts, and stored messages cannot change later (D22). Copies may be read from different
/// threads. A default-constructed Message is empty and may only be assigned to or destroyed.
class Message {
public:
    Message() noexcept = default;
    /// The moved-from message keeps the memory of its blocks for reuse.
    Message(UserMessage&& message);
    Message(AssistantMessage&& message);
    Message(ToolResultMessage&& message);
    Message(const UserMessage& message) : Message(UserMessage(message)) {}
    Message(const AssistantMessage& message) : Message(AssistantMessage(message)) {}
    Message(const ToolResultMessage& message) : Message(ToolResultMessage(message)) {}
    Message(const Message& other) noexcept : rep_(other.rep_) {
        if (rep_) retain();
    }
    Message(Message&& other) noexcept : rep_(other.rep_) { other.rep_ = nullptr; }
    Message& operator=(Message other) noexcept {
        std::swap(rep_, other.rep_);
        return *this;
    }
    ~Message() {
        if (rep_) release();
    }

    explicit operator bool() const noexcept { return rep_ != nullptr; }
    Role role() const noexcept;
    /// Returns the message as its type, or null if it has another role. Valid while any copy exists.
    const UserMessage* user() const noexcept;
    const AssistantMessage* assistant() const noexcept;
    const ToolResultMessage* tool_result() const noexcept;

    const std::string& id() const noexcept;
    const SharedString& run_id() const noexcept;
    UnixTime timestamp() const noexcept;
    const LazyObject& metadata() const noexcept;
    /// Returns the text blocks, joined.
    std::string text() const;

    /// Returns this message with another id or run id. The rvalue form reuses the content of a message that has no
    /// other copies instead of copying it.
    Message with_id(std::string id) const&;
    Message with_id(std::string id) &&;
    Message with_run_id(SharedString run_id) const&;
    Message with_run_id(SharedString run_id) &&;
    /// Returns this message with another time, in Unix seconds.
    Message with_timestamp(double timestamp) const&;
    Message with_timestamp(double timestamp) &&;

    /// Compares the content (the same object, or the same fields).
    friend bool operator==(const Message& a, const Message& b);
    /// Returns true if both are the same object, i.e. copies of one another.
    bool is_same(const Message& other) const noexcept { return rep_ == other.rep_; }

    struct Rep;

private:
    template <class Holder, class M>
    static const Rep* make(M&& message);
    template <class F>
    auto visit(F&& f) const;
    template <class F>
    bool edit_unshared(F&& f);
    void retain() const noexcept;
    void release() noexcept;
    const Rep* rep_ = nullptr;
};

/// Returns a user message with one text block. Set `id` to make the input identifiable (D42).
Message user_message(std::string text, std::string id = {});
/// Returns an image for a message: of an http(s) URL, or of its bytes. The media type is "image/png", for example.
ImageContent image_url(std::string url);
ImageContent image_bytes(std::string_view bytes, std::string media_type);
/// Returns a user message with a text and further blocks:
/// `user_message("What is this?", image_url("https://example.com/cat.png")).with_id("input-1")`.
Message user_message(std::string text, ContentList<Content> blocks);
/// Does the same without braces, which g++ 12 does not compile correctly in an awaited expression.
template <class... Blocks>
    requires(sizeof...(Blocks) > 0 &&
             ((std::is_same_v<Blocks, ImageContent> || std::is_same_v<Blocks, TextContent>) && ...))
Message user_message(std::string text, Blocks... blocks) {
    ContentList<Content> list;
    (list.emplace_back(std::move(blocks)), ...);
    return user_message(std::move(text), std::move(list));
}
/// Returns a message that the framework inserts by itself, marked so that clients can hide it: metadata `synthetic` =
/// true and `synthetic_source` = `source`.
Message synthetic_user_message(std::string text, std::string_view source);
bool is_synthetic_message(const Message& message) noexcept;

/// The result of a tool. The user-declared constructors make it safe inside awaited expressions with g++ 12 (see
/// docs/guides/coroutines.md).
struct AgentToolResult {
    AgentToolResult() = default;
    AgentToolResult(std::string text) { content.emplace_back(TextContent{std::move(text)}); }
    AgentToolResult(const char* text) : AgentToolResult(std::string(text)) {}
    AgentToolResult(Content block) { content.push_back(std::move(block)); }
    AgentToolResult(ContentList<Content> blocks) : content(std::move(blocks)) {}
    /// Returns a result that reports a failure of the call to the model.
    static AgentToolResult error(std::string text);

    ContentList<Content> content = {};  ///< for the model
    Json details = {};                  ///< for the host; stored, never sent to the model
    std::optional<bool> is_error = {};
    std::optional<bool> terminate = {};  ///< end the run if every result of the batch has this set

    std::string text() const;
};

JsonObject to_json(const AgentToolResult& result);

}  // namespace cubepi
