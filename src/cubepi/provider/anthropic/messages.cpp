#include <cubepi/provider/anthropic/messages_api.hpp>

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include <cubepi/core/support/json_member.hpp>
#include <cubepi/provider/wire/encoding.hpp>

namespace cubepi::detail {

namespace {

/// The API refuses texts without a visible character.
bool is_blank(std::string_view text) {
    return text.find_first_not_of(" \t\r\n\v\f") == std::string_view::npos;
}

JsonObject image_block(const ImageContent& image) {
    JsonObject source;
    if (is_url(image.source)) {
        source["type"] = "url";
        source["url"] = image.source;
    } else {
        source["type"] = "base64";
        source["media_type"] = image.media_type.str();
        source["data"] = image.source;
    }
    JsonObject block = typed("image");
    block["source"] = std::move(source);
    return block;
}

JsonArray content_blocks(const ContentList<Content>& content) {
    JsonArray blocks;
    for (const Content& part : content) {
        if (const auto* text = std::get_if<TextContent>(&part)) {
            if (!is_blank(text->text)) blocks.push_back(typed_text("text", text->text));
        } else if (const auto* image = std::get_if<ImageContent>(&part)) {
            blocks.push_back(image_block(*image));
        }
    }
    return blocks;
}

JsonObject message_of(std::string_view role, JsonArray content) {
    JsonObject message;
    message["role"] = role;
    message["content"] = std::move(content);
    return message;
}

/// Claude's models are one family wherever they run; other models are their provider's.
std::string_view family_of(std::string_view model_id, std::string_view provider_id) {
    return model_id.find("claude") != std::string_view::npos ? "claude" : provider_id;
}

/// A block of an answer, with the members that the endpoint sent and that have no place in ours.
JsonObject answer_block(std::string_view type, const LazyObject& extra, bool own) {
    const Json* members = own ? extra.find(anthropic_members_key) : nullptr;
    JsonObject block = members && members->is_object() ? members->get_object() : JsonObject();
    block["type"] = type;
    return block;
}

JsonObject text_to_wire(const TextContent& text, bool own) {
    JsonObject block = answer_block("text", text.extra, own);
    block["text"] = text.text;
    const Json* citations = own ? text.extra.find(citations_key) : nullptr;
    if (citations) block[citations_key] = *citations;
    return block;
}

/// Thinking as received from the endpoint, with a signature if it signs. `unsigned_as_text`: the signature may have been lost, and
/// an endpoint that signs would reject the thinking. Thinking of another family is omitted.
std::optional<JsonObject> thinking_to_wire(const ThinkingContent& thinking, bool own,
                                           bool unsigned_as_text = false) {
    if (!own) return std::nullopt;
    if (const Json* data = thinking.extra.find(redacted_key)) {
        JsonObject block = typed("redacted_thinking");
        block["data"] = *data;
        return block;
    }
    const Json* signature = thinking.extra.find(signature_key);
    if (!signature && is_blank(thinking.thinking)) return std::nullopt;
    if (!signature && unsigned_as_text) return typed_text("text", thinking.thinking);
    JsonObject block = answer_block("thinking", thinking.extra, own);
    block["thinking"] = thinking.thinking;
    if (signature) block["signature"] = *signature;
    return block;
}

/// Returns whether an answer may end within its last block.
bool may_be_cut(const AssistantMessage& answer) {
    return answer.stop_reason != stop_reason::stop && answer.stop_reason != stop_reason::tool_use;
}

JsonObject call_to_wire(const ToolCall& call, std::string_view id, bool own) {
    JsonObject block = answer_block("tool_use", call.extra, own);
    block["id"] = id;
    block["name"] = call.name.str();
    block["input"] = call.arguments;
    const Json* caller = own ? call.extra.find("caller") : nullptr;
    if (caller) block["caller"] = *caller;
    return block;
}

/// Inserts the blocks of an unknown kind before block `before` again.
void add_foreign(JsonArray& blocks, const JsonArray& foreign, std::size_t before,
                 bool with_compaction = true) {
    for (const Json& item : foreign) {
        const JsonObject* entry = item.if_object();
        const Json* at = entry ? entry->if_contains("before") : nullptr;
        const Json* block = entry ? entry->if_contains("block") : nullptr;
        if (!at || !at->is_number() || !block || !block->is_object()) continue;
        if (!with_compaction && string_member(block->get_object(), "type") == "compaction")
            continue;
        if (at->to_number<double>() == static_cast<double>(before)) blocks.push_back(*block);
    }
}

class Writer {
public:
    Writer(const ModelRequest& request, bool with_compaction)
        : request_(request), with_compaction_(with_compaction) {
        made_.source = request.messages;
        while (!made_.source.empty()) {
            const AssistantMessage* last = made_.source.back().assistant();
            if (!last || !last->content.empty()) break;
            made_.source.truncate(made_.source.size() - 1);
        }
    }

    AnthropicMessages run() {
        made_.places.resize(made_.source.size());
        for (std::size_t i = 0; i < made_.source.size(); ++i) {
            const Message& message = made_.source[i];
            if (const ToolResultMessage* result = message.tool_result()) {
                add(*result, i);
                continue;
            }
            close_results();
            if (const UserMessage* user = message.user())
                put("user", content_blocks(with_sender(*user)), i);
            if (const AssistantMessage* answer = message.assistant()) add(*answer, i);
        }
        close_results();
        return std::move(made_);
    }

private:
    struct OpenCall {
        std::string id;
        std::string wire_id;
    };

    void put(std::string_view role, JsonArray blocks, std::size_t source) {
        if (blocks.empty()) return;
        made_.places[source] = AnthropicMessages::Place{made_.wire.size(), 0, blocks.size() - 1};
        made_.wire.push_back(message_of(role, std::move(blocks)));
    }

    void add(const AssistantMessage& answer, std::size_t source) {
        const bool own = same_anthropic_family(answer, request_.model);
        const JsonArray* foreign = own ? foreign_blocks(answer) : nullptr;
        JsonArray blocks;
        for (std::size_t i = 0; i < answer.content.size(); ++i) {
            if (foreign) add_foreign(blocks, *foreign, i, with_compaction_);
            const AssistantContent& part = answer.content[i];
            if (const auto* text = std::get_if<TextContent>(&part)) {
                if (!is_blank(text->text)) blocks.push_back(text_to_wire(*text, own));
            } else if (const auto* thinking = std::get_if<ThinkingContent>(&part)) {
                // It was cut off with its answer, or came by another API, such as OpenAI's of a gateway.
                const bool lost = (i + 1 == answer.content.size() && may_be_cut(answer)) ||
                                  (!answer.provider_id.empty() &&
                                   answer.provider_id != request_.model.provider_id);
                if (auto block = thinking_to_wire(*thinking, own, lost))
                    blocks.push_back(std::move(*block));
            } else if (const auto* call = std::get_if<ToolCall>(&part)) {
                open_.push_back(OpenCall{call->id, wire_id(call->id, own)});
                blocks.push_back(call_to_wire(*call, open_.back().wire_id, own));
            } else {
                leave_out_image(source);
            }
        }
        if (foreign) add_foreign(blocks, *foreign, answer.content.size(), with_compaction_);
        put("assistant", std::move(blocks), source);
    }

    /// Blocks of an answer that was broken off may lack what belongs to them.
    static const JsonArray* foreign_blocks(const AssistantMessage& answer) {
        if (answer.stop_reason == stop_reason::error || answer.stop_reason == stop_reason::aborted)
            return nullptr;
        const Json* entry = answer.extra.find(foreign_blocks_key);
        return entry ? entry->if_array() : nullptr;
    }

    void leave_out_image(std::size_t source) {
        Notice notice = request_changed(
            "An image in an answer was omitted: this endpoint accepts images from users and tools "
            "only",
            "messages");
        notice.details["message"] = source;
        made_.notices.push_back(std::move(notice));
    }

    /// Ids may have letters, digits, "_" and "-", and must be unique in a conversation; those of other providers have
    /// other characters, or restart with each answer. The endpoint's own ids are returned unchanged.
    std::string wire_id(std::string_view id, bool own) {
        std::string made(id);
        for (char& c : made) {
            if (own) break;
            const bool fits = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                              (c >= '0' && c <= '9') || c == '_' || c == '-';
            if (!fits) c = '_';
        }
        if (made.empty()) made = "call";
        std::string unique = made;
        for (int n = 2; !used_ids_.insert(unique).second; ++n)
            unique = made + "_" + std::to_string(n);
        return unique;
    }

    void add(const ToolResultMessage& result, std::size_t source) {
        const auto call = std::find_if(open_.begin(), open_.end(), [&](const OpenCall& open) {
            return open.id == result.tool_call_id;
        });
        if (call == open_.end()) {
            made_.notices.push_back(repaired("A result of tool call " + result.tool_call_id +
                                                 " was omitted because it has no call",
                                             result.tool_call_id));
            return;
        }
        JsonObject block =
            result_block(call->wire_id, content_blocks(result.content), result.is_error);
        open_.erase(call);
        made_.places[source] =
            AnthropicMessages::Place{made_.wire.size(), results_.size(), results_.size()};
        results_.push_back(std::move(block));
    }

    static JsonObject result_block(const std::string& wire_id, JsonArray content, bool is_error) {
        JsonObject block = typed("tool_result");
        block["tool_use_id"] = wire_id;
        if (!content.empty()) block["content"] = std::move(content);
        block["is_error"] = is_error;
        return block;
    }

    /// All results of an answer are one message; a call without one gets one (D1).
    void close_results() {
        for (const OpenCall& call : open_) {
            JsonArray text;
            text.push_back(typed_text("text", interrupted_result));
            results_.push_back(result_block(call.wire_id, std::move(text), true));
            made_.notices.push_back(result_missing(call.id));
        }
        open_.clear();
        if (!results_.empty())
            made_.wire.push_back(message_of("user", std::exchange(results_, JsonArray())));
    }

    const ModelRequest& request_;
    const bool with_compaction_;
    AnthropicMessages made_;
    std::vector<OpenCall> open_;
    JsonArray results_;
    std::set<std::string> used_ids_;
};

}  // namespace

bool same_anthropic_family(const AssistantMessage& answer, const Model& model) {
    if (answer.provider_id.empty()) return true;
    return family_of(answer.model_id, answer.provider_id) == family_of(model.id, model.provider_id);
}

AnthropicMessages anthropic_messages(const ModelRequest& request, bool with_compaction) {
    return Writer(request, with_compaction).run();
}

JsonArray anthropic_content(const AssistantMessage& answer) {
    JsonArray blocks;
    const Json* entry = answer.extra.find(foreign_blocks_key);
    const JsonArray none;
    const JsonArray& foreign = entry && entry->is_array() ? entry->get_array() : none;
    for (std::size_t i = 0; i < answer.content.size(); ++i) {
        add_foreign(blocks, foreign, i);
        const AssistantContent& part = answer.content[i];
        if (const auto* text = std::get_if<TextContent>(&part)) {
            blocks.push_back(text_to_wire(*text, true));
        } else if (const auto* thinking = std::get_if<ThinkingContent>(&part)) {
            if (auto block = thinking_to_wire(*thinking, true)) blocks.push_back(std::move(*block));
        } else if (const auto* call = std::get_if<ToolCall>(&part)) {
            blocks.push_back(call_to_wire(*call, call->id, true));
        }
    }
    add_foreign(blocks, foreign, answer.content.size());
    return blocks;
}

}  // namespace cubepi::detail
