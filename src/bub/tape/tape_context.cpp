#include <bub/tape/tape_context.hpp>

#include <utility>

#include <bub/tape/entry/entry_walk.hpp>
#include <bub/tape/entry/json_text.hpp>
#include <cubepi/core/support/json_member.hpp>

namespace bub {

using cubepi::detail::text_member;
using detail::EntryWalk;

namespace {

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

}  // namespace bub
