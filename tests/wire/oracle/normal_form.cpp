#include "normal_form.hpp"

#include <initializer_list>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace cubepi::wire {

namespace {

const Json* at(const Json& value, std::string_view key) {
    return value.is_object() ? value.get_object().if_contains(key) : nullptr;
}

std::string text_at(const Json& value, std::string_view key) {
    const Json* found = at(value, key);
    return found && found->is_string() ? std::string(found->get_string()) : std::string();
}

const JsonArray& list_at(const Json& value, std::string_view key) {
    static const JsonArray none;
    const Json* found = at(value, key);
    return found && found->is_array() ? found->get_array() : none;
}

std::int64_t number_at(const Json& value, std::string_view key) {
    const Json* found = at(value, key);
    return found && found->is_number() ? found->to_number<std::int64_t>() : 0;
}

/// Arguments as JSON, or as text if they are not JSON.
Json arguments_of(const std::string& text) {
    if (text.empty()) return JsonObject();
    boost::json::error_code error;
    Json parsed = boost::json::parse(text, error);
    return error ? Json(text) : parsed;
}

/// Removes empty members.
Json without_blanks(const Json& value) {
    if (!value.is_object()) return value;
    JsonObject result;
    for (const auto& [key, member] : value.get_object()) {
        const bool blank = member.is_null() ||
                           (member.is_string() && member.get_string().empty()) ||
                           (member.is_array() && member.get_array().empty());
        if (!blank) result[key] = member;
    }
    return result;
}

JsonObject usage_of(const Json& answer, std::initializer_list<std::string_view> names) {
    JsonObject usage;
    const Json* reported = at(answer, "usage");
    for (const std::string_view name : names)
        usage[name] = reported ? number_at(*reported, name) : 0;
    return usage;
}

std::int64_t detail_of(const Json& answer, std::string_view group, std::string_view name) {
    const Json* usage = at(answer, "usage");
    const Json* details = usage ? at(*usage, group) : nullptr;
    return details ? number_at(*details, name) : 0;
}

JsonObject of_anthropic(const Json& answer) {
    JsonObject form;
    form["id"] = text_at(answer, "id");
    JsonArray content;
    for (const Json& block : list_at(answer, "content")) content.push_back(without_blanks(block));
    form["content"] = std::move(content);
    form["stop_reason"] = text_at(answer, "stop_reason");
    form["stop_sequence"] = text_at(answer, "stop_sequence");
    form["usage"] = usage_of(answer, {"input_tokens", "output_tokens", "cache_read_input_tokens",
                                      "cache_creation_input_tokens"});
    return form;
}

JsonObject of_chat(const Json& answer) {
    JsonObject form;
    form["id"] = text_at(answer, "id");
    const JsonArray& choices = list_at(answer, "choices");
    const Json none;
    const Json& choice = choices.empty() ? none : choices.front();
    const Json* message = at(choice, "message");
    if (message) {
        // Ours stores a refusal as text.
        form["text"] = text_at(*message, "content") + text_at(*message, "refusal");
        JsonArray calls;
        for (const Json& call : list_at(*message, "tool_calls")) {
            const Json* function = at(call, "function");
            JsonObject one;
            one["id"] = text_at(call, "id");
            one["name"] = function ? text_at(*function, "name") : std::string();
            one["arguments"] = arguments_of(function ? text_at(*function, "arguments") : "");
            calls.push_back(std::move(one));
        }
        form["calls"] = std::move(calls);
    }
    form["finish_reason"] = text_at(choice, "finish_reason");
    form["usage"] = usage_of(answer, {"prompt_tokens", "completion_tokens"});
    form["cached"] = detail_of(answer, "prompt_tokens_details", "cached_tokens");
    return form;
}

JsonObject of_response_item(const Json& item) {
    JsonObject form;
    const std::string type = text_at(item, "type");
    form["type"] = type;
    if (type == "message") {
        std::string text;
        for (const Json& part : list_at(item, "content"))
            text += text_at(part, "text") + text_at(part, "refusal");
        form["text"] = text;
    } else if (type == "function_call") {
        form["call_id"] = text_at(item, "call_id");
        form["name"] = text_at(item, "name");
        form["arguments"] = arguments_of(text_at(item, "arguments"));
    } else if (type == "reasoning") {
        std::string text;
        for (const char* key : {"summary", "content"}) {
            for (const Json& part : list_at(item, key)) text += text_at(part, "text");
        }
        form["text"] = text;
        form["encrypted_content"] = text_at(item, "encrypted_content");
    } else {
        form["item"] = without_blanks(item);
    }
    form["id"] = text_at(item, "id");
    return form;
}

JsonObject of_response(const Json& answer) {
    JsonObject form;
    form["id"] = text_at(answer, "id");
    JsonArray output;
    for (const Json& item : list_at(answer, "output")) output.push_back(of_response_item(item));
    form["output"] = std::move(output);
    form["status"] = text_at(answer, "status");
    form["usage"] = usage_of(answer, {"input_tokens", "output_tokens"});
    form["cached"] = detail_of(answer, "input_tokens_details", "cached_tokens");
    return form;
}

}  // namespace

JsonObject normal_form(const std::string& provider, const Json& answer) {
    if (provider == "anthropic") return of_anthropic(answer);
    if (provider == "openai-chat") return of_chat(answer);
    if (provider == "openai-responses") return of_response(answer);
    throw std::runtime_error("no normal form for provider " + provider);
}

}  // namespace cubepi::wire
