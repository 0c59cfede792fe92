#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <cubepi/core/message.hpp>

// The fields of stored messages, read in one pass from any format that has objects, lists and texts.

namespace cubepi::detail {

/// Thrown for a message that is not of the common form: the plain reader of the format reads it, or throws.
struct Unusual {};

/// Reads messages of the common form, in which the first member of an object is its kind, as both systems write it, and each
/// field has its own type. Returns what message_from_json() returns for the same message, and throws Unusual for any other
/// form. One object reads many messages, one after another, and shares the texts that they have in common (run id, model,
/// tool names).
///
/// `Members` visits the members of an object, in their order:
///
///     bool next()                       advances to the first member, then to the next; returns false at the end
///     bool is(std::string_view name)    compares the key
///     std::string_view key()
///     Value value()                     must be read exactly once
///     void complete(LazyObject& metadata) is called when all members of the message are read; may change its metadata
///
/// `Members::Value` reads the value of a member or an item of a list. Its functions throw if the value has another type:
///
///     bool take_null()                  returns true if the value is null; otherwise the value must still be read
///     std::string_view text()           valid until the next message is read
///     bool flag()
///     std::int64_t integer()
///     double number()                   of an integer, too
///     Json json()
///     JsonObject object()
///     Members members()
///     void each_item(f)                 calls f(Value) for each item of a list
template <class Members>
class MessageFields {
public:
    Message read(Members& from) {
        const std::string_view role = first_text(from, "role");
        if (role == "assistant") return read_assistant(from);
        if (role == "tool_result") return read_tool_result(from);
        if (role == "user") return read_user(from);
        throw Unusual();
    }

private:
    using Value = typename Members::Value;

    /// The last value of a text that adjacent messages repeat.
    class Recent {
    public:
        const SharedString& get(std::string_view text) {
            if (!(last_ == text)) last_ = SharedString(text);
            return last_;
        }

    private:
        SharedString last_;
    };

    /// Returns the value of the first member, which must have that name.
    static std::string_view first_text(Members& members, std::string_view name) {
        if (!members.next() || !members.is(name)) throw Unusual();
        return members.value().text();
    }

    static std::string_view text_or_nothing(Value value) {
        return value.take_null() ? std::string_view() : value.text();
    }

    static void require_null(Value value) {
        if (!value.take_null()) throw Unusual();
    }

    static UnixTime time_of(Value value) {
        if (value.take_null()) return {};
        return value.number();
    }

    /// Stores a member that has no field. `kind` is the key that determines the kind: a second one would replace the first.
    static void keep(LazyObject& extra, Members& members, std::string_view kind) {
        const std::string_view key = members.key();
        if (key == kind) throw Unusual();
        extra[key] = members.value().json();
    }

    static std::optional<Usage> usage_of(Value value) {
        if (value.take_null()) return std::nullopt;
        Usage usage;
        Members members = value.members();
        while (members.next()) {
            TokenCount* const count = count_of(usage, members);
            if (!count) throw Unusual();
            *count = TokenCount(members.value().integer());
        }
        return usage;
    }

    static TokenCount* count_of(Usage& usage, const Members& members) {
        if (members.is("input_tokens")) return &usage.input_tokens;
        if (members.is("output_tokens")) return &usage.output_tokens;
        if (members.is("cache_read_tokens")) return &usage.cache_read_tokens;
        if (members.is("cache_write_tokens")) return &usage.cache_write_tokens;
        if (members.is("reasoning_tokens")) return &usage.reasoning_tokens;
        if (members.is("cache_write_1h_tokens")) return &usage.cache_write_1h_tokens;
        return nullptr;
    }

    template <class M, class Blocks>
    static Message made_of(M& message, Blocks& blocks, Members& from) {
        from.complete(message.metadata);
        Message made(std::move(message));
        // NOLINTNEXTLINE(bugprone-use-after-move): Message leaves the list reusable
        blocks = std::move(message.content);
        return made;
    }

    Message read_user(Members& from) {
        UserMessage message;
        message.content = std::move(user_blocks_);
        bool has_content = false;
        while (from.next()) {
            if (from.is("content")) {
                read_content(message.content, from.value());
                has_content = true;
            } else if (!read_common(message, from)) {
                keep(message.extra, from, "role");
            }
        }
        if (!has_content) throw Unusual();
        return made_of(message, user_blocks_, from);
    }

    Message read_tool_result(Members& from) {
        ToolResultMessage message;
        message.content = std::move(user_blocks_);
        bool has_content = false, has_call = false, has_name = false;
        while (from.next()) {
            if (from.is("content")) {
                read_content(message.content, from.value());
                has_content = true;
            } else if (from.is("tool_call_id")) {
                message.tool_call_id = from.value().text();
                has_call = true;
            } else if (from.is("tool_name")) {
                message.tool_name = tool_name_.get(from.value().text());
                has_name = true;
            } else if (from.is("details")) {
                message.details = from.value().json();
            } else if (from.is("is_error")) {
                message.is_error = from.value().flag();
            } else if (!read_common(message, from)) {
                keep(message.extra, from, "role");
            }
        }
        if (!has_content || !has_call || !has_name) throw Unusual();
        return made_of(message, user_blocks_, from);
    }

    Message read_assistant(Members& from) {
        AssistantMessage message;
        message.content = std::move(assistant_blocks_);
        bool has_content = false;
        while (from.next()) {
            if (from.is("content")) {
                read_content(message.content, from.value());
                has_content = true;
            } else if (from.is("stop_reason")) {
                message.stop_reason = stop_reason::shared(from.value().text());
            } else if (is_error_key(from)) {
                require_null(from.value());
            } else if (from.is("usage")) {
                message.usage = usage_of(from.value());
            } else if (from.is("provider_id")) {
                message.provider_id = provider_id_.get(from.value().text());
            } else if (from.is("model_id")) {
                message.model_id = model_id_.get(from.value().text());
            } else if (from.is("response_id")) {
                message.response_id = SharedString(text_or_nothing(from.value()));
            } else if (!read_common(message, from)) {
                keep(message.extra, from, "role");
            }
        }
        if (!has_content) throw Unusual();
        return made_of(message, assistant_blocks_, from);
    }

    static bool is_error_key(const Members& from) {
        return from.is("error_message") || from.is("error_type") || from.is("error_code") ||
               from.is("status_code") || from.is("retry_after") || from.is("tokens_in") ||
               from.is("context_window");
    }

    /// Reads a member that all roles have. Returns false if the key is not one of these.
    template <class M>
    bool read_common(M& message, Members& from) {
        if (from.is("id")) {
            message.id = text_or_nothing(from.value());
        } else if (from.is("timestamp")) {
            message.timestamp = time_of(from.value());
        } else if (from.is("metadata")) {
            message.metadata = from.value().object();
        } else if (from.is("run_id")) {
            message.run_id = run_id_.get(text_or_nothing(from.value()));
        } else {
            return false;
        }
        return true;
    }

    template <class Block>
    void read_content(ContentList<Block>& content, Value value) {
        content.clear();
        value.each_item([&](auto item) {
            Members members = item.members();
            read_block(content, first_text(members, "type"), members);
        });
    }

    void read_block(ContentList<Content>& content, std::string_view type, Members& from) {
        if (type == "text") {
            content.emplace_back(read_text(from));
        } else if (type == "image") {
            content.emplace_back(read_image(from));
        } else {
            throw Unusual();
        }
    }

    void read_block(ContentList<AssistantContent>& content, std::string_view type, Members& from) {
        if (type == "text") {
            content.emplace_back(read_text(from));
        } else if (type == "tool_call") {
            content.emplace_back(read_tool_call(from));
        } else if (type == "thinking") {
            content.emplace_back(read_thinking(from));
        } else if (type == "image") {
            content.emplace_back(read_image(from));
        } else {
            throw Unusual();
        }
    }

    static TextContent read_text(Members& from) {
        TextContent block;
        while (from.next()) {
            if (from.is("text")) {
                block.text = std::string(from.value().text());
            } else {
                keep(block.extra, from, "type");
            }
        }
        return block;
    }

    static ThinkingContent read_thinking(Members& from) {
        ThinkingContent block;
        while (from.next()) {
            if (from.is("thinking")) {
                block.thinking = std::string(from.value().text());
            } else {
                keep(block.extra, from, "type");
            }
        }
        return block;
    }

    ImageContent read_image(Members& from) {
        ImageContent block;
        while (from.next()) {
            if (from.is("source")) {
                block.source = std::string(from.value().text());
            } else if (from.is("media_type")) {
                block.media_type = media_type_.get(from.value().text());
            } else {
                keep(block.extra, from, "type");
            }
        }
        return block;
    }

    ToolCall read_tool_call(Members& from) {
        ToolCall block;
        bool has_id = false, has_name = false, has_arguments = false;
        while (from.next()) {
            if (from.is("id")) {
                block.id = from.value().text();
                has_id = true;
            } else if (from.is("name")) {
                block.name = call_name_.get(from.value().text());
                has_name = true;
            } else if (from.is("arguments")) {
                block.arguments = from.value().object();
                has_arguments = true;
            } else {
                keep(block.extra, from, "type");
            }
        }
        if (!has_id || !has_name || !has_arguments) throw Unusual();
        return block;
    }

    Recent run_id_, tool_name_, call_name_, provider_id_, model_id_, media_type_;
    // The buffers in which the blocks are collected.
    ContentList<Content> user_blocks_;
    ContentList<AssistantContent> assistant_blocks_;
};

}  // namespace cubepi::detail
