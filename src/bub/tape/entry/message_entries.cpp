#include <bub/tape/entry/message_entries.hpp>

#include <utility>

#include <bub/tape/entry/entry_fields.hpp>
#include <bub/tape/support/encoding.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/message_json.hpp>
#include <cubepi/core/support/json_member.hpp>

namespace bub::detail {

using namespace cubepi;

namespace {

JsonObject meta_of(const std::vector<Message>& messages, std::int64_t count) {
    JsonArray list;
    for (const Message& message : messages) list.push_back(to_json(message));
    JsonObject ours;
    ours["count"] = count;
    ours["messages"] = std::move(list);
    JsonObject meta;
    if (!messages.back().run_id().empty()) meta["run_id"] = messages.back().run_id().str();
    meta[meta_key] = std::move(ours);
    return meta;
}

JsonObject call_json(const ToolCall& call) {
    std::string arguments;
    append_json_text(arguments, call.arguments);
    JsonObject function;
    function["name"] = call.name.str();
    function["arguments"] = std::move(arguments);
    JsonObject json;
    json["id"] = call.id.str();
    json["type"] = "function";
    json["function"] = std::move(function);
    return json;
}

constexpr std::size_t no_result = static_cast<std::size_t>(-1);

TapeEntry result_entry(JsonArray texts, const std::vector<Message>& results) {
    JsonObject payload;
    payload["results"] = std::move(texts);
    return tape_entry(entry_kind::tool_result, std::move(payload), meta_of(results, 1));
}

}  // namespace

bool MessageEntries::expects(const std::string& call_id) const {
    return result_of_.contains(call_id);
}

void MessageEntries::forget() {
    calls_.clear();
    results_.clear();
    result_of_.clear();
    held_.clear();
    missing_ = 0;
}

void MessageEntries::end_batch(std::vector<TapeEntry>& to) {
    JsonArray texts;
    for (const std::string& call : calls_) texts.emplace_back(results_[result_of_.at(call)].text());
    to.push_back(result_entry(std::move(texts), results_));
    for (auto held = held_.rbegin(); held != held_.rend(); ++held) {
        const JsonObject* const anchor = cubepi::detail::object_member(held->payload, "data");
        if (!anchor) continue;
        const JsonObject* const state = cubepi::detail::object_member(*anchor, "state");
        std::optional<JsonObject> copy;
        if (state) copy = *state;
        std::string name = cubepi::detail::text_member(*anchor, "name");
        for (TapeEntry& entry : handoff_entries(std::move(name), std::move(copy)))
            to.push_back(std::move(entry));
    }
    forget();
}

void MessageEntries::expect_calls(const AssistantMessage& answer) {
    for (const ToolCall* call : answer.tool_calls()) {
        calls_.push_back(call->id);
        if (result_of_.emplace(calls_.back(), no_result).second) ++missing_;
    }
}

void MessageEntries::keep_result(const Message& message) {
    results_.push_back(message);
    std::size_t& first = result_of_.at(message.tool_result()->tool_call_id);
    if (first != no_result) return;
    first = results_.size() - 1;
    --missing_;
}

void MessageEntries::add(const Message& message, std::vector<TapeEntry>& to) {
    std::vector<Message> one(1, message);
    if (message.tool_result()) {
        add_result(message, meta_of(one, 1), to);
        return;
    }
    forget();
    JsonObject meta = meta_of(one, 1);
    const AssistantMessage* answer = message.assistant();
    if (answer && answer->has_tool_calls()) {
        add_calls(*answer, std::move(meta), to);
        return;
    }
    std::string text = message.text();
    // An answer that failed before its first word is stored, but a request cannot contain an empty message.
    if (answer && text.empty()) meta["context"] = false;
    to.push_back(message_entry(answer ? "assistant" : "user", std::move(text), std::move(meta)));
}

void MessageEntries::add_calls(const AssistantMessage& answer, JsonObject meta,
                               std::vector<TapeEntry>& to) {
    JsonArray calls;
    for (const ToolCall* call : answer.tool_calls()) calls.push_back(call_json(*call));
    expect_calls(answer);
    JsonObject payload;
    payload["content"] = answer.text();
    payload["calls"] = std::move(calls);
    to.push_back(tape_entry(entry_kind::tool_call, std::move(payload), std::move(meta)));
}

void MessageEntries::add_result(const Message& message, JsonObject meta,
                                std::vector<TapeEntry>& to) {
    const ToolResultMessage& result = *message.tool_result();
    if (!expects(result.tool_call_id)) {
        const std::vector<Message> alone(1, message);
        JsonArray text;
        text.emplace_back(message.text());
        to.push_back(result_entry(std::move(text), alone));
        return;
    }
    keep_result(message);
    if (missing_ == 0) return end_batch(to);
    JsonObject data;
    data["tool_call_id"] = result.tool_call_id.str();
    data["name"] = result.tool_name.str();
    to.push_back(event_entry(result_event, std::move(data), hidden_from_context(std::move(meta))));
}

void MessageEntries::resume(const std::vector<TapeEntry>& newest_first) {
    forget();
    std::vector<Message> results;
    for (const TapeEntry& entry : newest_first) {
        std::vector<Message> stored = messages_in(entry);
        if (is_single_result(entry)) {
            results.insert(results.end(), stored.begin(), stored.end());
        } else if (entry.kind == entry_kind::event && entry_name(entry) == held_anchor_event) {
            held_.push_back(entry);
        } else if (entry.kind == entry_kind::tool_call && !stored.empty()) {
            if (const AssistantMessage* answer = stored.front().assistant()) expect_calls(*answer);
            for (auto result = results.rbegin(); result != results.rend(); ++result) {
                const ToolResultMessage* one = result->tool_result();
                if (one && expects(one->tool_call_id)) keep_result(*result);
            }
            return;
        } else if (entry.kind == entry_kind::tool_result ||
                   (entry.kind == entry_kind::message && !follows_open_calls(entry))) {
            held_.clear();
            return;
        }
    }
    held_.clear();
}

std::vector<TapeEntry> handoff_entries(std::string name, std::optional<JsonObject> state,
                                       JsonObject meta) {
    JsonObject data;
    data["name"] = name;
    data["state"] = state.value_or(JsonObject());
    std::vector<TapeEntry> entries;
    entries.push_back(anchor_entry(std::move(name), std::move(state), meta));
    entries.push_back(event_entry("handoff", std::move(data), std::move(meta)));
    return entries;
}

std::vector<Message> messages_in(const TapeEntry& entry) {
    std::vector<Message> messages;
    const JsonArray* stored = stored_messages(entry);
    if (!stored) return messages;
    for (const Json& json : *stored) {
        try {
            messages.push_back(message_from_json(json));
        } catch (const Error&) {
            // The line was edited by hand: the payload still has the text.
            return {};
        }
    }
    return messages;
}

bool is_single_result(const TapeEntry& entry) {
    return entry.kind == entry_kind::event && entry_name(entry) == result_event;
}

std::vector<JsonObject*> image_blocks(TapeEntry& entry) {
    std::vector<JsonObject*> found;
    if (!stored_messages(entry)) return found;
    for (Json& message : entry.meta.at(meta_key).get_object().at("messages").get_array()) {
        JsonObject* object = message.if_object();
        Json* content = object ? object->if_contains("content") : nullptr;
        if (!content || !content->is_array()) continue;
        for (Json& block : content->get_array()) {
            JsonObject* part = block.if_object();
            const Json* type = part ? part->if_contains("type") : nullptr;
            if (type && type->is_string() && type->get_string() == "image" &&
                part->contains("source") && part->at("source").is_string())
                found.push_back(part);
        }
    }
    return found;
}

}  // namespace bub::detail
