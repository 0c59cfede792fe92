#include <bub/tape/tape_context.hpp>

#include <iterator>
#include <utility>

#include <bub/tape/entry/message_entries.hpp>
#include <bub/tape/support/encoding.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/message_json.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/schema/python_json.hpp>

// The context of a tape: as messages of a request, and as messages of an agent.

namespace bub {

using namespace cubepi;
using cubepi::detail::array_member;
using cubepi::detail::object_member;
using cubepi::detail::text_member;

namespace {

JsonArray objects_at(const JsonObject& object, std::string_view key) {
    JsonArray found;
    const JsonArray* list = array_member(object, key);
    if (!list) return found;
    for (const Json& item : *list) {
        if (item.is_object()) found.push_back(item);
    }
    return found;
}

std::string result_text(const Json& result) {
    if (const auto* text = result.if_string()) return std::string(*text);
    std::string text;
    detail::append_json_text(text, result);
    return text;
}

/// Returns a text of the call's function: its name or its arguments.
std::string function_text(const JsonObject& call, std::string_view key) {
    const JsonObject* function = object_member(call, "function");
    return function ? text_member(*function, key) : std::string();
}

/// Visits entries in order and passes what a model sees of each to a `To`: to its functions anchor(), message(), calls() and
/// result(). Tracks the calls that wait for results.
template <class To>
class EntryWalk {
public:
    explicit EntryWalk(To& to) : to_(to) {}

    void entry(const TapeEntry& entry) {
        if (entry.kind == entry_kind::anchor) {
            to_.anchor(entry);
        } else if (entry.kind == entry_kind::message) {
            to_.message(entry);
        } else if (entry.kind == entry_kind::tool_call) {
            pending_ = objects_at(entry.payload, "calls");
            if (!pending_.empty()) to_.calls(entry, pending_);
        } else if (entry.kind == entry_kind::tool_result) {
            results(entry);
        }
    }
    void forget_calls() { pending_.clear(); }

private:
    void results(const TapeEntry& entry) {
        const JsonArray* list = array_member(entry.payload, "results");
        if (!list) return;
        static const JsonObject none;
        std::size_t position = 0;
        for (const Json& result : *list) {
            const JsonObject& call =
                position < pending_.size() ? pending_[position].get_object() : none;
            to_.result(entry, result_text(result), text_member(call, "id"),
                       function_text(call, "name"));
            ++position;
        }
        pending_.clear();
    }

    To& to_;
    JsonArray pending_;
};

struct ToChat {
    JsonArray messages;

    void anchor(const TapeEntry& entry) {
        JsonObject message;
        message["role"] = "user";
        message["content"] = anchor_text(entry);
        messages.push_back(std::move(message));
    }
    void message(const TapeEntry& entry) { messages.push_back(entry.payload); }
    void calls(const TapeEntry& entry, const JsonArray& calls) {
        JsonObject message;
        message["role"] = "assistant";
        message["content"] = text_member(entry.payload, "content");
        message["tool_calls"] = calls;
        messages.push_back(std::move(message));
    }
    void result(const TapeEntry&, std::string text, std::string call_id, std::string name) {
        JsonObject message;
        message["role"] = "tool";
        message["content"] = std::move(text);
        if (!call_id.empty()) message["tool_call_id"] = std::move(call_id);
        if (!name.empty()) message["name"] = std::move(name);
        messages.push_back(std::move(message));
    }
};

}  // namespace

std::string anchor_text(const TapeEntry& anchor) {
    std::string text = "[Anchor created: " + std::string(entry_name(anchor)) + "]: ";
    const Json* state = anchor.payload.if_contains("state");
    detail::append_json_text(text, state ? *state : Json());
    return text;
}

JsonArray context_messages(const std::vector<TapeEntry>& entries) {
    ToChat chat;
    EntryWalk<ToChat> walk(chat);
    for (const TapeEntry& entry : entries) {
        if (is_in_context(entry)) walk.entry(entry);
    }
    return std::move(chat.messages);
}

namespace {

std::optional<double> time_of(const TapeEntry& entry) {
    const std::optional<std::int64_t> time = detail::parse_date(entry.date);
    if (!time) return std::nullopt;
    return static_cast<double>(*time) / 1e6;
}

Content text_content(std::string text) {
    TextContent block;
    block.text = std::move(text);
    return block;
}

/// Converts a part of a message in OpenAI's format: text, or an image by URL or data URL.
std::optional<Content> part_of(const JsonObject& part) {
    const std::string type = text_member(part, "type");
    if (type == "text") return text_content(text_member(part, "text"));
    const Json* image = part.if_contains("image_url");
    if (type != "image_url" || !image) return std::nullopt;
    std::string url = image->is_object() ? text_member(image->get_object(), "url") : std::string();
    if (image->is_string()) url = std::string(image->get_string());
    ImageContent block;
    const std::size_t comma = url.find(";base64,");
    if (url.starts_with("data:") && comma != url.npos) {
        block.media_type = url.substr(5, comma - 5);
        url.erase(0, comma + 8);
    }
    block.source = std::move(url);
    return block;
}

ContentList<Content> content_of(const JsonObject& payload) {
    ContentList<Content> content;
    const Json* value = payload.if_contains("content");
    if (value && value->is_string()) {
        content.push_back(text_content(std::string(value->get_string())));
    } else if (value && value->is_array()) {
        for (const Json& part : value->get_array()) {
            const JsonObject* object = part.if_object();
            if (std::optional<Content> block = object ? part_of(*object) : std::nullopt)
                content.push_back(std::move(*block));
        }
    }
    return content;
}

ToolCall call_of(const JsonObject& call) {
    ToolCall made;
    made.id = text_member(call, "id");
    made.name = function_text(call, "name");
    const std::string arguments = function_text(call, "arguments");
    try {
        Json json = parse_lenient(arguments.empty() ? "{}" : arguments);
        if (JsonObject* object = json.if_object()) {
            made.arguments = std::move(*object);
            return made;
        }
    } catch (const Error&) {
        // D4: stored separately, so that it does not invalidate a request.
    }
    made.extra["raw_arguments"] = arguments;
    return made;
}

/// The anchor for an agent. It is a user message (B10), and its text is the model's own, so the message says that.
std::string labelled_anchor(const TapeEntry& entry) {
    const JsonObject* state = object_member(entry.payload, "state");
    // Written by the program alone: a hand-off of a model has a summary and nothing else.
    if (state && text_member(*state, "owner") == "human") return anchor_text(entry);
    return anchor_text(entry) + "\n" + std::string(hand_off_label);
}

struct ToAgent {
    MessageList messages;

    void anchor(const TapeEntry& entry) {
        UserMessage message = *synthetic_user_message(labelled_anchor(entry), "anchor").user();
        message.timestamp = time_of(entry);
        messages.push_back(std::move(message));
    }
    void message(const TapeEntry& entry) {
        const std::string role = text_member(entry.payload, "role");
        ContentList<Content> content = content_of(entry.payload);
        if (role == "tool") {
            std::string text;
            for (const Content& block : content) {
                if (const auto* part = std::get_if<TextContent>(&block)) text += part->text;
            }
            result(entry, std::move(text), text_member(entry.payload, "tool_call_id"),
                   text_member(entry.payload, "name"));
        } else if (role == "assistant") {
            AssistantMessage message;
            for (Content& block : content) {
                std::visit([&](auto& one) { message.content.emplace_back(std::move(one)); }, block);
            }
            message.timestamp = time_of(entry);
            // Output before the interruption of a turn is not an answer (B9).
            if (entry.meta.contains("interrupted"))
                message.stop_reason = stop_reason::shared(stop_reason::aborted);
            messages.push_back(std::move(message));
        } else {
            UserMessage message;
            message.content = std::move(content);
            message.timestamp = time_of(entry);
            messages.push_back(std::move(message));
        }
    }
    void calls(const TapeEntry& entry, const JsonArray& calls) {
        AssistantMessage message;
        std::string text = text_member(entry.payload, "content");
        if (!text.empty()) {
            TextContent block;
            block.text = std::move(text);
            message.content.emplace_back(std::move(block));
        }
        for (const Json& call : calls) message.content.emplace_back(call_of(call.get_object()));
        message.stop_reason = stop_reason::shared(stop_reason::tool_use);
        message.timestamp = time_of(entry);
        messages.push_back(std::move(message));
    }
    void result(const TapeEntry& entry, std::string text, std::string call_id, std::string name) {
        ToolResultMessage message;
        message.tool_call_id = std::move(call_id);
        message.tool_name = std::move(name);
        message.content.push_back(text_content(std::move(text)));
        message.timestamp = time_of(entry);
        messages.push_back(std::move(message));
    }
};

/// A list of stored and created messages in a legal order (D1): nothing between calls and their results.
class AgentWalk {
public:
    void add(const TapeEntry& entry) {
        if (open_ > 0 && follows_open_calls(entry)) {
            waiting_.push_back(entry);
            return;
        }
        std::vector<Message> stored = detail::messages_in(entry);
        if (detail::is_single_result(entry)) {
            // They count only if the entry of their whole batch is missing.
            std::move(stored.begin(), stored.end(), std::back_inserter(singles_));
        } else if (!stored.empty()) {
            walk_.forget_calls();
            if (stored.front().tool_result()) {
                singles_.clear();
            } else {
                end_batch();
            }
            for (Message& message : stored) push(std::move(message));
        } else if (is_in_context(entry)) {
            add_foreign(entry);
        }
    }
    MessageList take() {
        if (open_ > 0) waiting_.clear();
        end_batch();
        return std::move(made_.messages);
    }

private:
    void add_foreign(const TapeEntry& entry) {
        if (entry.kind == entry_kind::anchor && open_ > 0) {
            // A hand-off made by one of the calls.
            late_.push_back(entry);
            return;
        }
        if (entry.kind == entry_kind::message || entry.kind == entry_kind::tool_call) end_batch();
        walk_.entry(entry);
    }
    void push(Message message) {
        if (const AssistantMessage* answer = message.assistant())
            open_ = answer->tool_calls().size();
        if (message.tool_result() && open_ > 0) --open_;
        made_.messages.push_back(std::move(message));
        if (open_ == 0) end_batch();
    }
    void end_batch() {
        for (Message& message : singles_) made_.messages.push_back(std::move(message));
        singles_.clear();
        open_ = 0;
        for (const TapeEntry& entry : late_) walk_.entry(entry);
        late_.clear();
        for (const TapeEntry& entry : std::exchange(waiting_, {})) add(entry);
    }

    ToAgent made_;
    EntryWalk<ToAgent> walk_{made_};
    std::size_t open_ = 0;
    std::vector<Message> singles_;
    std::vector<TapeEntry> late_;
    std::vector<TapeEntry> waiting_;  ///< messages that were recorded while the calls were open
};

}  // namespace

MessageList agent_messages(const std::vector<TapeEntry>& entries) {
    AgentWalk walk;
    for (const TapeEntry& entry : entries) walk.add(entry);
    return walk.take();
}

}  // namespace bub
