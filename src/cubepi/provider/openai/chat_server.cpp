#include <string>
#include <utility>

#include <cubepi/provider/openai/server_api.hpp>
#include <cubepi/provider/openai/server_requests.hpp>
#include <cubepi/schema/json_text.hpp>

namespace cubepi::detail {

namespace {

/// Reads the calls of a message of the assistant.
void read_calls(const JsonObject& from, const std::string& path, OpenAIClientMessage& message) {
    const Json* const calls = from.if_contains("tool_calls");
    if (!calls || calls->is_null()) return;
    const std::string place = path + ".tool_calls";
    if (!calls->is_array() || calls->get_array().size() > most_client_tools)
        throw OpenAIRequestError(place, "must be a list of at most 128 calls");
    for (std::size_t i = 0; i < calls->get_array().size(); ++i) {
        const std::string at = place + "[" + std::to_string(i) + "]";
        const Json& call = calls->get_array()[i];
        if (!call.is_object()) throw OpenAIRequestError(at, "must be an object");
        const JsonObject& object = call.get_object();
        OpenAIClientCall read = read_client_call(client_function(object, at), at);
        read.id = client_call_id(object, "id", at);
        message.calls.push_back(std::move(read));
    }
}

void read_message(const Json& value, const std::string& path, OpenAIClientRequest& request) {
    if (!value.is_object()) throw OpenAIRequestError(path, "must be an object");
    const JsonObject& from = value.get_object();
    const std::string role = client_text(from, "role", path, most_client_name);
    OpenAIClientMessage message;
    message.is_answer = role == "assistant";
    if (message.is_answer) read_calls(from, path, message);
    read_client_content(from, "content", path, message);
    if (role == "tool") message.output_of = client_call_id(from, "tool_call_id", path);
    add_client_message(request, role == "tool" ? "user" : role, std::move(message), path);
}

void append_event(const JsonObject& data, std::string& out) {
    out += "data: " + json_text(data) + "\n\n";
}

}  // namespace

OpenAIClientRequest read_openai_chat_request(std::string_view text) {
    const JsonObject body = read_client_body(text);
    OpenAIClientRequest request = read_client_settings(body);
    refuse_client_member(body, "n", Json(1));
    for (const char* const name : {"audio", "logprobs", "web_search_options"})
        refuse_client_member(body, name);
    if (const JsonObject* const format = client_object(body, "response_format")) {
        if (client_text(*format, "type", "response_format", most_client_name) != "text")
            throw OpenAIRequestError("response_format", "only the type 'text' is supported");
    }
    if (const JsonObject* const options = client_object(body, "stream_options"))
        request.includes_usage = client_flag(*options, "include_usage", false);
    const Json* const messages = body.if_contains("messages");
    if (!messages || !messages->is_array() || messages->get_array().size() > most_client_messages)
        throw OpenAIRequestError("messages", "must be a list of at most 4000 messages");
    for (std::size_t i = 0; i < messages->get_array().size(); ++i)
        read_message(messages->get_array()[i], "messages[" + std::to_string(i) + "]", request);
    check_last_message(request, "messages");
    return request;
}

namespace {

JsonObject usage_json(const OpenAIReplyUsage& usage) {
    JsonObject made;
    made["prompt_tokens"] = usage.input;
    made["completion_tokens"] = usage.output;
    made["total_tokens"] = usage.input + usage.output;
    made["prompt_tokens_details"] = JsonObject{{"cached_tokens", usage.cached}};
    made["completion_tokens_details"] = JsonObject{{"reasoning_tokens", usage.reasoning}};
    return made;
}

}  // namespace

JsonObject OpenAIChatWriter::completion(std::string_view text, std::string_view finish) const {
    JsonObject message;
    message["role"] = "assistant";
    message["content"] = text.empty() && !calls_.empty() ? Json(nullptr) : Json(text);
    message["refusal"] = nullptr;
    if (!calls_.empty()) message["tool_calls"] = calls_;
    JsonObject choice;
    choice["index"] = 0;
    choice["message"] = std::move(message);
    choice["logprobs"] = nullptr;
    choice["finish_reason"] = finish;
    JsonArray choices;
    choices.push_back(std::move(choice));
    JsonObject body;
    body["id"] = head_.id;
    body["object"] = "chat.completion";
    body["created"] = head_.created;
    body["model"] = head_.model;
    body["choices"] = std::move(choices);
    if (usage_) body["usage"] = usage_json(*usage_);
    return body;
}

JsonObject OpenAIChatWriter::chunk(JsonArray choices) const {
    JsonObject body;
    body["id"] = head_.id;
    body["object"] = "chat.completion.chunk";
    body["created"] = head_.created;
    body["model"] = head_.model;
    body["choices"] = std::move(choices);
    if (includes_usage_) body["usage"] = nullptr;
    return body;
}

void OpenAIChatWriter::append_delta(JsonObject delta, Json finish, std::string& out) const {
    JsonObject choice;
    choice["index"] = 0;
    choice["delta"] = std::move(delta);
    choice["logprobs"] = nullptr;
    choice["finish_reason"] = std::move(finish);
    JsonArray choices;
    choices.push_back(std::move(choice));
    append_event(chunk(std::move(choices)), out);
}

void OpenAIChatWriter::begin(std::string& out) {
    if (std::exchange(has_begun_, true)) return;
    JsonObject delta;
    delta["role"] = "assistant";
    delta["content"] = "";
    append_delta(std::move(delta), nullptr, out);
}

void OpenAIChatWriter::add_text(std::string_view text, std::string& out) {
    begin(out);
    JsonObject delta;
    delta["content"] = text;
    append_delta(std::move(delta), nullptr, out);
}

void OpenAIChatWriter::add_call(const OpenAIClientCall& call, std::string& out) {
    begin(out);
    JsonObject function;
    function["name"] = call.name;
    function["arguments"] = call.arguments;
    JsonObject made;
    made["id"] = call.id;
    made["type"] = "function";
    made["function"] = std::move(function);
    JsonObject indexed = made;
    indexed["index"] = static_cast<std::int64_t>(calls_.size());
    calls_.push_back(std::move(made));
    JsonObject delta;
    delta["tool_calls"] = JsonArray();
    delta["tool_calls"].as_array().push_back(std::move(indexed));
    append_delta(std::move(delta), nullptr, out);
}

void OpenAIChatWriter::finish(std::string_view finish, std::string& out) {
    begin(out);
    append_delta(JsonObject(), Json(finish), out);
    if (includes_usage_ && usage_) {
        JsonObject last = chunk(JsonArray());
        last["usage"] = usage_json(*usage_);
        append_event(last, out);
    }
    out += "data: [DONE]\n\n";
}

void OpenAIChatWriter::fail(std::string_view message, std::string& out) {
    append_event(openai_error(500, message), out);
    out += "data: [DONE]\n\n";
}

}  // namespace cubepi::detail
