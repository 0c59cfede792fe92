#include <bub/tape/detail/message_entries.hpp>

#include <algorithm>
#include <utility>

#include <bub/tape/detail/entry_facts.hpp>
#include <bub/tape/detail/json_text.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/message_json.hpp>

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

void add_result_entry(const std::vector<std::string>& calls, const std::vector<Message>& results,
                      std::vector<TapeEntry>& to) {
    JsonArray texts;
    const auto add_text = [&](const Message& message) { texts.emplace_back(message.text()); };
    for (const std::string& call : calls) {
        for (const Message& message : results) {
            if (message.tool_result()->tool_call_id == call) {
                add_text(message);
                break;
            }
        }
    }
    if (calls.empty()) add_text(results.back());
    JsonObject payload;
    payload["results"] = std::move(texts);
    to.push_back(tape_entry(entry_kind::tool_result, std::move(payload), meta_of(results, 1)));
}

}  // namespace

bool MessageEntries::expects(const std::string& call_id) const {
    return std::find(calls_.begin(), calls_.end(), call_id) != calls_.end();
}

void MessageEntries::add(const Message& message, std::vector<TapeEntry>& to) {
    std::vector<Message> one(1, message);
    if (message.tool_result()) {
        add_result(message, meta_of(one, 1), to);
        return;
    }
    calls_.clear();
    results_.clear();
    JsonObject meta = meta_of(one, 1);
    const AssistantMessage* answer = message.assistant();
    if (answer && answer->has_tool_calls()) {
        add_calls(*answer, std::move(meta), to);
        return;
    }
    std::string text = message.text();
    // An answer that failed before its first word is kept, but no request can hold an empty one.
    if (answer && text.empty()) meta["context"] = false;
    to.push_back(message_entry(answer ? "assistant" : "user", std::move(text), std::move(meta)));
}

void MessageEntries::add_calls(const AssistantMessage& answer, JsonObject meta,
                               std::vector<TapeEntry>& to) {
    JsonArray calls;
    for (const ToolCall* call : answer.tool_calls()) {
        calls.push_back(call_json(*call));
        calls_.push_back(call->id);
    }
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
        add_result_entry({}, alone, to);
        return;
    }
    results_.push_back(message);
    const bool whole = std::all_of(calls_.begin(), calls_.end(), [&](const std::string& call) {
        return std::any_of(results_.begin(), results_.end(), [&](const Message& one) {
            return one.tool_result()->tool_call_id == call;
        });
    });
    if (whole) {
        add_result_entry(calls_, results_, to);
        calls_.clear();
        results_.clear();
        return;
    }
    JsonObject data;
    data["tool_call_id"] = result.tool_call_id.str();
    data["name"] = result.tool_name.str();
    to.push_back(event_entry(result_event, std::move(data), hidden_from_context(std::move(meta))));
}

void MessageEntries::resume(const std::vector<TapeEntry>& newest_first) {
    calls_.clear();
    results_.clear();
    std::vector<Message> results;
    for (const TapeEntry& entry : newest_first) {
        std::vector<Message> kept = messages_in(entry);
        if (is_single_result(entry)) {
            results.insert(results.end(), kept.begin(), kept.end());
        } else if (entry.kind == entry_kind::tool_call && !kept.empty()) {
            if (const AssistantMessage* answer = kept.front().assistant()) {
                for (const ToolCall* call : answer->tool_calls()) calls_.push_back(call->id);
            }
            results_.assign(results.rbegin(), results.rend());
            return;
        } else if (entry.kind == entry_kind::message || entry.kind == entry_kind::tool_result) {
            return;
        }
    }
}

std::vector<Message> messages_in(const TapeEntry& entry) {
    std::vector<Message> messages;
    const JsonArray* kept = kept_messages(entry);
    if (!kept) return messages;
    for (const Json& json : *kept) {
        try {
            messages.push_back(message_from_json(json));
        } catch (const Error&) {
            // Somebody has edited the line: the payload still says what was said.
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
    if (!kept_messages(entry)) return found;
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
